//! The page that the sections write on: 80 columns, wrapping, and emphasis where asked for.

use textwrap::{Options, WordSeparator, WordSplitter};
use unicode_width::UnicodeWidthStr;

use super::Style;
use crate::escape::visible;

/// Columns of a page: what every terminal has.
pub(super) const WIDTH: usize = 80;

/// Keeps a name and its figure on one line; [`Page`] turns it into a space after wrapping.
const GLUE: char = '\u{a0}';

/// How a line looks where the reader asked for colour.
#[derive(Clone, Copy)]
pub(super) enum Tone {
    Plain,
    Bold,
    Dim,
}

/// Lines so far.
pub(super) struct Page<'a> {
    style: &'a Style,
    out: String,
}

impl<'a> Page<'a> {
    pub(super) fn new(style: &'a Style) -> Self {
        Page {
            style,
            out: String::new(),
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    /// Rows that a table shows before it sums up the rest.
    pub(super) fn rows(&self) -> usize {
        self.style.rows
    }

    /// An empty line, the section's name and what it shows in a few words.
    pub(super) fn section(&mut self, name: &str, caption: &str) {
        self.out.push('\n');
        if self.style.color {
            self.out
                .push_str(&format!("\x1b[1m{name}\x1b[0m  \x1b[2m{caption}\x1b[0m\n"));
        } else {
            self.out.push_str(&format!("{name}  {caption}\n"));
        }
    }

    /// One line as it is.
    pub(super) fn line(&mut self, tone: Tone, text: &str) {
        // Names are escaped where they enter a line, so that its columns fit; this is the net below.
        let text = text.trim_end().replace(GLUE, " ");
        let text = visible(&text);
        let code = match tone {
            Tone::Plain => None,
            Tone::Bold => Some(1),
            Tone::Dim => Some(2),
        };
        match code.filter(|_| self.style.color && !text.is_empty()) {
            Some(code) => self.out.push_str(&format!("\x1b[{code}m{text}\x1b[0m\n")),
            None => self.out.push_str(&format!("{text}\n")),
        }
    }

    /// Text over as many lines as it needs: the first begins with `first`, the others with as many spaces.
    pub(super) fn text(&mut self, tone: Tone, first: &str, text: &str) {
        let rest = " ".repeat(first.width());
        let options = Options::new(WIDTH)
            .initial_indent(first)
            .subsequent_indent(&rest)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation);
        for line in textwrap::wrap(text, options) {
            self.line(tone, &line);
        }
    }
}

/// `text` harmless and unbreakable.
pub(super) fn glued(text: &str) -> String {
    visible(text).replace(' ', &GLUE.to_string())
}

/// `name(pid)`, harmless and unbreakable.
pub(super) fn who(name: &str, pid: u32) -> String {
    format!("{}({pid})", glued(&crate::escape::name(name)))
}

/// `text` and spaces up to `width` columns.
pub(super) fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Spaces and `text`, `width` columns.
pub(super) fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
}

/// Items joined by commas, at most `most` of them, and how many were left out.
pub(super) fn listed(items: impl Iterator<Item = String>, most: usize) -> String {
    let mut items = items.peekable();
    let mut shown: Vec<String> = items.by_ref().take(most).collect();
    if items.peek().is_some() {
        shown.push(format!(
            "… and {} more",
            crate::report::units::count(items.count() as u64)
        ));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_long_words_and_keeps_glued_ones() {
        let style = Style::default();
        let mut page = Page::new(&style);
        let name = who("tmux: server", 14407);
        page.text(
            Tone::Plain,
            "  target  ",
            &format!("{}{}", format!("{name}, ").repeat(5), "x".repeat(200)),
        );
        let text = page.finish();
        assert!(text.lines().all(|l| l.width() <= WIDTH), "{text}");
        assert_eq!(text.matches("tmux: server(14407)").count(), 5, "{text}");
        assert_eq!(text.matches('x').count(), 200 + 5);
        assert!(!text.contains(GLUE));
    }

    #[test]
    fn colour_only_when_asked() {
        let plain = Style::default();
        let mut page = Page::new(&plain);
        page.line(Tone::Bold, "a");
        assert_eq!(page.finish(), "a\n");
        let colour = Style {
            color: true,
            ..Style::default()
        };
        let mut page = Page::new(&colour);
        page.line(Tone::Bold, "a\x1b[31m");
        assert_eq!(page.finish(), "\x1b[1ma\\x1b[31m\x1b[0m\n");
    }
}
