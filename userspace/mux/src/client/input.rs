//! Turns the bytes that the outer terminal sends into events: keys, pastes, mouse, focus.

use phux_wire::{
    ClientMessage, FocusEvent, KeyEvent, MouseEvent, PasteEvent, ResourceId, action, button, key,
    mods,
};

/// Longest escape sequence that is waited for, in bytes.
const MAX_SEQUENCE: usize = 64;
/// A longer paste is passed on in parts of this size, in bytes.
const PASTE_PART: usize = 256 * 1024;
const END_PASTE: &[u8] = b"\x1b[201~";

/// Something that happened at the terminal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Input {
    /// The detach key.
    Detach,
    /// A key; see [`phux_wire::KeyEvent`].
    Key {
        key: u32,
        mods: u16,
        text: Option<String>,
        unshifted: Option<u32>,
    },
    Paste(Vec<u8>),
    /// See [`phux_wire::MouseEvent`].
    Mouse {
        action: u32,
        button: u32,
        mods: u16,
        x: u16,
        y: u16,
    },
    Focus(bool),
}

impl Input {
    fn named(key: u32, mods: u16) -> Self {
        Self::Key {
            key,
            mods,
            text: None,
            unshifted: None,
        }
    }

    /// The frame that tells the server, for the pane of this id.
    pub(super) fn into_message(self, resource: ResourceId) -> ClientMessage {
        match self {
            Self::Detach => ClientMessage::Detach,
            Self::Key {
                key,
                mods,
                text,
                unshifted,
            } => ClientMessage::Key(KeyEvent {
                resource,
                action: action::KEY_PRESS,
                key,
                mods,
                consumed: mods & mods::SHIFT,
                composing: false,
                text,
                unshifted,
            }),
            Self::Paste(data) => ClientMessage::Paste(PasteEvent {
                resource,
                trust: 0,
                data: data.into(),
            }),
            Self::Mouse {
                action,
                button,
                mods,
                x,
                y,
            } => ClientMessage::Mouse(MouseEvent {
                resource,
                action,
                button,
                mods,
                x: x.into(),
                y: y.into(),
            }),
            Self::Focus(focused) => ClientMessage::Focus(FocusEvent { resource, focused }),
        }
    }
}

/// What the front of the buffer is.
enum Step {
    /// So many bytes, and what they mean.
    Done(usize, Option<Input>),
    /// The beginning of something.
    Incomplete,
}

/// The parser. It keeps what is incomplete.
#[derive(Debug)]
pub(super) struct Parser {
    buf: Vec<u8>,
    detach: u8,
    in_paste: bool,
}

impl Parser {
    /// `detach` is the byte that the detach key sends.
    pub(super) fn new(detach: u8) -> Self {
        Self {
            buf: Vec::new(),
            detach,
            in_paste: false,
        }
    }

    /// Takes what was read.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.buf.extend_from_slice(bytes);
        self.parse(false)
    }

    /// Whether something incomplete waits that may be a lone Escape: after a moment without more
    /// bytes, [`flush`](Self::flush) it.
    pub(super) fn waits(&self) -> bool {
        !self.buf.is_empty() && !self.in_paste
    }

    /// Takes what is incomplete for what it is.
    pub(super) fn flush(&mut self) -> Vec<Input> {
        self.parse(true)
    }

    fn parse(&mut self, flush: bool) -> Vec<Input> {
        let mut out = Vec::new();
        let mut at = 0;
        while at < self.buf.len() {
            let rest = &self.buf[at..];
            let step = if self.in_paste {
                paste(rest)
            } else {
                step(rest, self.detach, flush)
            };
            let Step::Done(len, input) = step else { break };
            if self.in_paste {
                self.in_paste = !rest[..len].ends_with(END_PASTE);
            } else {
                self.in_paste = &rest[..len] == b"\x1b[200~";
            }
            at += len;
            out.extend(input);
        }
        self.buf.drain(..at);
        out
    }
}

