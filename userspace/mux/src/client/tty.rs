//! The terminal that the client runs in: raw while attached, and restored however the client ends.

use std::io::Write;
use std::sync::OnceLock;

use anyhow::{Context, ensure};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios};

use crate::term::Size;

/// Alternate screen, title saved, bracketed paste.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[22;0t\x1b[?2004h\x1b[2J";

/// Undoes [`ENTER`] and every mode that a paint may have set.
const LEAVE: &[u8] = b"\x1b[0m\x1b]8;;\x1b\\\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\
    \x1b[?1004l\x1b[?2004l\x1b[0 q\x1b[?25h\x1b[23;0t\x1b[?1049l";

/// How the terminal was before.
static BEFORE: OnceLock<Termios> = OnceLock::new();

/// Signals that end the client by a fault of its own.
const CRASHES: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
];

/// The terminal in the state that the client needs; dropping it restores what was before.
#[derive(Debug)]
pub(super) struct Tty(());

impl Tty {
    /// Makes the terminal raw and enters the alternate screen.
    ///
    /// # Errors
    /// Where standard input or output is no terminal.
    pub(super) fn enter() -> anyhow::Result<Self> {
        ensure!(
            rustix::termios::isatty(stdin()) && rustix::termios::isatty(stdout()),
            "standard input and output must be a terminal"
        );
        let before = rustix::termios::tcgetattr(stdin()).context("cannot read terminal modes")?;
        let mut raw = before.clone();
        raw.make_raw();
        BEFORE.get_or_init(|| before);
        let panic = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            panic(info);
        }));
        for signal in CRASHES {
            let crash = move || {
                restore();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            };
            // SAFETY: the action makes only system calls (write, ioctl, and those that restore
            // the default handler and raise the signal again) and reads an atomic: all of it may
            // be done in a signal handler. It does not return to the fault.
            unsafe { signal_hook_registry::register_signal_unchecked(signal, crash) }
                .context("cannot guard against crashes")?;
        }
        rustix::termios::tcsetattr(stdin(), OptionalActions::Drain, &raw)
            .context("cannot set terminal modes")?;
        let tty = Self(());
        std::io::stdout()
            .write_all(ENTER)
            .and_then(|()| std::io::stdout().flush())?;
        Ok(tty)
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back. May be called from a signal handler.
fn restore() {
    // What cannot be written or set cannot be helped: the terminal is gone or does not read.
    let mut fds = [PollFd::from_borrowed_fd(stdout(), PollFlags::OUT)];
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: 500_000_000,
    };
    if rustix::event::poll(&mut fds, Some(&wait)).is_ok_and(|ready| ready > 0) {
        let _ = rustix::io::write(stdout(), LEAVE);
    }
    if let Some(before) = BEFORE.get() {
        let _ = rustix::termios::tcsetattr(stdin(), OptionalActions::Now, before);
    }
}

/// The size of the terminal; 80 by 24 where it does not say.
pub(super) fn size() -> Size {
    match rustix::termios::tcgetwinsize(stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size::clamped(size.ws_col, size.ws_row),
        _ => Size { cols: 80, rows: 24 },
    }
}
