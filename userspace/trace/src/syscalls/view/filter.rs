//! Which calls are looked at.

use std::fmt;

use crate::report::units::{bytes, duration};
use crate::syscalls::Call;
use crate::syscalls::table::table;

/// Only calls of which this is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Of this process; its name is for people.
    Process(u32, String),
    /// Of this thread.
    Thread(u32, String),
    /// With this number.
    Syscall(u32),
    /// On this file, as the first or the second.
    File(String),
    /// In this directory or below.
    Below(String),
    /// That failed so; 0: that did not.
    Errno(u16),
    /// That took at least so long, ns.
    Took(u64),
    /// That moved at least so many bytes.
    Bytes(u64),
    /// That ended then or later, CLOCK_MONOTONIC, ns.
    Since(u64),
    /// In whose names these words are, in lower case.
    Words(String),
    /// No calls at all: echoes.
    Echoes,
}

impl Filter {
    /// Whether this call is one.
    pub fn passes(&self, call: &Call) -> bool {
        let files = || [&call.file, &call.file2].into_iter().flatten();
        match self {
            Filter::Process(pid, _) => call.pid == *pid,
            Filter::Thread(tid, _) => call.tid == *tid,
            Filter::Syscall(nr) => call.nr == *nr,
            Filter::File(path) => files().any(|f| **f == **path),
            Filter::Below(dir) => files().any(|f| is_below(f, dir)),
            Filter::Errno(errno) => call.errno() == *errno,
            Filter::Took(ns) => call.dur >= *ns,
            Filter::Bytes(n) => call.bytes >= *n,
            Filter::Since(ns) => call.start.saturating_add(call.dur) >= *ns,
            Filter::Words(words) => {
                holds(call.name(), words)
                    || holds(&call.comm, words)
                    || holds(&call.process, words)
                    || files().any(|f| holds(f, words))
                    || (call.errno() != 0 && holds(&errno_name(call.errno()), words))
            }
            Filter::Echoes => false,
        }
    }
}

/// The name of an error, as the manual pages have it.
pub(crate) fn errno_name(errno: u16) -> String {
    format!("{:?}", nix::errno::Errno::from_raw(errno.into()))
}

fn is_below(path: &str, dir: &str) -> bool {
    let below = path.strip_prefix(dir.trim_end_matches('/'));
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the text holds the words, which are in lower case.
pub(crate) fn holds(text: &str, words: &str) -> bool {
    if words.is_empty() {
        return true;
    }
    let (text, words) = (text.as_bytes(), words.as_bytes());
    // Names are ASCII as a rule; of others the letters themselves have to match.
    text.windows(words.len()).any(|w| {
        w.iter()
            .zip(words)
            .all(|(a, b)| a.to_ascii_lowercase() == *b)
    })
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Process(pid, name) => write!(f, "process {name}({pid})"),
            Filter::Thread(tid, name) => write!(f, "thread {name}({tid})"),
            Filter::Syscall(nr) => f.write_str(table().get(*nr).name),
            Filter::File(path) => f.write_str(path),
            Filter::Below(dir) => write!(f, "{}/…", dir.trim_end_matches('/')),
            Filter::Errno(0) => f.write_str("no error"),
            Filter::Errno(errno) => f.write_str(&errno_name(*errno)),
            Filter::Took(ns) => write!(f, "{} or longer", duration(*ns)),
            Filter::Bytes(n) => write!(f, "{} or more", bytes(*n)),
            Filter::Since(_) => f.write_str("since then"),
            Filter::Words(words) => write!(f, "/{words}"),
            Filter::Echoes => f.write_str("echoes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::Names;
    use crate::syscalls::stats::tests::call;

    #[test]
    fn a_call_passes_what_is_true_of_it() {
        let mut names = Names::default();
        let file = names.get("/tmp/Some/file");
        let mut c = call(7, Some(file), 0, 1000, 40);
        c.tid = 8;
        c.ret = -2;
        let yes = [
            Filter::Process(7, "x".into()),
            Filter::Thread(8, "x".into()),
            Filter::Syscall(0),
            Filter::File("/tmp/Some/file".into()),
            Filter::Below("/tmp".into()),
            Filter::Below("/".into()),
            Filter::Errno(2),
            Filter::Took(40),
            Filter::Bytes(3),
            Filter::Since(1000),
            Filter::Words("some/f".into()),
            Filter::Words("enoent".into()),
        ];
        for filter in yes {
            assert!(filter.passes(&c), "{filter}");
        }
        let no = [
            Filter::Process(8, "x".into()),
            Filter::Thread(7, "x".into()),
            Filter::Syscall(1),
            Filter::File("/tmp".into()),
            Filter::Below("/tm".into()),
            Filter::Errno(0),
            Filter::Took(41),
            Filter::Bytes(4),
            Filter::Since(1001),
            Filter::Words("other".into()),
            Filter::Echoes,
        ];
        for filter in no {
            assert!(!filter.passes(&c), "{filter}");
        }
    }
}
