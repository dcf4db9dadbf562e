//! Names of others, made harmless, and figures for people.

/// Commands, paths and threads are named by others: what would steer a terminal, or reorder what
/// is around it, is shown as `\u{1b}`.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let reorders = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || reorders {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// `1.23 ms`.
pub(crate) fn duration(ns: u64) -> String {
    let (unit, name) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns as f64 / unit;
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_a_terminal_is_shown() {
        assert_eq!(
            harmless("a\u{1b}[2J\u{202e}\té"),
            "a\\u{1b}[2J\\u{202e}\\u{9}é"
        );
    }

    #[test]
    fn durations_have_three_digits() {
        for (ns, wanted) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_234, "1.23 µs"),
            (45_600_000, "45.6 ms"),
            (789_000_000_000, "789 s"),
        ] {
            assert_eq!(duration(ns), wanted);
        }
    }
}
