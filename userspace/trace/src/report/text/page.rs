//! The page that the sections write on: 80 columns, wrapping, and emphasis where asked for.

use textwrap::{Options, WordSeparator, WordSplitter};
use unicode_width::UnicodeWidthStr;

use super::Style;
use crate::escape::visible;
use crate::report::clock;

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

/// A piece of a line, in a colour of its own where the reader asked for colour.
pub(super) struct Span {
    text: String,
    color: Option<u8>,
}

impl Span {
    pub(super) fn plain(text: String) -> Span {
        Span { text, color: None }
    }

    /// `color` as in `ESC [ color m`.
    pub(super) fn colored(text: String, color: u8) -> Span {
        Span {
            text,
            color: Some(color),
        }
    }
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

    /// Columns that a line may have.
    pub(super) fn width(&self) -> usize {
        self.style.columns.min(WIDTH)
    }

    /// A moment as time of day where the reader is.
    pub(super) fn time_of_day(&self, unix_ns: u64) -> String {
        let offset = (self.style.offset)(unix_ns / 1_000_000_000);
        clock::time_of_day(unix_ns, offset)
    }

    /// One line in several colours; neighbours of one colour share their sequence.
    pub(super) fn spans(&mut self, spans: &[Span]) {
        let plain: String = spans.iter().map(|s| s.text.as_str()).collect();
        if !self.style.color {
            self.line(Tone::Plain, &plain);
            return;
        }
        let mut left = plain.trim_end().len();
        let mut on = None;
        for span in spans {
            let text = span
                .text
                .get(..left.min(span.text.len()))
                .unwrap_or_default();
            left -= text.len();
            // Between marks of a colour there is nothing that shows it.
            if span.color != on && !text.is_empty() {
                if on.is_some() {
                    self.out.push_str("\x1b[0m");
                }
                if let Some(color) = span.color {
                    self.out.push_str(&format!("\x1b[{color}m"));
                }
                on = span.color;
            }
            self.out.push_str(&visible(text));
        }
        if on.is_some() {
            self.out.push_str("\x1b[0m");
        }
        self.out.push('\n');
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
        let width = self
            .style
            .columns
            .clamp(first.width() + 16, WIDTH.max(first.width() + 16));
        let options = Options::new(width)
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
