//! A PTY with a child on it, and the two threads that move its bytes.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Context;
use bytes::Bytes;
use phux_perf::hop;
use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};
use tokio::sync::mpsc;

use crate::perf::server::{
    INPUT_PTY_WRITE, INPUT_WRITER_QUEUE_WAIT, PTY_READ_BYTES, PTY_READ_SIZE, PTY_READER_BLOCKED,
};
use crate::perf::{self, Stopwatch};
use crate::term::Size;

/// What the reader asks for at a time, in bytes. Linux hands out 4,095 or so.
const READ_SIZE: usize = 16 * 1024;
/// Chunks between the reader and the actor.
pub(super) const CHUNK_QUEUE: usize = 128;
/// Pieces of input between the actor and the writer.
pub(super) const WRITER_QUEUE: usize = 64;

/// What one read returned.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) data: Bytes,
    pub(super) read_at: Stopwatch,
}

/// Bytes for the child.
#[derive(Debug)]
pub(super) struct ToChild {
    pub(super) data: Bytes,
    pub(super) queued_at: Stopwatch,
}

/// The PTY's end that the server holds, and the child on the other one.
#[derive(Debug)]
pub(super) struct Pty {
    pub(super) master: OwnedFd,
    pub(super) child: tokio::process::Child,
}

/// What to run, and with what.
#[derive(Debug)]
pub(super) struct Spawn<'a> {
    pub(super) argv: Option<Vec<String>>,
    pub(super) cwd: Option<String>,
    pub(super) size: Size,
    pub(super) socket: &'a std::path::Path,
    pub(super) session: &'a str,
}

/// Starts a child on a PTY of its own.
///
/// # Errors
/// Where there is no PTY to be had or the program cannot be run.
pub(super) fn spawn(spawn: Spawn<'_>) -> anyhow::Result<Pty> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).context("cannot open a PTY")?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(&*name, flags, Mode::empty()).context("cannot open the PTY")?;
    let mut termios = rustix::termios::tcgetattr(&slave)?;
    // Erasing a character in the kernel's line editor must erase all of its bytes.
    termios.input_modes |= InputModes::IUTF8;
    rustix::termios::tcsetattr(&slave, OptionalActions::Now, &termios)?;
    set_size(&master, spawn.size)?;

    let shell = || vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())];
    let argv = spawn
        .argv
        .filter(|argv| !argv.is_empty())
        .unwrap_or_else(shell);
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]);
    if let Some(cwd) = spawn.cwd.filter(|cwd| std::path::Path::new(cwd).is_dir()) {
        command.current_dir(cwd);
    }
    for name in ["TMUX", "TMUX_PANE", "STY", "WINDOW", "COLUMNS", "LINES"] {
        command.env_remove(name);
    }
    command
        .env("TERM", "xterm-256color")
        .env("COLORTERM", "truecolor");
    command
        .env("PHUX_SOCKET", spawn.socket)
        .env("PHUX_SESSION", spawn.session);
    command.stdin(Stdio::from(slave.try_clone()?));
    command.stdout(Stdio::from(slave.try_clone()?));
    command.stderr(Stdio::from(slave));
    // SAFETY: between fork and exec only these two system calls are made, which touch no memory
    // that another thread could have left in an odd state.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
    let child = tokio::process::Command::from(command)
        .spawn()
        .with_context(|| format!("cannot run {}", argv[0]))?;
    Ok(Pty { master, child })
}

/// Tells the child how large its terminal is.
pub(super) fn set_size(master: &OwnedFd, size: Size) -> rustix::io::Result<()> {
    let Size { cols, rows } = size;
    let winsize = Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(master, winsize)
}

/// Starts the thread that reads the PTY until the child's end is closed.
pub(super) fn start_reader(
    pane: u32,
    master: &OwnedFd,
    queue: mpsc::Sender<Chunk>,
) -> anyhow::Result<()> {
    let mut master = File::from(master.try_clone()?);
    let read = move || {
        perf::promote("phux-pty-reader");
        let mut buf = vec![0; READ_SIZE];
        let mut seq = 0u64;
        loop {
            let len = match master.read(&mut buf) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                // Linux ends a PTY with EIO, other systems with nothing to read.
                Ok(0) | Err(_) => return,
                Ok(len) => len,
            };
            seq += 1;
            hop!(PTY_READ_SIZE, len, pane, seq);
            PTY_READ_BYTES.add(len as u64);
            let data = Bytes::copy_from_slice(&buf[..len]);
            let chunk = Chunk {
                data,
                read_at: Stopwatch::start(),
            };
            let sent = match queue.try_send(chunk) {
                Err(mpsc::error::TrySendError::Full(chunk)) => {
                    PTY_READER_BLOCKED.increment();
                    queue.blocking_send(chunk).is_ok()
                }
                sent => sent.is_ok(),
            };
            if !sent {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("phux-pty-reader".into())
        .spawn(read)?;
    Ok(())
}

/// Starts the thread that writes to the PTY until the queue's sender is dropped.
pub(super) fn start_writer(
    pane: u32,
    master: &OwnedFd,
    mut queue: mpsc::Receiver<ToChild>,
) -> anyhow::Result<()> {
    let mut master = File::from(master.try_clone()?);
    let write = move || {
        perf::promote("phux-pty-writer");
        let mut seq = 0u64;
        while let Some(input) = queue.blocking_recv() {
            seq += 1;
            hop!(INPUT_WRITER_QUEUE_WAIT, input.queued_at.micros(), pane, seq);
            let start = Stopwatch::start();
            // Waits for as long as the child does not read: that is what the thread is for.
            if master.write_all(&input.data).is_err() {
                return;
            }
            hop!(INPUT_PTY_WRITE, start.micros(), pane, seq);
        }
    };
    std::thread::Builder::new()
        .name("phux-pty-writer".into())
        .spawn(write)?;
    Ok(())
}
