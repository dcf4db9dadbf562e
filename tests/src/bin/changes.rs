//! Ground truth for a process that becomes another one without exec: other ids, another namespace,
//! or a fork of itself whose parent ends. It uses a PTY before and after.

use std::io;

use clap::{Parser, ValueEnum};
use phux_trace_tests::ptys::Pty;
use phux_trace_tests::truth;
use serde::Serialize;

#[derive(Debug, Parser)]
struct Options {
    #[arg(long, value_enum)]
    what: What,
    /// Bytes that go through the PTY, one by one, before and after.
    #[arg(long, default_value_t = 50)]
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// From root to nobody.
    Uid,
    /// Into new mount, UTS, IPC and network namespaces.
    Namespace,
    /// A child goes on; the process ends with status 5.
    ForkAway,
}

#[derive(Debug, Serialize)]
struct Truth {
    /// Who used the PTY at last.
    pid: u32,
    index: u32,
    /// Reads of one byte at the master.
    reads: u64,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    truth::ready()?;
    let pty = Pty::open()?;
    through(&pty, options.count)?;
    match options.what {
        What::Uid => {
            // SAFETY: setresuid takes three numbers.
            checked(unsafe { libc::setresuid(65534, 65534, 65534) })?;
        }
        What::Namespace => {
            let all =
                libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC | libc::CLONE_NEWNET;
            // SAFETY: unshare takes a number.
            checked(unsafe { libc::unshare(all) })?;
        }
        What::ForkAway => {
            // SAFETY: this program has one thread, so the child may do what any program may.
            if checked(unsafe { libc::fork() })? != 0 {
                std::process::exit(5);
            }
        }
    }
    through(&pty, options.count)?;
    truth::done(&Truth {
        pid: std::process::id(),
        index: pty.index,
        reads: 2 * options.count,
    })
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn through(pty: &Pty, count: u64) -> io::Result<()> {
    for _ in 0..count {
        rustix::io::write(&pty.slave, b"x")?;
        rustix::io::read(&pty.master, &mut [0; 16])?;
    }
    Ok(())
}
