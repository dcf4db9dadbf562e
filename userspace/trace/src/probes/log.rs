//! What libbpf says while it loads, kept for the error message instead of printed.

use std::sync::Mutex;

use libbpf_rs::{PrintLevel, set_print};

/// Lines kept; a verifier's log is cut to its end, where the reason stands.
const KEEP: usize = 60;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn keep(_: PrintLevel, text: String) {
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
                && !only_says_that_it_failed(l)
        })
}

/// `prog 'x': BPF program load failed: -EPERM`: nothing that the error itself does not say.
fn only_says_that_it_failed(line: &str) -> bool {
    let Some((_, what)) = line
        .strip_prefix("prog '")
        .and_then(|l| l.split_once("': "))
    else {
        return false;
    };
    [
        "BPF program load failed",
        "failed to load",
        "failed to attach",
    ]
    .iter()
    .any(|p| what.starts_with(p))
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

    #[test]
    fn a_line_without_news_is_no_reason() {
        let said = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        let plain = said(&[
            "libbpf: prog 'x': BPF program load failed: -EPERM",
            "libbpf: prog 'x': failed to load: -EPERM",
            "libbpf: failed to load object 'trial_bpf'",
        ]);
        assert_eq!(reason(&plain), None);
        let telling = said(&[
            "libbpf: prog 'x': failed to find kernel BTF type ID of 'tty_read': -ESRCH",
            "libbpf: prog 'x': failed to load: -ESRCH",
        ]);
        assert_eq!(
            reason(&telling),
            Some("prog 'x': failed to find kernel BTF type ID of 'tty_read': -ESRCH")
        );
        let verifier = said(&[
            "libbpf: prog 'x': BPF program load failed: -EINVAL",
            "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --",
            "unknown func bpf_loop#181",
            "processed 3 insns (limit 1000000) max_states_per_insn 0",
            "-- END PROG LOAD LOG --",
            "libbpf: prog 'x': failed to load: -EINVAL",
        ]);
        assert_eq!(reason(&verifier), Some("unknown func bpf_loop#181"));
    }
}
