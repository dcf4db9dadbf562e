//! Ground truth for what can happen to a thread: it is moved to another CPU while it sleeps, it
//! execs although it is not its process's leader, its leader ends before it.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use phux_trace_tests::procfs::{Account, sleeps};
use phux_trace_tests::{truth, wait_for};
use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use serde::Serialize;

#[derive(Debug, Parser)]
struct Options {
    #[arg(long, value_enum)]
    what: What,
    /// How often a thread sleeps, or is moved.
    #[arg(long, default_value_t = 100)]
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// A thread sleeps on CPU 0, is woken on CPU 1 where a hog runs, and the other way round.
    Wander,
    /// The hog: spins on CPU 1 until its parent ends.
    Hog,
    /// A thread that is not the leader execs.
    ThreadExec,
    /// What it becomes.
    AfterExec,
    /// The leader ends, another thread works on; the process exits with 7 at the end.
    LeaderExits,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    match options.what {
        What::Wander => wander(options.count),
        What::Hog => hog(),
        What::ThreadExec => thread_exec(options.count),
        What::AfterExec => after_exec(options.count),
        What::LeaderExits => leader_exits(options.count),
    }
}

#[derive(Debug, Serialize)]
struct Wandered {
    tid: u32,
    /// Its run-queue waits after it was woken on the hog's CPU, ns, by the kernel's account.
    behind_hog_ns: u64,
    /// All its run-queue waits.
    all_ns: u64,
}

fn wander(count: u64) -> io::Result<()> {
    let mut hog = Command::new(std::env::current_exe()?)
        .args(["--what", "hog"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut word = [0; 4];
    hog.stdout
        .take()
        .ok_or_else(|| io::Error::other("no output"))?
        .read_exact(&mut word)?;
    let pid = std::process::id();
    let (read, write) = rustix::pipe::pipe()?;
    let (tell, told) = mpsc::channel();
    let wanderer = thread::Builder::new().name("wanderer".into()).spawn(
        move || -> io::Result<(u64, u64)> {
            // Less important than the hog: it waits long enough to be measured.
            rustix::process::setpriority_process(None, 10)?;
            let tid = my_tid();
            let delay = || Ok::<_, io::Error>(Account::of(pid, tid)?.run_delay_ns);
            let _ = tell.send(tid);
            let (mut behind_hog, first) = (0, delay()?);
            for nth in 0..count {
                let before = delay()?;
                rustix::io::read(&read, &mut [0])?;
                if nth % 2 == 0 {
                    behind_hog += delay()? - before;
                }
            }
            let all = delay()? - first;
            // Stays, asleep, until its account is read.
            rustix::io::read(&read, &mut [0])?;
            Ok((behind_hog, all))
        },
    )?;
    let tid = told.recv().map_err(io::Error::other)?;
    truth::ready()?;
    for nth in 0..count {
        let asleep = || sleeps(pid, tid).then_some(());
        wait_for(Duration::from_secs(60), asleep)
            .ok_or_else(|| io::Error::other("never sleeps"))?;
        pin(Some(tid), if nth % 2 == 0 { 1 } else { 0 })?;
        rustix::io::write(&write, b".")?;
    }
    rustix::io::write(&write, b".")?;
    let (behind_hog_ns, all_ns) = wanderer
        .join()
        .map_err(|_| io::Error::other("the wanderer panicked"))??;
    truth::done(&Wandered {
        tid,
        behind_hog_ns,
        all_ns,
    })?;
    hog.kill()?;
    hog.wait()?;
    Ok(())
}

fn hog() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_name(c"hog")?;
    pin(None, 1)?;
    println!("hog");
    loop {
        std::hint::spin_loop();
    }
}

fn thread_exec(count: u64) -> io::Result<()> {
    truth::ready()?;
    let execer = thread::spawn(move || -> io::Result<()> {
        nap(count);
        let count = count.to_string();
        Err(Command::new(std::env::current_exe()?)
            .args(["--what", "after-exec", "--count", &count])
            .exec())
    });
    execer
        .join()
        .map_err(|_| io::Error::other("the thread panicked"))?
}

fn after_exec(count: u64) -> io::Result<()> {
    nap(count);
    let pid = std::process::id();
    truth::done(&Account::of(pid, pid)?)
}

#[derive(Debug, Serialize)]
struct Survivor {
    tid: u32,
}

fn leader_exits(count: u64) -> io::Result<()> {
    truth::ready()?;
    thread::spawn(move || {
        nap(count);
        let told = truth::done(&Survivor { tid: my_tid() });
        std::process::exit(if told.is_ok() { 7 } else { 1 });
    });
    // SAFETY: ends this thread alone, without unwinding; nothing borrows from its stack.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    Ok(())
}

fn nap(times: u64) {
    for _ in 0..times {
        let until = Instant::now() + Duration::from_micros(100);
        while Instant::now() < until {}
        thread::sleep(Duration::from_millis(5));
    }
}

fn pin(tid: Option<u32>, cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    let thread = tid.and_then(|t| Pid::from_raw(t.cast_signed()));
    Ok(sched_setaffinity(thread, &only)?)
}

fn my_tid() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}
