//! Colours of the tables. `anstream` drops them where the output is no terminal, or NO_COLOR asks
//! for it.

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

/// Heads of tables.
pub(super) const HEAD: Style = Style::new().bold();
/// Names of processes and probes.
pub(super) const NAME: Style = AnsiColor::Green.on_default();
/// What matters less.
pub(super) const DIM: Style = Style::new().dimmed();
/// What the reader should notice.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();

/// What keeps the rest from working.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Breaks words at `width` columns, later lines indented to `indent`. A word that is longer stands
/// alone, uncut.
pub(super) fn wrap(words: impl IntoIterator<Item = String>, indent: usize, width: usize) -> String {
    let mut text = String::new();
    let mut column = indent;
    for (i, word) in words.into_iter().enumerate() {
        let length = word.width();
        if i > 0 && column + 1 + length > width {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if i > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(&word);
        column += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn breaks_at_the_width_and_cuts_nothing() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(wrap(words("aa bb cc"), 2, 7), "aa bb\n  cc");
        assert_eq!(wrap(words("aaaaaaaaaa b"), 2, 5), "aaaaaaaaaa\n  b");
        assert_eq!(wrap(Vec::new(), 2, 5), "");
        assert_eq!(
            wrap(words("日本 日本"), 2, 10),
            "日本\n  日本",
            "two columns each"
        );
    }
}
