//! The least that a terminal multiplexer with a client and a server can do with a key: one process
//! holds the outer terminal, another one the inner PTY, and bytes go between them over a Unix
//! socket as they are. No frames, screens or telemetry. What an echo through this takes is the
//! floor for every such design; `scripts/bench/mux-compare.sh --mux relay` measures it.
//!
//! `relay CMD [ARG...]` runs CMD and ends with it.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::stdio::{stdin, stdout};
use rustix::termios::OptionalActions;

/// What the second process is called with.
const SERVER: &str = "--server";

fn main() -> anyhow::Result<()> {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|arg| arg == SERVER) {
        args.remove(0);
        return serve(&args);
    }
    let (ours, theirs) = UnixStream::pair()?;
    let mut server = Command::new(std::env::current_exe()?)
        .arg(SERVER)
        .args(&args)
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
    let before = rustix::termios::tcgetattr(stdin())?;
    let mut raw = before.clone();
    raw.make_raw();
    rustix::termios::tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
    pump(&stdin(), &ours, &ours, &stdout());
    rustix::termios::tcsetattr(stdin(), OptionalActions::Now, &before)?;
    drop(ours);
    server.wait()?;
    Ok(())
}

/// Holds the PTY, with the socket as standard input.
fn serve(args: &[OsString]) -> anyhow::Result<()> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name, flags, Mode::empty())?;
    let (program, args) = args
        .split_first()
        .ok_or_else(|| anyhow::anyhow!("no command"))?;
    let mut command = Command::new(program);
    command.args(args);
    command
        .stdin(slave.try_clone()?)
        .stdout(slave.try_clone()?)
        .stderr(slave);
    // SAFETY: two system calls between fork and exec, which touch no memory.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(stdin())?;
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    drop(command);
    pump(&stdin(), &master, &master, &stdin());
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Carries bytes from `a` to `b` and from `c` to `d` until one of them ends.
fn pump(a: &impl AsFd, b: &impl AsFd, c: &impl AsFd, d: &impl AsFd) {
    let mut buf = [0; 4096];
    loop {
        let mut fds = [PollFd::new(a, PollFlags::IN), PollFd::new(c, PollFlags::IN)];
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let [first, second] = fds.map(|fd| !fd.revents().is_empty());
        if (first && !carry(a, b, &mut buf)) || (second && !carry(c, d, &mut buf)) {
            return;
        }
    }
}

/// Carries what is there; `false` at the end.
fn carry(from: &impl AsFd, to: &impl AsFd, buf: &mut [u8]) -> bool {
    let Ok(len @ 1..) = rustix::io::read(from, &mut *buf) else {
        return false;
    };
    let mut left = buf.get(..len).unwrap_or_default();
    while !left.is_empty() {
        match rustix::io::write(to, left) {
            Ok(n) => left = left.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
