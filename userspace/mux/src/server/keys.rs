//! Turns what a person does into the bytes that a program in a terminal expects, by the modes
//! that the program has set: the encoding of xterm.

use phux_wire::{KeyEvent, MouseEvent, action, button, key, mods};

use crate::term::TermMode;

/// The bytes of a key; empty where it has none.
pub(super) fn encode_key(event: &KeyEvent, mode: TermMode) -> Vec<u8> {
    if event.action == action::KEY_RELEASE || event.composing {
        return Vec::new();
    }
    if let Some(bytes) = encode_named(event, mode) {
        return bytes;
    }
    let mut bytes = Vec::new();
    if event.mods & mods::ALT != 0 {
        bytes.push(0x1b);
    }
    if event.mods & mods::CTRL != 0
        && let Some(control) = control_byte(event)
    {
        bytes.push(control);
    } else if let Some(text) = event.text.as_deref().filter(|text| !text.is_empty()) {
        bytes.extend_from_slice(text.as_bytes());
    } else if let Some(c) = event
        .unshifted
        .and_then(char::from_u32)
        .filter(|c| !c.is_control())
    {
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        bytes.clear();
    }
    bytes
}

/// The control character that Ctrl makes of the key.
fn control_byte(event: &KeyEvent) -> Option<u8> {
    let letter = key::A..key::A + 26;
    let c = match event.unshifted.and_then(char::from_u32) {
        Some(c) => c,
        None if letter.contains(&event.key) => char::from_u32('a' as u32 + event.key - key::A)?,
        None => event.text.as_deref()?.chars().next()?,
    };
    Some(match c {
        'a'..='z' => c as u8 - b'a' + 1,
        'A'..='Z' => c as u8 - b'A' + 1,
        ' ' | '@' | '2' => 0,
        '[' | '3' => 0x1b,
        '\\' | '4' => 0x1c,
        ']' | '5' => 0x1d,
        '^' | '6' => 0x1e,
        '_' | '-' | '/' | '7' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    })
}

/// Keys that have a sequence of their own.
fn encode_named(event: &KeyEvent, mode: TermMode) -> Option<Vec<u8>> {
    let alt = event.mods & mods::ALT != 0;
    let ctrl = event.mods & mods::CTRL != 0;
    let shift = event.mods & mods::SHIFT != 0;
    let with_alt = |bytes: &[u8]| {
        let mut out = if alt { vec![0x1b] } else { Vec::new() };
        out.extend_from_slice(bytes);
        Some(out)
    };
    match event.key {
        key::ENTER => return with_alt(b"\r"),
        key::BACKSPACE => return with_alt(if ctrl { b"\x08" } else { b"\x7f" }),
        key::TAB if shift => return Some(b"\x1b[Z".to_vec()),
        key::TAB => return with_alt(b"\t"),
        key::ESCAPE => return with_alt(b"\x1b"),
        key::SPACE if ctrl => return with_alt(b"\0"),
        _ => {}
    }
    // xterm's parameter: 1 plus a bit for each of Shift, Alt and Ctrl.
    let modifier = 1 + u8::from(shift) + 2 * u8::from(alt) + 4 * u8::from(ctrl);
    let letter = |c: char| {
        Some(if modifier > 1 {
            format!("\x1b[1;{modifier}{c}")
        } else if mode.contains(TermMode::APP_CURSOR) {
            format!("\x1bO{c}")
        } else {
            format!("\x1b[{c}")
        })
    };
    let tilde = |n: u8| {
        Some(if modifier > 1 {
            format!("\x1b[{n};{modifier}~")
        } else {
            format!("\x1b[{n}~")
        })
    };
    let function = |c: char| {
        Some(if modifier > 1 {
            format!("\x1b[1;{modifier}{c}")
        } else {
            format!("\x1bO{c}")
        })
    };
    let sequence = match event.key {
        key::UP => letter('A'),
        key::DOWN => letter('B'),
        key::RIGHT => letter('C'),
        key::LEFT => letter('D'),
        key::HOME => letter('H'),
        key::END => letter('F'),
        key::INSERT => tilde(2),
        key::DELETE => tilde(3),
        key::PAGE_UP => tilde(5),
        key::PAGE_DOWN => tilde(6),
        f if (key::F1..key::F1 + 12).contains(&f) => match f - key::F1 {
            n @ 0..4 => function(['P', 'Q', 'R', 'S'][n as usize]),
            n => tilde([15, 17, 18, 19, 20, 21, 23, 24][n as usize - 4]),
        },
        _ => None,
    };
    sequence.map(String::into_bytes)
}

