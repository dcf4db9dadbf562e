//! Ground truth for following: threads, forks and execs that come in bursts and go at once.

use std::io;
use std::process::Command;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use clap::Parser;
use phux_trace_tests::truth;
use serde::Serialize;

#[derive(Debug, Parser)]
struct Options {
    /// Bursts, one after the other.
    #[arg(long, default_value_t = 3)]
    bursts: usize,
    /// Threads per burst, all alive at once.
    #[arg(long, default_value_t = 20)]
    threads: usize,
    /// Forks without exec per burst.
    #[arg(long, default_value_t = 0)]
    forks: usize,
    /// Forks with exec (of true(1)) per burst.
    #[arg(long, default_value_t = 0)]
    execs: usize,
    /// How often each thread or fork without exec blocks, 1 ms at a time.
    #[arg(long, default_value_t = 2)]
    sleeps: u32,
    /// The threads stay, asleep, until the program ends.
    #[arg(long)]
    stay: bool,
}

#[derive(Debug, Default, Serialize)]
struct Truth {
    /// Thread ids, in the order of their making.
    tids: Vec<u32>,
    /// Processes forked without exec.
    forked: Vec<u32>,
    /// Processes that became true(1).
    execed: Vec<u32>,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    truth::ready()?;
    let mut truth = Truth::default();
    for _ in 0..options.bursts {
        truth.tids.extend(threads(&options)?);
        for _ in 0..options.forks {
            truth.forked.push(fork(options.sleeps)?);
        }
        for _ in 0..options.execs {
            let mut child = Command::new("true").spawn()?;
            truth.execed.push(child.id());
            child.wait()?;
        }
    }
    truth::done(&truth)
}

fn threads(options: &Options) -> io::Result<Vec<u32>> {
    let all_there = Arc::new(Barrier::new(options.threads));
    let (sleeps, stay) = (options.sleeps, options.stay);
    let (tell, told) = mpsc::channel();
    let handles = (0..options.threads)
        .map(|nth| {
            let (all_there, tell) = (all_there.clone(), tell.clone());
            thread::Builder::new()
                .name(format!("burst-{nth}"))
                .stack_size(64 << 10)
                .spawn(move || {
                    all_there.wait();
                    nap(sleeps);
                    let tid = my_tid();
                    let _ = tell.send(tid);
                    if stay {
                        loop {
                            thread::park();
                        }
                    }
                    tid
                })
        })
        .collect::<io::Result<Vec<_>>>()?;
    drop(tell);
    if stay {
        return Ok(told.iter().take(options.threads).collect());
    }
    handles
        .into_iter()
        .map(|h| h.join().map_err(|_| io::Error::other("a thread panicked")))
        .collect()
}

fn my_tid() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

fn nap(times: u32) {
    for _ in 0..times {
        thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Forks a child that naps and exits; gives its pid once it has gone.
fn fork(sleeps: u32) -> io::Result<u32> {
    // SAFETY: this program has one thread here (those of the burst are joined), so the child's
    // copy of it is whole; the child only sleeps and leaves through _exit.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            nap(sleeps);
            // SAFETY: ends the process at once; nothing runs after it.
            unsafe { libc::_exit(0) }
        }
        _ => {
            let child = rustix::process::Pid::from_raw(pid);
            rustix::process::waitpid(child, rustix::process::WaitOptions::empty())?;
            Ok(pid.unsigned_abs())
        }
    }
}