/// Inside of a bracketed paste.
fn paste(rest: &[u8]) -> Step {
    let data = |bytes: &[u8]| (!bytes.is_empty()).then(|| Input::Paste(bytes.to_vec()));
    match rest.windows(END_PASTE.len()).position(|w| w == END_PASTE) {
        Some(at) if at > PASTE_PART => Step::Done(PASTE_PART, data(&rest[..PASTE_PART])),
        Some(at) => Step::Done(at + END_PASTE.len(), data(&rest[..at])),
        None if rest.len() > PASTE_PART + END_PASTE.len() => {
            Step::Done(PASTE_PART, data(&rest[..PASTE_PART]))
        }
        None => Step::Incomplete,
    }
}

fn step(rest: &[u8], detach: u8, flush: bool) -> Step {
    match rest[0] {
        byte if byte == detach => Step::Done(1, Some(Input::Detach)),
        0x1b => escape(rest, flush),
        byte if byte < 0x20 || byte == 0x7f => Step::Done(1, Some(control(byte))),
        _ => text(rest, detach, flush),
    }
}

/// A control character.
fn control(byte: u8) -> Input {
    let named = |key| Input::named(key, 0);
    let ctrl = |c: char| Input::Key {
        key: key::of_char(c),
        mods: mods::CTRL,
        text: None,
        unshifted: Some(c.into()),
    };
    match byte {
        b'\r' => named(key::ENTER),
        b'\t' => named(key::TAB),
        0x1b => named(key::ESCAPE),
        0x7f => named(key::BACKSPACE),
        0 => ctrl(' '),
        1..=26 => ctrl(char::from(b'a' + byte - 1)),
        _ => ctrl(char::from(byte + 0x40)),
    }
}

/// A run of printable characters: one event, so that typing ahead or a paste without brackets
/// does not flood the queues.
fn text(rest: &[u8], detach: u8, flush: bool) -> Step {
    let printable = |b: &u8| *b >= 0x20 && *b != 0x7f && *b != detach;
    let run = &rest[..rest
        .iter()
        .position(|b| !printable(b))
        .unwrap_or(rest.len())];
    let valid = match std::str::from_utf8(run) {
        Ok(all) => all,
        Err(e) if e.valid_up_to() > 0 => {
            std::str::from_utf8(&run[..e.valid_up_to()]).unwrap_or_default()
        }
        // The end of a character may be still to come; what cannot be one is skipped.
        Err(e) if e.error_len().is_none() && run.len() == rest.len() && !flush => {
            return Step::Incomplete;
        }
        Err(e) => return Step::Done(e.error_len().unwrap_or(run.len()), None),
    };
    let mut chars = valid.chars();
    let input = match (chars.next(), chars.next()) {
        (Some(c), None) => Input::Key {
            key: key::of_char(c),
            mods: if c.is_ascii_uppercase() {
                mods::SHIFT
            } else {
                0
            },
            text: Some(c.into()),
            unshifted: Some(c.to_ascii_lowercase().into()),
        },
        // C1 control characters are no text.
        _ => Input::Key {
            key: key::UNIDENTIFIED,
            mods: 0,
            text: Some(valid.chars().filter(|c| !c.is_control()).collect()),
            unshifted: None,
        },
    };
    match input {
        Input::Key { text: Some(t), .. } if t.chars().any(char::is_control) => {
            Step::Done(valid.len(), None)
        }
        input => Step::Done(valid.len(), Some(input)),
    }
}

fn escape(rest: &[u8], flush: bool) -> Step {
    let lone = || Step::Done(1, Some(Input::named(key::ESCAPE, 0)));
    match rest.get(1) {
        None if flush => lone(),
        None => Step::Incomplete,
        Some(b'[') => match csi(rest) {
            Step::Incomplete if flush || rest.len() > MAX_SEQUENCE => alt(rest),
            step => step,
        },
        Some(b'O') => match rest.get(2) {
            Some(&end) => match function_key(end) {
                Some(key) => Step::Done(3, Some(Input::named(key, 0))),
                None => alt(rest),
            },
            None if flush => alt(rest),
            None => Step::Incomplete,
        },
        Some(0x1b) => lone(),
        Some(_) => alt(rest),
    }
}

