//! Ground truth for what can happen to a PTY: closed and opened again under the same number,
//! either end closed first, read through /dev/tty, the same number in two devpts instances.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Parser, ValueEnum};
use phux_trace_tests::ptys::Pty;
use phux_trace_tests::truth;
use rustix::io::Errno;
use serde::Serialize;

#[derive(Debug, Parser)]
struct Options {
    #[arg(long, value_enum)]
    what: What,
    /// A second devpts instance.
    #[arg(long)]
    devpts: Option<PathBuf>,
    /// How often a PTY is opened, or a byte typed.
    #[arg(long, default_value_t = 20)]
    count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The same number again and again.
    Reopen,
    /// The slave's end closed, then another PTY's master.
    Hangup,
    /// A child reads from /dev/tty.
    DevTty,
    /// One number, two instances.
    Two,
}

/// What moved from slave to master, or back.
#[derive(Debug, Default, Serialize)]
struct Moved {
    index: u32,
    reads: u64,
    bytes: u64,
    /// Reads that failed, as the hang-up has it.
    failed: u64,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    truth::ready()?;
    let moved = match options.what {
        What::Reopen => reopen(options.count)?,
        What::Hangup => hangup()?,
        What::DevTty => dev_tty(options.count)?,
        What::Two => two(options.devpts.as_deref().unwrap_or(Path::new("/dev/pts")))?,
    };
    truth::done(&moved)
}

fn reopen(count: usize) -> io::Result<Vec<Moved>> {
    let mut by_index: BTreeMap<u32, Moved> = BTreeMap::new();
    for nth in 0..count {
        let pty = Pty::open()?;
        let sum = by_index.entry(pty.index).or_default();
        sum.index = pty.index;
        through(&pty, 100 + nth, sum)?;
    }
    Ok(by_index.into_values().collect())
}

fn hangup() -> io::Result<Vec<Moved>> {
    let mut first = Moved::default();
    let pty = Pty::open()?;
    first.index = pty.index;
    through(&pty, 10, &mut first)?;
    let Pty { master, slave, .. } = pty;
    drop(slave);
    first.failed += failed(&master);

    let mut second = Moved::default();
    let other = Pty::open()?;
    second.index = other.index;
    through(&other, 20, &mut second)?;
    let Pty {
        master: last,
        slave,
        ..
    } = other;
    drop(last);
    second.failed += failed(&slave);
    if rustix::io::write(&slave, b"x") != Err(Errno::IO) {
        return Err(io::Error::other("a write after the hang-up"));
    }
    // The first number is free only now: two PTYs, two rows.
    drop(master);
    Ok(vec![first, second])
}

/// 1 if a read fails or finds the end.
fn failed(end: &OwnedFd) -> u64 {
    u64::from(!matches!(rustix::io::read(end, &mut [0; 16]), Ok(1..)))
}

fn dev_tty(count: usize) -> io::Result<Vec<Moved>> {
    let pty = Pty::open()?;
    let mut child = Command::new("setsid")
        .args(["--ctty", "--wait", "dd", "if=/dev/tty", "bs=1"])
        .arg(format!("count={count}"))
        .stdin(Stdio::from(pty.slave.try_clone()?))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    for _ in 0..count {
        rustix::io::write(&pty.master, b"k")?;
    }
    if !child.wait()?.success() {
        return Err(io::Error::other("dd failed"));
    }
    Ok(vec![Moved {
        index: pty.index,
        reads: count as u64,
        bytes: count as u64,
        failed: 0,
    }])
}

fn two(devpts: &Path) -> io::Result<Vec<Moved>> {
    // Numbers begin at 0 in the new instance; the old one has taken some of them.
    let here = Pty::open()?;
    let mut others = Vec::new();
    let there = loop {
        let pty = Pty::open_in(devpts)?;
        if pty.index == here.index {
            break pty;
        }
        others.push(pty);
        if others.len() > 4000 {
            return Err(io::Error::other("the number never comes"));
        }
    };
    let mut moved = Vec::new();
    for (pty, size) in [(&here, 11), (&there, 1100)] {
        let mut sum = Moved {
            index: pty.index,
            ..Moved::default()
        };
        through(pty, size, &mut sum)?;
        moved.push(sum);
    }
    Ok(moved)
}

/// Moves `size` bytes from the slave to the master.
fn through(pty: &Pty, size: usize, sum: &mut Moved) -> io::Result<()> {
    let mut left = rustix::io::write(&pty.slave, &vec![b'x'; size])?;
    while left > 0 {
        let got = rustix::io::read(&pty.master, &mut [0; 4096])?;
        sum.reads += 1;
        sum.bytes += got as u64;
        left -= got;
    }
    Ok(())
}
