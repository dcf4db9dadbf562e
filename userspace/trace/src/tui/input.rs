//! What is typed and clicked: the terminal's bytes become events.
//!
//! crossterm has a reader of its own, which loses: where a key and another size come together it gives
//! the size, and has forgotten, edge-triggered as it waits, that there is something to read. It also
//! blocks in the middle of a sequence, and never ends with a terminal that is gone. Here the terminal
//! and the signal are both asked each time, and what is there stays there until it is taken.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::SIGWINCH;

/// After so long an escape that nothing followed is the key of that name, and a sequence that was
/// begun never ends. Terminals write a sequence at once; a slow line may tear it.
const TORN: Duration = Duration::from_millis(50);
/// Bytes taken at once: a pasted page.
const CHUNK: usize = 4096;

/// The terminal's input.
pub(super) struct Input {
    decoder: Decoder,
    resized: UnixStream,
    last_byte: Instant,
}

impl Input {
    /// From now on changes of its size are heard of.
    pub(super) fn new() -> Result<Input> {
        let (resized, signal) = UnixStream::pair().context("a pair of sockets")?;
        resized.set_nonblocking(true).context("a socket")?;
        signal_hook::low_level::pipe::register(SIGWINCH, signal).context("SIGWINCH")?;
        Ok(Input {
            decoder: Decoder::default(),
            resized,
            last_byte: Instant::now(),
        })
    }

    /// Waits until something comes, at most so long; gives all that is there.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn wait(&mut self, time: Duration) -> Result<Vec<Event>> {
        let stdin = rustix::stdio::stdin();
        let mut ready = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(&self.resized, PollFlags::IN),
        ];
        let time = if self.decoder.is_torn() {
            time.min(TORN)
        } else {
            time
        };
        let time = Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        match poll(&mut ready, Some(&time)) {
            // Whichever signal it was: there is a next time.
            Err(Errno::INTR) => return Ok(Vec::new()),
            other => other.context("waiting for the terminal")?,
        };
        let (keys, size) = (ready[0].revents(), ready[1].revents());
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        ensure!(!keys.intersects(gone), "the terminal is gone");
        let mut events = Vec::new();
        if size.contains(PollFlags::IN) {
            // One event for all the signals so far.
            while matches!(self.resized.read(&mut [0; 64]), Ok(1..)) {}
            let size = rustix::termios::tcgetwinsize(stdin).context("the terminal's size")?;
            events.push(Event::Resize(size.ws_col, size.ws_row));
        }
        if keys.contains(PollFlags::IN) {
            let mut bytes = [0; CHUNK];
            match rustix::io::read(stdin, &mut bytes) {
                Ok(0) => anyhow::bail!("the terminal is gone"),
                Ok(n) => self.decoder.take(bytes.get(..n).unwrap_or_default()),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error).context("reading the terminal"),
            }
            self.last_byte = Instant::now();
        } else if self.decoder.is_torn() && self.last_byte.elapsed() >= TORN {
            self.decoder.give_up();
        }
        events.append(&mut self.decoder.done.events);
        Ok(events)
    }
}

/// Makes events of bytes, however they are cut.
#[derive(Default)]
struct Decoder {
    parser: vte::Parser,
    done: Done,
}

#[derive(Debug, Default)]
struct Done {
    events: Vec<Event>,
    /// Bytes so far of a sequence that has not ended.
    open: usize,
    /// ESC O was such a sequence's beginning.
    ss3: bool,
}

impl Decoder {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == 0x1b {
                if self.done.open == 1 {
                    self.done.key(KeyCode::Esc);
                }
                self.done.open = 1;
                self.done.ss3 = false;
            } else if self.done.open > 0 {
                self.done.open += 1;
            }
            self.parser.advance(&mut self.done, &[*byte]);
        }
    }

    fn is_torn(&self) -> bool {
        self.done.open > 0
    }

    /// No more of it will come.
    fn give_up(&mut self) {
        if self.done.open == 1 {
            self.done.key(KeyCode::Esc);
        }
        self.done.open = 0;
        self.done.ss3 = false;
        self.parser = vte::Parser::new();
    }
}

impl Done {
    fn key(&mut self, code: KeyCode) {
        self.with(code, KeyModifiers::NONE);
    }

    fn with(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        self.events.push(Event::Key(KeyEvent::new(code, modifiers)));
    }

    fn mouse(&mut self, [button, column, row]: [u16; 3], released: bool) {
        let kind = match button & !0b1_1100 {
            _ if released => return,
            0 => MouseEventKind::Down(MouseButton::Left),
            1 => MouseEventKind::Down(MouseButton::Middle),
            2 => MouseEventKind::Down(MouseButton::Right),
            64 => MouseEventKind::ScrollUp,
            65 => MouseEventKind::ScrollDown,
            _ => return,
        };
        self.events.push(Event::Mouse(MouseEvent {
            kind,
            column: column.saturating_sub(1),
            row: row.saturating_sub(1),
            modifiers: KeyModifiers::NONE,
        }));
    }
}

