//! A PTY with a child on it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};

use crate::term::Size;

/// The PTY's end that the server holds, and the child on the other one.
#[derive(Debug)]
pub(super) struct Pty {
    /// Does not block: who has to wait polls.
    pub(super) master: Arc<File>,
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
    rustix::io::ioctl_fionbio(&master, true)?;

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
    let master = Arc::new(File::from(master));
    Ok(Pty { master, child })
}

/// Tells the child how large its terminal is.
pub(super) fn set_size(master: impl AsFd, size: Size) -> rustix::io::Result<()> {
    let Size { cols, rows } = size;
    let winsize = Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(master, winsize)
}

/// A PTY without a child: the server's end, and the other one in raw mode.
#[cfg(test)]
pub(super) fn raw_pair() -> (Arc<File>, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).expect("PTY");
    rustix::pty::unlockpt(&master).expect("unlockpt");
    let name = rustix::pty::ptsname(&master, Vec::new()).expect("ptsname");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(&*name, flags, Mode::empty()).expect("slave");
    let mut termios = rustix::termios::tcgetattr(&slave).expect("termios");
    termios.make_raw();
    rustix::termios::tcsetattr(&slave, OptionalActions::Now, &termios).expect("raw");
    rustix::io::ioctl_fionbio(&master, true).expect("non-blocking");
    (Arc::new(master.into()), slave.into())
}
