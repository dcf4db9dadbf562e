//! That a process is as it was: what a tracer must leave alone.

use std::collections::BTreeMap;
use std::fs;

/// A process that sleeps, as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untouched {
    /// Its memory map.
    pub maps: String,
    /// The lines of `status` that a debugger or a signal would change.
    pub status: BTreeMap<String, String>,
    /// Its descriptors and what they are.
    pub fds: BTreeMap<String, String>,
}

impl Untouched {
    /// Looks at a process, which must be there.
    pub fn look(pid: u32) -> Untouched {
        let read = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
        };
        const KEPT: [&str; 9] = [
            "Name",
            "State",
            "TracerPid",
            "Uid",
            "SigPnd",
            "ShdPnd",
            "SigCgt",
            "Seccomp",
            "NoNewPrivs",
        ];
        let status = read("status");
        let lines = status.lines().filter_map(|l| l.split_once(':'));
        let kept = lines.filter(|(key, _)| KEPT.contains(key));
        let links = fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
        Untouched {
            maps: read("maps"),
            status: kept
                .map(|(k, v)| (k.to_owned(), v.trim().to_owned()))
                .collect(),
            fds: links
                .flatten()
                .filter_map(|e| {
                    let name = e.file_name().to_string_lossy().into_owned();
                    Some((name, fs::read_link(e.path()).ok()?.display().to_string()))
                })
                .collect(),
        }
    }

    /// Panics if the process is not as it was.
    pub fn assert_still(&self, pid: u32) {
        assert_eq!(&Untouched::look(pid), self, "process {pid} was touched");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen() {
        let pid = std::process::id();
        let before = Untouched::look(pid).fds;
        let file = fs::File::open("/dev/null").expect("open");
        let after = Untouched::look(pid).fds;
        assert!(after.len() > before.len() && !after.is_empty());
        drop(file);
    }
}
