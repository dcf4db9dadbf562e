//! A load for the profiler: threads, PTYs, forks, execs, system calls, keys and lines, each alone or all
//! at once, and a count of all that was really done.
//!
//! Every part runs in a thread of its own. With `--seconds` all parts begin again until that time is
//! over. PTYs stay open until the end, so that no number is used twice.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Parser;
use phux_trace_tests::ptys::{Pty, file};
use phux_trace_tests::truth;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Parser)]
struct Options {
    /// Threads, all alive at once, each of which sleeps twice and ends.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// PTYs, all open at once.
    #[arg(long, default_value_t = 0)]
    ptys: usize,
    /// Messages each way through each of them.
    #[arg(long, default_value_t = 3)]
    messages: usize,
    /// Processes forked without exec, one after the other.
    #[arg(long, default_value_t = 0)]
    forks: u64,
    /// Processes that become true(1), one after the other.
    #[arg(long, default_value_t = 0)]
    execs: u64,
    /// Calls of lseek, which nothing else here makes.
    #[arg(long, default_value_t = 0)]
    calls: u64,
    /// How many of them a second; 0: as many as go.
    #[arg(long, default_value_t = 300_000)]
    call_rate: u64,
    /// Keys typed by a typist, who is a child of ours.
    #[arg(long, default_value_t = 0)]
    keys: u64,
    /// Over so many PTYs, each with a program that echoes.
    #[arg(long, default_value_t = 50)]
    panes: u64,
    /// Keys a second in all.
    #[arg(long, default_value_t = 1_000)]
    key_rate: u64,
    /// Lines that one thread prints on a PTY and another reads.
    #[arg(long, default_value_t = 0)]
    lines: u64,
    /// Begin again until so much time has passed.
    #[arg(long, default_value_t = 0)]
    seconds: u64,
}

/// All that was done.
#[derive(Debug, Default, Serialize)]
struct Truth {
    /// Threads of this process that have ended.
    threads: AtomicU64,
    /// Processes forked without exec, all ended.
    forked: AtomicU64,
    /// Processes that became another program, all ended; the typists and theirs too.
    execed: AtomicU64,
    /// lseek.
    calls: AtomicU64,
    /// Keys that were typed: writes of one byte on a master.
    keys: AtomicU64,
    /// Of these, seen to be echoed.
    echoed: AtomicU64,
    /// Calls and bytes on the PTYs of this process, both ends.
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl Truth {
    fn read(&self, mut from: &File, buf: &mut [u8]) -> io::Result<u64> {
        let n = from.read(buf)? as u64;
        self.reads.fetch_add(1, Relaxed);
        self.bytes_read.fetch_add(n, Relaxed);
        Ok(n)
    }

    fn write_all(&self, mut to: &File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = to.write(bytes)?;
            self.writes.fetch_add(1, Relaxed);
            self.bytes_written.fetch_add(n as u64, Relaxed);
            bytes = &bytes[n..];
        }
        Ok(())
    }
}

/// Both ends of a PTY.
struct Ends {
    master: File,
    slave: File,
    /// N of /dev/pts/N.
    index: u32,
}

impl Ends {
    fn open() -> io::Result<Ends> {
        let pty = Pty::open()?;
        Ok(Ends {
            master: file(pty.master),
            slave: file(pty.slave),
            index: pty.index,
        })
    }
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    truth: &'a Truth,
    /// The PTYs of this process.
    ptys: Vec<u32>,
    elapsed_ms: u128,
}

/// A part of the load: does it once.
type Part = Box<dyn FnMut(&Truth) -> io::Result<()> + Send>;

fn main() -> io::Result<()> {
    let options = Options::parse();
    let files = (options.ptys as u64 + options.panes) * 2 + 200;
    let limit = Rlimit {
        current: Some(files),
        maximum: Some(files),
    };
    setrlimit(Resource::Nofile, limit)?;
    let ptys: Arc<Vec<Ends>> = Arc::new(
        (0..options.ptys)
            .map(|_| Ends::open())
            .collect::<Result<_, _>>()?,
    );
    let flooded = Arc::new(Ends::open()?);
    truth::ready()?;

    let truth = Arc::new(Truth::default());
    let began = Instant::now();
    let over = began + Duration::from_secs(options.seconds);
    let mut parts: Vec<JoinHandle<io::Result<()>>> = Vec::new();
    for mut part in parts_of(&options, &ptys, &flooded) {
        let truth = truth.clone();
        parts.push(thread::spawn(move || {
            loop {
                part(&truth)?;
                if Instant::now() >= over {
                    truth.threads.fetch_add(1, Relaxed);
                    return Ok(());
                }
            }
        }));
    }
    for part in parts {
        joined(part)??;
    }
    let mut indexes: Vec<u32> = ptys.iter().map(|p| p.index).collect();
    indexes.push(flooded.index);
    truth::done(&Told {
        truth: &truth,
        ptys: indexes,
        elapsed_ms: began.elapsed().as_millis(),
    })
}