/// The bytes of a paste.
pub(super) fn encode_paste(data: &[u8], mode: TermMode) -> Vec<u8> {
    if !mode.contains(TermMode::BRACKETED_PASTE) {
        // As if typed: a line ends with Return.
        return data
            .iter()
            .map(|&b| if b == b'\n' { b'\r' } else { b })
            .collect();
    }
    let mut out = b"\x1b[200~".to_vec();
    // An end marker inside of the paste would let the rest of it count as typed.
    let mut rest = data;
    while let Some(at) = rest.windows(END_PASTE.len()).position(|w| w == END_PASTE) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + END_PASTE.len()..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(END_PASTE);
    out
}

const END_PASTE: &[u8] = b"\x1b[201~";

/// The bytes of a mouse event; empty where the program did not ask for it.
pub(super) fn encode_mouse(event: &MouseEvent, mode: TermMode) -> Vec<u8> {
    let wanted = match event.action {
        action::MOUSE_MOTION if event.button == button::NONE => TermMode::MOUSE_MOTION,
        action::MOUSE_MOTION => TermMode::MOUSE_MOTION | TermMode::MOUSE_DRAG,
        _ => TermMode::MOUSE_MODE,
    };
    if !mode.intersects(wanted) {
        return Vec::new();
    }
    let code = match event.button {
        button::LEFT => 0,
        button::MIDDLE => 1,
        button::RIGHT => 2,
        wheel @ button::WHEEL_UP..=button::WHEEL_RIGHT => 64 + wheel - button::WHEEL_UP,
        _ => 3,
    };
    let bit = |flag: u16, value: u32| if event.mods & flag != 0 { value } else { 0 };
    let mut code = code + bit(mods::SHIFT, 4) + bit(mods::ALT, 8) + bit(mods::CTRL, 16);
    if event.action == action::MOUSE_MOTION {
        code += 32;
    }
    // From 1; NaN and what is out of range end at the edge.
    let cell = |v: f64| (v.clamp(0.0, 65_534.0) as u32) + 1;
    let (x, y) = (cell(event.x), cell(event.y));
    let released = event.action == action::MOUSE_RELEASE;
    if mode.contains(TermMode::SGR_MOUSE) {
        let end = if released { 'm' } else { 'M' };
        return format!("\x1b[<{code};{x};{y}{end}").into_bytes();
    }
    // The old encoding cannot say which button went up, nor anything far to the right.
    let code = if released { (code & !3) | 3 } else { code };
    let mut out = b"\x1b[M".to_vec();
    for value in [code, x, y] {
        let value = value + 32;
        if mode.contains(TermMode::UTF8_MOUSE) {
            let Some(c) = char::from_u32(value).filter(|_| value < 2048) else {
                return Vec::new();
            };
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            let Ok(byte) = u8::try_from(value) else {
                return Vec::new();
            };
            out.push(byte);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use phux_wire::ResourceId;

    fn event(key: u32, mods: u16, text: Option<&str>) -> KeyEvent {
        KeyEvent {
            resource: ResourceId::Local(1),
            action: action::KEY_PRESS,
            key,
            mods,
            consumed: 0,
            composing: false,
            text: text.map(str::to_owned),
            unshifted: text.and_then(|t| t.chars().next()).map(|c| c as u32),
        }
    }

    #[test]
    fn keys_are_encoded_as_xterm_does() {
        let cases: &[(KeyEvent, TermMode, &[u8])] = &[
            (event(key::of_char('a'), 0, Some("a")), TermMode::NONE, b"a"),
            (
                event(key::UNIDENTIFIED, 0, Some("日本")),
                TermMode::NONE,
                "日本".as_bytes(),
            ),
            (
                event(key::of_char('c'), mods::CTRL, Some("c")),
                TermMode::NONE,
                b"\x03",
            ),
            (
                event(key::of_char('c'), mods::CTRL, None),
                TermMode::NONE,
                b"\x03",
            ),
            (
                event(key::of_char('x'), mods::ALT, Some("x")),
                TermMode::NONE,
                b"\x1bx",
            ),
            (event(key::ENTER, 0, None), TermMode::NONE, b"\r"),
            (event(key::BACKSPACE, 0, None), TermMode::NONE, b"\x7f"),
            (
                event(key::TAB, mods::SHIFT, None),
                TermMode::NONE,
                b"\x1b[Z",
            ),
            (event(key::UP, 0, None), TermMode::NONE, b"\x1b[A"),
            (event(key::UP, 0, None), TermMode::APP_CURSOR, b"\x1bOA"),
            (
                event(key::UP, mods::CTRL, None),
                TermMode::APP_CURSOR,
                b"\x1b[1;5A",
            ),
            (
                event(key::DELETE, mods::SHIFT, None),
                TermMode::NONE,
                b"\x1b[3;2~",
            ),
            (event(key::F1 + 4, 0, None), TermMode::NONE, b"\x1b[15~"),
            (
                event(key::F1 + 11, mods::ALT, None),
                TermMode::NONE,
                b"\x1b[24;3~",
            ),
            (event(99_999, 0, None), TermMode::NONE, b""),
        ];
        for (event, mode, bytes) in cases {
            assert_eq!(encode_key(event, *mode), *bytes, "{event:?}");
        }
        let up = KeyEvent {
            action: action::KEY_RELEASE,
            ..event(key::ENTER, 0, None)
        };
        assert!(encode_key(&up, TermMode::NONE).is_empty());
    }

    #[test]
    fn a_paste_cannot_end_its_own_brackets() {
        assert_eq!(encode_paste(b"a\nb", TermMode::NONE), b"a\rb");
        assert_eq!(
            encode_paste(b"x\x1b[201~rm\n", TermMode::BRACKETED_PASTE),
            b"\x1b[200~xrm\n\x1b[201~"
        );
    }

    #[test]
    fn mouse_events_follow_the_modes() {
        let press = MouseEvent {
            resource: ResourceId::Local(1),
            action: action::MOUSE_PRESS,
            button: button::LEFT,
            mods: 0,
            x: 9.0,
            y: 4.0,
        };
        let sgr = TermMode::MOUSE_REPORT_CLICK | TermMode::SGR_MOUSE;
        assert!(encode_mouse(&press, TermMode::SGR_MOUSE).is_empty());
        assert_eq!(encode_mouse(&press, sgr), b"\x1b[<0;10;5M");
        assert_eq!(
            encode_mouse(&press, TermMode::MOUSE_REPORT_CLICK),
            b"\x1b[M\x20\x2a\x25"
        );
        let release = MouseEvent {
            action: action::MOUSE_RELEASE,
            ..press.clone()
        };
        assert_eq!(encode_mouse(&release, sgr), b"\x1b[<0;10;5m");
        let wheel = MouseEvent {
            button: button::WHEEL_DOWN,
            ..press.clone()
        };
        assert_eq!(encode_mouse(&wheel, sgr), b"\x1b[<65;10;5M");
        let motion = MouseEvent {
            action: action::MOUSE_MOTION,
            ..press.clone()
        };
        assert!(encode_mouse(&motion, sgr).is_empty());
        assert_eq!(
            encode_mouse(&motion, sgr | TermMode::MOUSE_DRAG),
            b"\x1b[<32;10;5M"
        );
        let wild = MouseEvent {
            x: f64::NAN,
            y: f64::INFINITY,
            ..press
        };
        assert_eq!(encode_mouse(&wild, sgr), b"\x1b[<0;1;65535M");
    }
}
