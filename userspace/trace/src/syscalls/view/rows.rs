//! The largest of a kind, as rows.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::syscalls::stats::{Figures, Stats};
use crate::syscalls::table::table;

/// Rows that are given: more than anybody scrolls through.
const MOST: usize = 500;

/// What has figures of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Each system call.
    Syscalls,
    /// Each file, socket and pipe.
    Files,
    /// Each directory, with the files that are directly in it.
    Directories,
    /// Each process.
    Processes,
    /// Each thread.
    Threads,
}

/// By what they are the largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in Row")]
pub enum Measure {
    Count,
    Errors,
    Bytes,
    #[default]
    Time,
    Blocked,
    Wait,
    P50,
    P95,
    P99,
    Max,
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// This number.
    Syscall(u32),
    /// This file.
    File(String),
    /// This directory.
    Directory(String),
    /// This process.
    Process(u32),
    /// This thread of that process.
    Thread {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
    },
    /// All that have no row.
    Rest,
}

/// One of them. Times are ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it is about.
    pub key: Key,
    /// What that is called.
    pub name: String,
    /// Calls.
    pub count: u64,
    /// Those that failed.
    pub errors: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Their time.
    pub time_ns: u64,
    /// Of that: slept.
    pub blocked_ns: u64,
    /// Of that: waited for a CPU.
    pub wait_ns: u64,
    /// Half of them took no longer.
    pub p50: u64,
    /// So of 95 %.
    pub p95: u64,
    /// And of 99 %.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

impl Row {
    fn of(key: Key, name: String, f: &Figures) -> Row {
        Row {
            key,
            name,
            count: f.count(),
            errors: f.errors,
            bytes: f.bytes,
            time_ns: f.time_ns(),
            blocked_ns: f.blocked_ns,
            wait_ns: f.wait_ns,
            p50: f.duration.percentile(50.0),
            p95: f.duration.percentile(95.0),
            p99: f.duration.percentile(99.0),
            max: f.duration.max,
        }
    }
}

impl Measure {
    fn of(self, f: &Figures) -> u64 {
        match self {
            Measure::Count => f.count(),
            Measure::Errors => f.errors,
            Measure::Bytes => f.bytes,
            Measure::Time => f.time_ns(),
            Measure::Blocked => f.blocked_ns,
            Measure::Wait => f.wait_ns,
            Measure::P50 => f.duration.percentile(50.0),
            Measure::P95 => f.duration.percentile(95.0),
            Measure::P99 => f.duration.percentile(99.0),
            Measure::Max => f.duration.max,
        }
    }
}

/// The largest first, the rest in one row behind them.
pub(super) fn rows(stats: &Stats, kind: Kind, by: Measure) -> Vec<Row> {
    let process = |pid: u32| stats.process_name(pid).to_owned();
    match kind {
        Kind::Syscalls => {
            let all = stats.syscalls.iter().map(|(nr, f)| (*nr, f));
            let key = |nr: u32| (Key::Syscall(nr), table().get(nr).name.to_owned());
            largest(all, by, None, key)
        }
        Kind::Files => {
            let key = |f: &crate::syscalls::Name| (Key::File(f.to_string()), f.to_string());
            largest(stats.files.iter(), by, Some(&stats.files.rest), key)
        }
        Kind::Directories => {
            let mut by_directory: HashMap<&str, Figures> = HashMap::new();
            for (file, f) in stats.files.iter() {
                by_directory.entry(directory(file)).or_default().merge(f);
            }
            let all = by_directory.iter().map(|(dir, f)| (*dir, f));
            let key = |dir: &str| (Key::Directory(dir.to_owned()), dir.to_owned());
            largest(all, by, Some(&stats.files.rest), key)
        }
        Kind::Processes => {
            let key = |pid: &u32| (Key::Process(*pid), process(*pid));
            largest(stats.processes.iter(), by, Some(&stats.processes.rest), key)
        }
        Kind::Threads => {
            let key = |t: &crate::syscalls::stats::ThreadKey| {
                let (pid, tid) = (t.pid, t.tid);
                (Key::Thread { pid, tid }, process(pid))
            };
            largest(stats.threads.iter(), by, Some(&stats.threads.rest), key)
        }
    }
}

/// What is no path belongs to its kind: `pipe:[17]` to `pipe:`.
fn directory(file: &str) -> &str {
    if file.starts_with('/') {
        match file.rfind('/') {
            Some(0) | None => "/",
            Some(at) => file.get(..at).unwrap_or(file),
        }
    } else {
        file.find(':')
            .and_then(|at| file.get(..=at))
            .unwrap_or(file)
    }
}

fn largest<'a, K>(
    all: impl Iterator<Item = (K, &'a Figures)>,
    by: Measure,
    rest: Option<&Figures>,
    key: impl Fn(K) -> (Key, String),
) -> Vec<Row> {
    let mut all: Vec<(u64, K, &Figures)> = all.map(|(k, f)| (by.of(f), k, f)).collect();
    let order = |(size, _, f): &(u64, K, &Figures)| Reverse((*size, f.time_ns(), f.count()));
    let mut rest = rest.cloned().unwrap_or_default();
    if all.len() > MOST {
        all.select_nth_unstable_by_key(MOST, order);
        all.drain(MOST..).for_each(|(_, _, f)| rest.merge(f));
    }
    all.sort_by_key(order);
    let mut rows: Vec<Row> = all
        .into_iter()
        .map(|(_, k, f)| {
            let (key, name) = key(k);
            Row::of(key, name, f)
        })
        .collect();
    if rest.count() != 0 {
        rows.push(Row::of(Key::Rest, "(the rest)".into(), &rest));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::stats::tests::call;
    use crate::syscalls::{Consumer, Names};

    #[test]
    fn the_largest_come_first_and_nothing_is_dropped() {
        let (mut names, mut stats) = (Names::default(), Stats::default());
        for i in 0..2000u64 {
            let file = names.get(&format!("/tmp/{}/{i}", i % 3));
            stats.calls(&[call(1, Some(file), 0, 10_000, 10 + i % 1999)]);
        }
        for by in [Measure::Time, Measure::Count, Measure::P99, Measure::Bytes] {
            let rows = rows(&stats, Kind::Files, by);
            assert_eq!(rows.len(), MOST + 1);
            assert_eq!(rows.iter().map(|r| r.count).sum::<u64>(), 2000);
            assert_eq!(rows.iter().map(|r| r.bytes).sum::<u64>(), 6000);
            assert_eq!(rows.last().map(|r| &r.key), Some(&Key::Rest));
        }
        let by_time = rows(&stats, Kind::Files, Measure::Time);
        assert_eq!(by_time[0].time_ns, 2008);
        let dirs = rows(&stats, Kind::Directories, Measure::Count);
        let names: Vec<_> = dirs.iter().map(|r| (r.name.as_str(), r.count)).collect();
        assert_eq!(names.len(), 3);
        assert!(names.contains(&("/tmp/0", 667)), "{names:?}");
        assert_eq!(rows(&stats, Kind::Processes, Measure::Max)[0].count, 2000);
        assert_eq!(rows(&stats, Kind::Threads, Measure::Max)[0].count, 2000);
        assert_eq!(rows(&stats, Kind::Syscalls, Measure::P50)[0].name, "read");
    }

    #[test]
    fn every_name_has_a_directory() {
        assert_eq!(directory("/a/b"), "/a");
        assert_eq!(directory("/a"), "/");
        assert_eq!(directory("pipe:[7]"), "pipe:");
        assert_eq!(directory("odd"), "odd");
    }
}