/// Escape and a character: Alt and its key.
fn alt(rest: &[u8]) -> Step {
    let len = match rest.get(1) {
        Some(&b) if b >= 0xc0 => b.leading_ones() as usize,
        _ => 1,
    };
    let Some(part) = rest.get(1..=len) else {
        return Step::Done(1, None);
    };
    // No byte is the detach key here: with Alt it is another key.
    match step(part, 0xff, true) {
        Step::Done(
            n,
            Some(Input::Key {
                key,
                mods,
                text,
                unshifted,
            }),
        ) => Step::Done(
            n + 1,
            Some(Input::Key {
                key,
                mods: mods | mods::ALT,
                text,
                unshifted,
            }),
        ),
        Step::Done(n, _) => Step::Done(n + 1, None),
        Step::Incomplete => Step::Done(1, None),
    }
}

/// The key of the last byte of a sequence, by the names of xterm.
fn function_key(end: u8) -> Option<u32> {
    Some(match end {
        b'A' => key::UP,
        b'B' => key::DOWN,
        b'C' => key::RIGHT,
        b'D' => key::LEFT,
        b'H' => key::HOME,
        b'F' => key::END,
        b'M' => key::ENTER,
        b'P'..=b'S' => key::F1 + u32::from(end - b'P'),
        _ => return None,
    })
}

fn csi(rest: &[u8]) -> Step {
    let Some(end) = rest[2..].iter().position(|b| (0x40..0x7f).contains(b)) else {
        return Step::Incomplete;
    };
    let (len, last) = (end + 3, rest[end + 2]);
    let parameters = &rest[2..end + 2];
    if let Some(mouse) = parameters.strip_prefix(b"<") {
        return Step::Done(len, sgr_mouse(mouse, last));
    }
    let numbers = numbers(parameters);
    let first = numbers.first().copied().unwrap_or(0);
    let mods = modifiers(numbers.get(1).copied().unwrap_or(1));
    let key = match (last, first) {
        (b'I', _) if parameters.is_empty() => return Step::Done(len, Some(Input::Focus(true))),
        (b'O', _) if parameters.is_empty() => return Step::Done(len, Some(Input::Focus(false))),
        (b'Z', _) => return Step::Done(len, Some(Input::named(key::TAB, mods::SHIFT))),
        // With other first parameters it is the answer to a query.
        (b'P'..=b'S', 0 | 1) => function_key(last),
        (b'A'..=b'D' | b'H' | b'F', _) => function_key(last),
        (b'~', 1 | 7) => Some(key::HOME),
        (b'~', 2) => Some(key::INSERT),
        (b'~', 3) => Some(key::DELETE),
        (b'~', 4 | 8) => Some(key::END),
        (b'~', 5) => Some(key::PAGE_UP),
        (b'~', 6) => Some(key::PAGE_DOWN),
        (b'~', n @ 11..=15) => Some(key::F1 + n - 11),
        (b'~', n @ 17..=21) => Some(key::F1 + n - 12),
        (b'~', n @ 23..=24) => Some(key::F1 + n - 13),
        _ => None,
    };
    Step::Done(len, key.map(|key| Input::named(key, mods)))
}

fn numbers(parameters: &[u8]) -> Vec<u32> {
    let text = std::str::from_utf8(parameters).unwrap_or_default();
    text.split(';').map(|n| n.parse().unwrap_or(0)).collect()
}

/// The modifiers of xterm's parameter.
fn modifiers(parameter: u32) -> u16 {
    let bits = parameter.saturating_sub(1);
    let bit = |value: u32, flag: u16| if bits & value != 0 { flag } else { 0 };
    bit(1, mods::SHIFT) | bit(2, mods::ALT) | bit(4, mods::CTRL) | bit(8, mods::SUPER)
}

