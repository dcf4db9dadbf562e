//! Ground truth for echoes: types keys at a rate into programs on PTYs of its own, and keeps when
//! each was sent and when its echo was seen.
//!
//! Each PTY has a program of its own on its slave. One key at a time is under way on a PTY, so the
//! first output that holds the key's letter is its echo. What is printed is sizes and times.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use phux_trace_tests::ptys::{Pty, file};
use phux_trace_tests::truth;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{Winsize, tcsetwinsize};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Serialize;

#[derive(Debug, Parser)]
struct Options {
    /// PTYs, each with the program on it.
    #[arg(long, default_value_t = 1)]
    panes: usize,
    /// Keys in all.
    #[arg(long, default_value_t = 20)]
    keys: usize,
    /// Keys per second in all.
    #[arg(long, default_value_t = 50)]
    rate: u64,
    /// The program is there when this is among its output.
    #[arg(long)]
    shows: Option<String>,
    /// The keys, one after the other.
    #[arg(long, default_value = "qzxjkv")]
    letters: String,
    /// Echo what comes, one read a write: the program on the other side of --panes.
    #[arg(long)]
    echo: bool,
    /// The program.
    #[arg(last = true)]
    program: Vec<OsString>,
}

/// One key.
#[derive(Debug, Clone, Copy, Serialize)]
struct Key {
    /// N of /dev/pts/N.
    pty: u32,
    /// CLOCK_MONOTONIC before the write, ns.
    sent_ns: u64,
    /// After the write.
    written_ns: u64,
    /// When the read that held the echo had returned; 0: none came.
    seen_ns: u64,
}

#[derive(Debug, Serialize)]
struct Truth {
    keys: Vec<Key>,
    /// Keys that had to wait for their turn: the one before had not been echoed.
    late: u64,
}

/// A PTY and the program on it.
struct Pane {
    index: u32,
    master: std::fs::File,
    child: Child,
    /// The key under way: its place, and its letter.
    under_way: Option<(usize, u8)>,
}

/// Given up then: the tracer does too.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> io::Result<()> {
    let options = Options::parse();
    if options.echo {
        return echo();
    }
    let mut panes: Vec<Pane> = (0..options.panes)
        .map(|_| start(&options.program))
        .collect::<io::Result<_>>()?;
    if let Some(text) = &options.shows {
        for pane in &mut panes {
            wait_for(pane, text.as_bytes())?;
        }
    }
    truth::ready()?;
    let truth = type_keys(&options, &mut panes);
    // The programs live until the tracer has looked its last.
    let done = truth.and_then(|t| truth::done(&t));
    for pane in &mut panes {
        let _ = pane.child.kill();
        let _ = pane.child.wait();
    }
    done
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The program on a PTY whose slave is its controlling terminal.
fn start(program: &[OsString]) -> io::Result<Pane> {
    let [name, args @ ..] = program else {
        return Err(io::Error::other("no program"));
    };
    let pty = Pty::open()?;
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&pty.slave, size)?;
    let mut command = Command::new(name);
    command
        .args(args)
        .env("TERM", "xterm")
        .env_remove("TMUX")
        .env_remove("STY")
        .stdin(Stdio::from(pty.slave.try_clone()?))
        .stdout(Stdio::from(pty.slave.try_clone()?))
        .stderr(Stdio::from(pty.slave.try_clone()?));
    // SAFETY: both calls are async-signal-safe and touch no memory of ours.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
    Ok(Pane {
        index: pty.index,
        child: command.spawn()?,
        master: file(pty.master),
        under_way: None,
    })
}

/// Reads until `text` has come.
fn wait_for(pane: &mut Pane, text: &[u8]) -> io::Result<()> {
    let mut shown = Vec::new();
    let mut buf = [0; 65_536];
    while !shown.windows(text.len()).any(|w| w == text) {
        let n = pane.master.read(&mut buf)?;
        shown.extend_from_slice(&buf[..n]);
    }
    Ok(())
}

fn type_keys(options: &Options, panes: &mut [Pane]) -> io::Result<Truth> {
    let letters = options.letters.as_bytes();
    let gap = Duration::from_nanos(1_000_000_000 / options.rate.max(1));
    let mut keys: Vec<Key> = Vec::with_capacity(options.keys);
    let (mut late, mut seen) = (0, 0);
    let mut next = Instant::now();
    let mut last = next;
    let mut buf = vec![0; 65_536];
    while seen < options.keys {
        if keys.len() < options.keys && Instant::now() >= next {
            let place = keys.len();
            let pane = &mut panes[place % options.panes];
            if pane.under_way.is_none() {
                let letter = letters[place / options.panes % letters.len()];
                pane.under_way = Some((place, letter));
                let sent_ns = now_ns();
                rustix::io::write(&pane.master, &[letter])?;
                keys.push(Key {
                    pty: pane.index,
                    sent_ns,
                    written_ns: now_ns(),
                    seen_ns: 0,
                });
                // Keys that were late are not made up for: that would be a burst.
                next = (next + gap).max(Instant::now() - gap);
                last = Instant::now();
            } else {
                late += 1;
                next = Instant::now() + gap;
            }
        }
        if last.elapsed() > PATIENCE {
            break;
        }
        let wait = next.saturating_duration_since(Instant::now());
        let wait = if keys.len() < options.keys {
            wait
        } else {
            PATIENCE
        };
        for which in readable(panes, wait.min(PATIENCE))? {
            let n = panes[which].master.read(&mut buf)?;
            let pane = &mut panes[which];
            if let Some((place, letter)) = pane.under_way
                && buf[..n].contains(&letter)
            {
                keys[place].seen_ns = now_ns();
                pane.under_way = None;
                seen += 1;
                last = Instant::now();
            }
        }
    }
    Ok(Truth { keys, late })
}

fn readable(panes: &[Pane], wait: Duration) -> io::Result<Vec<usize>> {
    let mut fds: Vec<PollFd<'_>> = panes
        .iter()
        .map(|p| PollFd::new(&p.master, PollFlags::IN))
        .collect();
    let wait = Timespec {
        tv_sec: wait.as_secs() as i64,
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    poll(&mut fds, Some(&wait))?;
    let ready = fds.iter().enumerate();
    Ok(ready
        .filter(|(_, fd)| fd.revents().contains(PollFlags::IN))
        .map(|(i, _)| i)
        .collect())
}

/// A program that echoes each read by one write, on a terminal that does not.
fn echo() -> io::Result<()> {
    let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    let mut modes = rustix::termios::tcgetattr(stdin)?;
    modes.make_raw();
    rustix::termios::tcsetattr(stdin, rustix::termios::OptionalActions::Now, &modes)?;
    rustix::io::write(stdout, b"ready")?;
    let mut buf = [0; 4096];
    loop {
        let n = rustix::io::read(stdin, &mut buf)?;
        if n == 0 {
            return Ok(());
        }
        rustix::io::write(stdout, &buf[..n])?;
    }
}