fn parts_of(options: &Options, ptys: &Arc<Vec<Ends>>, flooded: &Arc<Ends>) -> Vec<Part> {
    let o = options.clone();
    let mut parts: Vec<Part> = Vec::new();
    if o.threads != 0 {
        parts.push(Box::new(move |truth| threads(truth, o.threads)));
    }
    if o.ptys != 0 {
        let ptys = ptys.clone();
        parts.push(Box::new(move |truth| messages(truth, &ptys, o.messages)));
    }
    if o.forks != 0 {
        parts.push(Box::new(move |truth| forks(truth, o.forks)));
    }
    if o.execs != 0 {
        parts.push(Box::new(move |truth| execs(truth, o.execs)));
    }
    if o.calls != 0 {
        parts.push(Box::new(move |truth| calls(truth, o.calls, o.call_rate)));
    }
    if o.keys != 0 {
        let o = options.clone();
        parts.push(Box::new(move |truth| keys(truth, &o)));
    }
    if o.lines != 0 {
        let flooded = flooded.clone();
        parts.push(Box::new(move |truth| lines(truth, &flooded, o.lines)));
    }
    parts
}

fn joined<T>(thread: JoinHandle<T>) -> io::Result<T> {
    thread
        .join()
        .map_err(|_| io::Error::other("a thread panicked"))
}

fn threads(truth: &Truth, count: usize) -> io::Result<()> {
    let all_there = Arc::new(Barrier::new(count));
    let threads = (0..count)
        .map(|_| {
            let all_there = all_there.clone();
            thread::Builder::new().stack_size(64 << 10).spawn(move || {
                all_there.wait();
                thread::sleep(Duration::from_millis(1));
            })
        })
        .collect::<io::Result<Vec<_>>>()?;
    for thread in threads {
        joined(thread)?;
        truth.threads.fetch_add(1, Relaxed);
    }
    Ok(())
}

fn messages(truth: &Truth, ptys: &[Ends], messages: usize) -> io::Result<()> {
    let mut buf = [0; 4096];
    for nth in 0..messages {
        let message = vec![b'm'; 1 + nth % 100];
        for pty in ptys {
            for (from, to) in [(&pty.master, &pty.slave), (&pty.slave, &pty.master)] {
                truth.write_all(from, &message)?;
                let mut left = message.len() as u64;
                while left > 0 {
                    left -= truth.read(to, &mut buf)?;
                }
            }
        }
    }
    Ok(())
}

fn forks(truth: &Truth, count: u64) -> io::Result<()> {
    for _ in 0..count {
        // SAFETY: the child leaves at once through _exit, which is safe in a copy of a process with
        // other threads.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            // SAFETY: ends the process; nothing runs after it.
            0 => unsafe { libc::_exit(0) },
            pid => rustix::process::Pid::from_raw(pid),
        };
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty())?;
        truth.forked.fetch_add(1, Relaxed);
    }
    Ok(())
}

fn execs(truth: &Truth, count: u64) -> io::Result<()> {
    for _ in 0..count {
        Command::new("true").spawn()?.wait()?;
        truth.execed.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// In pieces of a thousandth of a second.
fn calls(truth: &Truth, count: u64, rate: u64) -> io::Result<()> {
    let mut zero = File::open("/dev/zero")?;
    let began = Instant::now();
    let piece = if rate == 0 {
        count
    } else {
        (rate / 1_000).max(1)
    };
    let mut done = 0;
    while done < count {
        let now = piece.min(count - done);
        for _ in 0..now {
            zero.stream_position()?;
        }
        truth.calls.fetch_add(now, Relaxed);
        done += now;
        if let Some(ns) = (done * 1_000_000_000).checked_div(rate) {
            let due = began + Duration::from_nanos(ns);
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    Ok(())
}

fn keys(truth: &Truth, options: &Options) -> io::Result<()> {
    let me = std::env::current_exe()?;
    let typist = me.parent().unwrap_or(Path::new(".")).join("typist");
    let number = |n: u64| n.to_string();
    let mut child = Command::new(&typist)
        .args(["--shows", "ready"])
        .args([
            "--keys",
            &number(options.keys),
            "--panes",
            &number(options.panes),
        ])
        .args(["--rate", &number(options.key_rate), "--"])
        .arg(&typist)
        .arg("--echo")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    let mut said = BufReader::new(stdout).lines();
    let mut line = || {
        said.next()
            .unwrap_or(Err(io::ErrorKind::UnexpectedEof.into()))
    };
    line()?;
    stdin.write_all(b"go\n")?;
    let typed: Value = serde_json::from_str(&line()?)?;
    drop(stdin);
    child.wait()?;
    let keys = typed["keys"].as_array().map_or(&[][..], Vec::as_slice);
    let seen = keys.iter().filter(|k| k["seen_ns"] != 0).count();
    truth.keys.fetch_add(keys.len() as u64, Relaxed);
    truth.echoed.fetch_add(seen as u64, Relaxed);
    truth.execed.fetch_add(1 + options.panes, Relaxed);
    Ok(())
}

/// Numbered, a line a write, as a program prints that knows that it is on a terminal.
fn lines(truth: &Truth, pty: &Arc<Ends>, count: u64) -> io::Result<()> {
    let text: Vec<String> = (1..=count).map(|n| format!("{n}\n")).collect();
    let mut left: u64 = text.iter().map(|line| line.len() as u64).sum();
    let to = pty.clone();
    thread::scope(|scope| {
        let print = |line: &String| truth.write_all(&to.slave, line.as_bytes());
        let printer = scope.spawn(move || text.iter().try_for_each(print));
        let mut buf = vec![0; 65_536];
        while left > 0 {
            left -= truth.read(&pty.master, &mut buf)?;
        }
        printer
            .join()
            .map_err(|_| io::Error::other("the printer panicked"))??;
        truth.threads.fetch_add(1, Relaxed);
        Ok(())
    })
}