/// Keys whose sequence ends in a letter, in both modes of the cursor keys.
fn lettered(letter: char) -> Option<KeyCode> {
    Some(match letter {
        'A' => KeyCode::Up,
        'B' => KeyCode::Down,
        'C' => KeyCode::Right,
        'D' => KeyCode::Left,
        'H' => KeyCode::Home,
        'F' => KeyCode::End,
        'Z' => KeyCode::BackTab,
        _ => return None,
    })
}

/// Keys whose sequence is a number and a tilde.
fn numbered(number: u16) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        _ => return None,
    })
}

impl vte::Perform for Done {
    fn print(&mut self, c: char) {
        self.open = 0;
        if std::mem::take(&mut self.ss3) {
            if let Some(code) = lettered(c) {
                self.key(code);
            }
        } else if c == '\x7f' {
            self.key(KeyCode::Backspace);
        } else {
            self.key(KeyCode::Char(c));
        }
    }

    fn execute(&mut self, byte: u8) {
        // Inside a sequence it would not end it; no terminal sends that.
        match byte {
            b'\r' | b'\n' => self.key(KeyCode::Enter),
            b'\t' => self.key(KeyCode::Tab),
            8 => self.key(KeyCode::Backspace),
            1..=26 => {
                let letter = char::from(byte - 1 + b'a');
                self.with(KeyCode::Char(letter), KeyModifiers::CONTROL);
            }
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &vte::Params, between: &[u8], _: bool, last: char) {
        self.open = 0;
        let mut numbers = params.iter().map(|p| p.first().copied().unwrap_or(0));
        let mut three = || [(); 3].map(|()| numbers.next().unwrap_or(0));
        let code = match (between, last) {
            (b"<", 'M' | 'm') => return self.mouse(three(), last == 'm'),
            ([], '~') => numbered(three()[0]),
            ([], letter) => lettered(letter),
            _ => None,
        };
        if let Some(code) = code {
            self.key(code);
        }
    }

    fn esc_dispatch(&mut self, between: &[u8], _: bool, byte: u8) {
        match (between, byte) {
            ([], b'O') => self.ss3 = true,
            // The end of a string that began with an escape too.
            ([], b'\\') | ([_, ..], _) => self.open = 0,
            ([], _) => {
                self.open = 0;
                self.with(KeyCode::Char(byte.into()), KeyModifiers::ALT);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(bytes: &[u8]) -> Vec<Event> {
        let mut decoder = Decoder::default();
        decoder.take(bytes);
        decoder.give_up();
        decoder.done.events
    }

    fn keys(bytes: &[u8]) -> Vec<KeyCode> {
        let code = |e: &Event| match e {
            Event::Key(k) => k.code,
            other => panic!("{other:?}"),
        };
        events(bytes).iter().map(code).collect()
    }

    #[test]
    fn keys_are_known_by_what_terminals_send() {
        use KeyCode::{BackTab, Backspace, Char, Down, End, Enter, Esc, Home, PageUp, Tab, Up};
        for (bytes, wanted) in [
            (&b"a"[..], &[Char('a')][..]),
            ("é€".as_bytes(), &[Char('é'), Char('€')]),
            (b"\r\t\x7f\x08", &[Enter, Tab, Backspace, Backspace]),
            (b"\x1b[A\x1bOB\x1b[1;5H", &[Up, Down, Home]),
            (b"\x1b[5~\x1b[8~\x1b[Z", &[PageUp, End, BackTab]),
            (b"\x1b", &[Esc]),
            (b"\x1b\x1b[A", &[Esc, Up]),
            (b"\x1b[", &[]),
            (b"\x1b]0;title", &[]),
            (b"\x1b[99999999999;;;~q", &[Char('q')]),
        ] {
            assert_eq!(keys(bytes), wanted, "{bytes:?}");
        }
        let ctrl_c = events(b"\x03");
        assert!(
            matches!(&ctrl_c[..], [Event::Key(k)] if k.modifiers == KeyModifiers::CONTROL
                && k.code == Char('c'))
        );
        let alt = events(b"\x1bq");
        assert!(matches!(&alt[..], [Event::Key(k)] if k.modifiers == KeyModifiers::ALT));
    }

    #[test]
    fn clicks_and_the_wheel_have_their_place() {
        let mouse = events(b"\x1b[<0;12;1M\x1b[<0;12;1m\x1b[<65;80;24M\x1b[<35;1;1M");
        let seen: Vec<_> = mouse
            .iter()
            .map(|e| match e {
                Event::Mouse(m) => (m.kind, m.column, m.row),
                other => panic!("{other:?}"),
            })
            .collect();
        let left = MouseEventKind::Down(MouseButton::Left);
        assert_eq!(
            seen,
            [(left, 11, 0), (MouseEventKind::ScrollDown, 79, 23)],
            "neither releases nor moves"
        );
    }

    proptest! {
        #[test]
        fn however_bytes_are_cut_they_mean_the_same(
            bytes in proptest::collection::vec(
                prop_oneof![3 => any::<u8>(), 2 => Just(0x1b), 2 => Just(b'['), 2 => 0x30u8..0x7f], 0..60),
            cuts in proptest::collection::vec(1usize..9, 1..20),
        ) {
            let mut decoder = Decoder::default();
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                decoder.take(now);
                rest = later;
            }
            decoder.give_up();
            prop_assert_eq!(decoder.done.events, events(&bytes));
        }
    }
}
