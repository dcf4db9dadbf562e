//! What goes to standard error: harmless, and on a terminal broken into lines that fit.

use std::io::{self, IsTerminal, Write};

use textwrap::{Options, WordSeparator, WordSplitter};

use crate::escape::visible;

/// Columns on a terminal, as of everything else that phux-trace prints.
const WIDTH: usize = 80;

/// Says `text` in the name of the program: an error, or something to know besides the output.
///
/// A closed or full standard error changes nothing: there is nobody left to tell.
pub fn complain(text: &str) {
    let fits = io::stderr().is_terminal();
    let _ = io::stderr().write_all(lines(&format!("phux-trace: {text}"), fits).as_bytes());
}

/// A line for the person who waits; never into a pipe or a file.
pub fn remark(text: &str) {
    if io::stderr().is_terminal() {
        let _ = io::stderr().write_all(lines(text, true).as_bytes());
    }
}

/// `text` without control characters, its own lines kept. In a pipe a line stays whole, for the
/// program that looks for words in it.
fn lines(text: &str, fits: bool) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = visible(line);
        let indent = line.len() - line.trim_start().len() + 2;
        let rest = " ".repeat(indent);
        let options = Options::new(if fits { WIDTH } else { usize::MAX })
            .subsequent_indent(&rest)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .break_words(false);
        for wrapped in textwrap::wrap(&line, options) {
            out.push_str(&wrapped);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_fit_a_terminal_and_stay_whole_in_a_pipe() {
        let text = format!("phux-trace: {}\n    7  bash\n", "some words ".repeat(20));
        let shown = lines(&text, true);
        assert!(shown.lines().all(|l| l.len() <= WIDTH), "{shown}");
        assert!(shown.contains("\n  words") || shown.contains("\n  some"));
        assert!(shown.ends_with("    7  bash\n"), "{shown}");
        assert_eq!(lines(&text, false).lines().count(), 2);
    }

    proptest! {
        #[test]
        fn nothing_harmful_is_said(text in any::<String>(), fits: bool) {
            let shown = lines(&text, fits);
            prop_assert!(shown.chars().all(|c| c == '\n' || crate::escape::is_harmless(c)));
        }
    }
}