fn sgr_mouse(parameters: &[u8], last: u8) -> Option<Input> {
    let [code, x, y] = numbers(parameters)[..] else {
        return None;
    };
    let button = match (code & 3, code & 0xc0) {
        (n, 64) => button::WHEEL_UP + n,
        (0, 0) => button::LEFT,
        (1, 0) => button::MIDDLE,
        (2, 0) => button::RIGHT,
        (3, 0) => button::NONE,
        _ => return None,
    };
    let action = match last {
        b'm' => action::MOUSE_RELEASE,
        b'M' if code & 32 != 0 => action::MOUSE_MOTION,
        b'M' => action::MOUSE_PRESS,
        _ => return None,
    };
    let bit = |value: u32, flag: u16| if code & value != 0 { flag } else { 0 };
    let mods = bit(4, mods::SHIFT) | bit(8, mods::ALT) | bit(16, mods::CTRL);
    let cell = |n: u32| u16::try_from(n.saturating_sub(1)).unwrap_or(u16::MAX);
    Some(Input::Mouse {
        action,
        button,
        mods,
        x: cell(x),
        y: cell(y),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DETACH: u8 = 0x1c;

    fn parse(bytes: &[u8]) -> Vec<Input> {
        let mut parser = Parser::new(DETACH);
        let mut events = parser.feed(bytes);
        events.extend(parser.flush());
        events
    }

    fn key(key: u32, mods: u16) -> Input {
        Input::named(key, mods)
    }

    fn char_key(c: char, mods: u16, text: Option<&str>) -> Input {
        let text = text.map(str::to_owned);
        Input::Key {
            key: key::of_char(c),
            mods,
            text,
            unshifted: Some(c.into()),
        }
    }

    #[test]
    fn keys_of_every_kind_are_recognised() {
        let run = |text: &str| Input::Key {
            key: key::UNIDENTIFIED,
            mods: 0,
            text: Some(text.into()),
            unshifted: None,
        };
        let mouse = |action, button, mods| Input::Mouse {
            action,
            button,
            mods,
            x: 9,
            y: 4,
        };
        let cases: &[(&str, Vec<Input>)] = &[
            ("a", vec![char_key('a', 0, Some("a"))]),
            ("A", vec![char_key('a', mods::SHIFT, Some("A"))]),
            ("é日", vec![run("é日")]),
            ("\x03", vec![char_key('c', mods::CTRL, None)]),
            ("\0", vec![char_key(' ', mods::CTRL, None)]),
            ("\x1f", vec![char_key('_', mods::CTRL, None)]),
            ("ls\r", vec![run("ls"), key(key::ENTER, 0)]),
            ("\x7f\t", vec![key(key::BACKSPACE, 0), key(key::TAB, 0)]),
            ("\x1b", vec![key(key::ESCAPE, 0)]),
            ("\x1b\x1b", vec![key(key::ESCAPE, 0), key(key::ESCAPE, 0)]),
            ("\x1bx", vec![char_key('x', mods::ALT, Some("x"))]),
            ("\x1bé", vec![char_key('é', mods::ALT, Some("é"))]),
            ("\x1b\r", vec![key(key::ENTER, mods::ALT)]),
            ("\x1b[A\x1bOB", vec![key(key::UP, 0), key(key::DOWN, 0)]),
            ("\x1b[1;6C", vec![key(key::RIGHT, mods::CTRL | mods::SHIFT)]),
            ("\x1b[3;3~", vec![key(key::DELETE, mods::ALT)]),
            (
                "\x1bOP\x1b[24~",
                vec![key(key::F1, 0), key(key::F1 + 11, 0)],
            ),
            (
                "\x1b[15~\x1b[17~",
                vec![key(key::F1 + 4, 0), key(key::F1 + 5, 0)],
            ),
            ("\x1b[Z", vec![key(key::TAB, mods::SHIFT)]),
            (
                "\x1b[I\x1b[O",
                vec![Input::Focus(true), Input::Focus(false)],
            ),
            (
                "\x1b[<0;10;5M",
                vec![mouse(action::MOUSE_PRESS, button::LEFT, 0)],
            ),
            (
                "\x1b[<18;10;5m",
                vec![mouse(action::MOUSE_RELEASE, button::RIGHT, mods::CTRL)],
            ),
            (
                "\x1b[<35;10;5M",
                vec![mouse(action::MOUSE_MOTION, button::NONE, 0)],
            ),
            (
                "\x1b[<65;10;5M",
                vec![mouse(action::MOUSE_PRESS, button::WHEEL_DOWN, 0)],
            ),
            (
                "\x1b[200~a\x1b[Ab\x1b[201~c",
                vec![
                    Input::Paste(b"a\x1b[Ab".to_vec()),
                    char_key('c', 0, Some("c")),
                ],
            ),
            ("\x1c", vec![Input::Detach]),
            (
                "x\x1cy",
                vec![
                    char_key('x', 0, Some("x")),
                    Input::Detach,
                    char_key('y', 0, Some("y")),
                ],
            ),
            // Answers to queries, and what nobody knows, are no keys.
            ("\x1b[24;80R\x1b[?6c\x1b[999~", vec![]),
        ];
        for (bytes, events) in cases {
            assert_eq!(parse(bytes.as_bytes()), *events, "{bytes:?}");
        }
    }

    #[test]
    fn a_detach_key_in_a_paste_is_text() {
        assert_eq!(parse(b"\x1b[200~\x1c\x1b[201~"), [Input::Paste(vec![0x1c])]);
    }

    #[test]
    fn a_long_paste_comes_in_parts_and_whole() {
        let text = "0123456789".repeat(70_000);
        let mut parser = Parser::new(DETACH);
        let mut got = Vec::new();
        let bytes = format!("\x1b[200~{text}\x1b[201~");
        for part in bytes.as_bytes().chunks(4096) {
            for event in parser.feed(part) {
                let Input::Paste(part) = event else {
                    panic!("{event:?}")
                };
                assert!(part.len() <= PASTE_PART);
                got.extend(part);
            }
        }
        assert_eq!(got, text.as_bytes());
        assert!(!parser.waits());
    }

    /// Events with runs of text joined: how much of it is one event depends on the reads.
    fn joined(events: Vec<Input>) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        let mut in_text = false;
        for event in events {
            match event {
                Input::Key {
                    mods: 0 | mods::SHIFT,
                    text: Some(text),
                    ..
                } => {
                    if !in_text {
                        out.push(String::new());
                    }
                    in_text = true;
                    if let Some(last) = out.last_mut() {
                        last.push_str(&text);
                    }
                }
                other => {
                    in_text = false;
                    out.push(format!("{other:?}"));
                }
            }
        }
        out
    }

    proptest! {
        #[test]
        fn how_reads_are_split_does_not_matter(
            parts in prop::collection::vec(prop_oneof![
                Just("\x1b[A"), Just("\x1b[1;5C"), Just("abc"), Just("日é"), Just("\r"),
                Just("\x1b[200~pa\x1b[Aste\x1b[201~"), Just("\x1b[<0;10;5M"), Just("\x03"),
                Just("\x1bOP"), Just("\x1bx"),
            ], 0..12),
            step in 1..7usize,
        ) {
            let bytes = parts.concat();
            let mut parser = Parser::new(DETACH);
            let mut events = Vec::new();
            for part in bytes.as_bytes().chunks(step) {
                events.extend(parser.feed(part));
            }
            prop_assert!(!parser.waits());
            prop_assert_eq!(joined(events), joined(parse(bytes.as_bytes())));
        }

        #[test]
        fn nothing_typed_brings_it_down_or_stays(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut parser = Parser::new(DETACH);
            parser.feed(&bytes);
            parser.flush();
            prop_assert!(!parser.waits());
        }
    }
}
