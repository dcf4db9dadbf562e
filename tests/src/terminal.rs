//! A person at a terminal: a program on a PTY of its own, keys typed at it one by one, and what it shows.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::termios::{Winsize, tcsetwinsize};

use crate::ptys::{Pty, open_slave};

/// Letters that stand in no escape sequence that a multiplexer sends.
const KEYS: &[u8] = b"vwyz";
/// Long beside any echo, short beside a stuck CI.
const DEADLINE: Duration = Duration::from_secs(20);

/// A program that has a terminal for itself. Killed, and the terminal closed, on drop.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: OwnedFd,
    screen: Receiver<Shown>,
    reads: Arc<Mutex<()>>,
    index: u32,
}

/// What came out of the program at once, and when.
#[derive(Debug)]
struct Shown {
    bytes: Vec<u8>,
    at: Instant,
}

/// One key that was typed and came back.
#[derive(Debug, Clone, Copy)]
pub struct Typed {
    /// When it was handed to the terminal.
    pub at: Instant,
    /// From then until the program's answer was read from the terminal.
    pub echo: Duration,
}

impl Terminal {
    /// Starts `command` with an 80×24 terminal as its controlling one.
    pub fn start(command: &mut Command) -> Terminal {
        let pty = Pty::open().expect("a pty");
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&pty.slave, size).expect("window size");
        let end = || Stdio::from(open_slave(&pty.path).expect("the slave"));
        command.stdin(end()).stdout(end()).stderr(end());
        command.env("TERM", "xterm");
        // SAFETY: setsid and an ioctl on a descriptor of its own: both may be done after a fork.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let screen = pty.master.try_clone().expect("a descriptor");
        let (send, shown) = channel();
        let reads = Arc::new(Mutex::new(()));
        let may_read = Arc::clone(&reads);
        std::thread::spawn(move || {
            let mut buf = vec![0; 65536];
            loop {
                drop(may_read.lock());
                match rustix::io::read(&screen, &mut buf) {
                    Ok(0) | Err(rustix::io::Errno::IO) => return,
                    Ok(n) => {
                        let at = Instant::now();
                        let bytes = buf[..n].to_vec();
                        if send.send(Shown { bytes, at }).is_err() {
                            return;
                        }
                    }
                    Err(_) => {}
                }
            }
        });
        Terminal {
            child,
            keyboard: pty.master,
            screen: shown,
            reads,
            index: pty.index,
        }
    }

    /// Process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The N of its `/dev/pts/N`.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its master, whose modes are the terminal's.
    pub fn master(&self) -> BorrowedFd<'_> {
        self.keyboard.as_fd()
    }

    /// Waits until it has shown `text`.
    pub fn wait_for_text(&mut self, text: &str) {
        self.read_until(text);
    }

    /// Waits until it has shown `text`; gives all that it has shown meanwhile.
    pub fn read_until(&mut self, text: &str) -> String {
        match self.read_for(text, DEADLINE) {
            Ok(seen) => seen,
            Err(seen) => panic!("never showed {text:?}: {seen}"),
        }
    }

    /// What it has shown when `text` came; `Err` with the same if it did not come in time.
    pub fn read_for(&mut self, text: &str, time: Duration) -> Result<String, String> {
        let mut seen = Vec::new();
        let until = Instant::now() + time;
        let told = |seen: &[u8]| String::from_utf8_lossy(seen).into_owned();
        while !contains(&seen, text.as_bytes()) {
            match self.next(until) {
                Some(shown) => seen.extend(shown.bytes),
                None => return Err(told(&seen)),
            }
        }
        Ok(told(&seen))
    }

    /// Gives the terminal another size.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(self.master(), size).expect("window size");
    }

    /// A terminal that hangs: what the program shows is not read, but for one read that is under way,
    /// until the guard goes.
    pub fn stops_reading(&self) -> MutexGuard<'_, ()> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands bytes to the terminal and does not wait.
    pub fn send(&self, keys: &[u8]) {
        let n = rustix::io::write(self.keyboard.as_fd(), keys).expect("the terminal is there");
        assert_eq!(n, keys.len(), "a terminal took only a part of the keys");
    }

    /// Types one key and waits until the program has shown something that holds it.
    pub fn key(&mut self, key: u8) -> Typed {
        self.settle();
        let at = Instant::now();
        self.send(&[key]);
        let until = at + DEADLINE;
        loop {
            let shown = self
                .next(until)
                .unwrap_or_else(|| panic!("no echo of {key}"));
            if shown.bytes.contains(&key) {
                let echo = shown.at.saturating_duration_since(at);
                return Typed { at, echo };
            }
        }
    }

    /// Types `count` letters, each when the one before has come back and `pause` has gone by.
    pub fn type_keys(&mut self, count: usize, pause: Duration) -> Vec<Typed> {
        KEYS.iter()
            .cycle()
            .take(count)
            .map(|&key| {
                let typed = self.key(key);
                std::thread::sleep(pause);
                typed
            })
            .collect()
    }

    /// Throws away what has been shown so far.
    pub fn settle(&mut self) {
        while self.screen.try_recv().is_ok() {}
    }

    fn next(&self, until: Instant) -> Option<Shown> {
        let left = until.saturating_duration_since(Instant::now());
        match self.screen.recv_timeout(left) {
            Ok(shown) => Some(shown),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the program's terminal was closed"),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|w| w == text)
}

/// The middle one.
pub fn median<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable();
    *values
        .get(values.len() / 2)
        .expect("something to take the middle of")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_from_cat() {
        let mut terminal =
            Terminal::start(Command::new("sh").args(["-c", "stty raw -echo; echo here; exec cat"]));
        terminal.wait_for_text("here");
        let typed = terminal.type_keys(3, Duration::ZERO);
        assert_eq!(typed.len(), 3);
        assert!(typed.iter().all(|t| t.echo > Duration::ZERO));
    }
}
