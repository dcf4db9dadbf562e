//! Makes foreign text harmless to show.
//!
//! A thread may name itself anything (`prctl(PR_SET_NAME)`), and so may a file or a user. Shown
//! raw, a name could move the cursor, recolour the terminal, hide itself, or swap the figures
//! beside it. Data keep the name as it is; every view passes it through [`visible`].

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

/// `text` with every character that could do more than take its own cells replaced by an escape
/// (`\x1b`, `\u{202e}`).
///
/// A backslash stays as it is, so applying this twice changes nothing more: prose that embeds a
/// name may be escaped where it is made and again where it is shown.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        let code = u32::from(c);
        // Writing to a String cannot fail.
        let _ = match code {
            _ if is_harmless(c) => write!(out, "{c}"),
            0..=0xff => write!(out, "\\x{code:02x}"),
            _ => write!(out, "\\u{{{code:x}}}"),
        };
    }
    Cow::Owned(out)
}

/// A name as [`visible`] has it; one that would leave its place empty is told as such. A thread may
/// call itself nothing, or three spaces.
#[must_use]
pub fn name(text: &str) -> Cow<'_, str> {
    if text.trim().is_empty() {
        return Cow::Borrowed("(no name)");
    }
    visible(text)
}

/// Whether `c` takes cells of its own and nothing else: no control, no invisible or combining
/// character, no line or exotic space, nothing that reorders its neighbours.
#[must_use]
pub fn is_harmless(c: char) -> bool {
    match c {
        ' '..='~' => true,
        _ if c.is_control() || c.is_whitespace() || is_format(c) || is_right_to_left(c) => false,
        _ => c.width().is_some_and(|w| w > 0),
    }
}

/// Format characters (Unicode category Cf) and fillers that a width table may count as visible.
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{2800}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1345f}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Blocks whose letters are written right to left: in a terminal that applies the bidi algorithm
/// they would swap the figures in the columns after them.
fn is_right_to_left(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn ordinary_names_stay() {
        for name in [
            "tmux: server",
            "kworker/u8:2",
            "dæmon",
            "日本語",
            "a\\x1b",
            "µs ≥ …",
        ] {
            assert_eq!(visible(name), name);
        }
    }

    #[test]
    fn hostile_names_are_spelled_out() {
        assert_eq!(visible("\x1b[31mred"), "\\x1b[31mred");
        assert_eq!(visible("a\r\nb\tc\x7f"), "a\\x0d\\x0ab\\x09c\\x7f");
        assert_eq!(visible("\u{9b}2J"), "\\x9b2J", "the one-byte CSI");
        assert_eq!(
            visible("a\u{202e}b\u{2066}"),
            "a\\u{202e}b\\u{2066}",
            "bidi overrides"
        );
        assert_eq!(
            visible("e\u{301}\u{200d}\u{feff}"),
            "e\\u{301}\\u{200d}\\u{feff}"
        );
        assert_eq!(
            visible("\u{5d0} 12"),
            "\\u{5d0} 12",
            "right-to-left letters"
        );
        assert_eq!(visible("\u{a0}\u{2028}\u{3000}"), "\\xa0\\u{2028}\\u{3000}");
        assert_eq!(
            visible("\u{ad}\u{2800}\u{e0041}"),
            "\\xad\\u{2800}\\u{e0041}"
        );
    }

    #[test]
    fn no_name_is_empty() {
        assert_eq!(
            (name(""), name("  ")),
            ("(no name)".into(), "(no name)".into())
        );
        assert_eq!(name("\t"), "(no name)");
        assert_eq!(name("\x1b"), "\\x1b");
        assert_eq!(name(" a"), " a");
    }

    proptest! {
        #[test]
        fn nothing_harmful_is_left(text in any::<String>()) {
            let shown = visible(&text).into_owned();
            prop_assert!(shown.chars().all(is_harmless));
            prop_assert_eq!(visible(&shown), shown.as_str(), "twice changes nothing more");
            prop_assert!(shown.width() >= text.chars().count().min(1));
        }
    }
}
