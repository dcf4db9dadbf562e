//! What libbpf says while it loads, kept for the error message instead of printed.

use std::sync::Mutex;

use libbpf_rs::{PrintLevel, set_print};

/// Lines kept; a verifier's log is cut to its end, where the reason stands.
const KEEP: usize = 60;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn keep(_: PrintLevel, text: String) {
    if std::env::var_os("DBG").is_some() {
        eprint!("{text}");
    }
    let Ok(mut lines) = LINES.lock() else { return };
    for line in text.lines() {
        // libbpf guesses at the memlock limit whenever a load is refused; since
        // 5.11 that is never the cause and sends people the wrong way.
        if line.contains("ulimit -l") || line.contains("RLIMIT_MEMLOCK") {
            continue;
        }
        lines.push(line.to_owned());
    }
    let surplus = lines.len().saturating_sub(KEEP);
    lines.drain(..surplus);
}

/// Runs `f` and returns with its result what libbpf had to say about it.
pub(crate) fn listening<T>(f: impl FnOnce() -> T) -> (T, Vec<String>) {
    set_print(Some((PrintLevel::Warn, keep)));
    if let Ok(mut lines) = LINES.lock() {
        lines.clear();
    }
    let result = f();
    let said = LINES
        .lock()
        .map(|mut l| std::mem::take(&mut *l))
        .unwrap_or_default();
    (result, said)
}

/// The line of libbpf's that names the reason, if one does.
pub(crate) fn reason(said: &[String]) -> Option<&str> {
    said.iter()
        .rev()
        .map(|l| l.trim().trim_start_matches("libbpf: "))
        .find(|l| {
            !l.is_empty()
                && !["--", "processed ", "failed to load "]
                    .iter()
                    .any(|p| l.starts_with(p))
                && !l.contains(": failed to load: ")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_misleading_hint_is_left_out() {
        let ((), said) = listening(|| {
            keep(
                PrintLevel::Warn,
                "libbpf: permission error while running as root; try raising 'ulimit -l'? current value: 8.0 MiB\nlibbpf: prog 'x': failed to load: -EPERM\n".into(),
            );
        });
        assert_eq!(said, ["libbpf: prog 'x': failed to load: -EPERM"]);
        assert_eq!(reason(&said), None);
    }
}
