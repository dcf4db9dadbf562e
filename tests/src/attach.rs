//! Runs `phux-trace attach --json` and reads its lines, as any outside program would.
//!
//! The shapes here name only the fields that tests look at; they are typed anew and not taken
//! from the profiler, so that a field that changes its name breaks a test.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;

use crate::bins::bin;
use crate::running::Running;

/// A distribution as the report prints it.
#[derive(Debug, Clone, Default, Deserialize, PartialEq, Eq)]
pub struct Dist {
    /// Samples.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Non-empty buckets.
    pub buckets: Vec<Bucket>,
}

/// One non-empty bucket.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
pub struct Bucket {
    /// 0–503.
    pub idx: u16,
    /// Samples in it.
    pub count: u64,
}

/// The bucket of `value`, written down here again so that it checks the one under test: exact
/// below 32, then 8 to each power of two.
pub fn bucket_of(value: u64) -> u16 {
    if value < 32 {
        return value as u16;
    }
    let exponent = value.ilog2();
    let eighth = (value >> (exponent - 3)) & 7;
    (32 + (exponent - 5) * 8 + eighth as u32) as u16
}

/// The distribution's exact part and buckets for known samples (percentiles are left 0).
pub fn dist_of(samples: impl IntoIterator<Item = u64>) -> Dist {
    let mut buckets = std::collections::BTreeMap::new();
    let mut dist = Dist {
        min: u64::MAX,
        ..Dist::default()
    };
    for value in samples {
        dist.count += 1;
        dist.sum += value;
        dist.min = dist.min.min(value);
        dist.max = dist.max.max(value);
        *buckets.entry(bucket_of(value)).or_insert(0) += 1;
    }
    if dist.count == 0 {
        dist.min = 0;
    }
    dist.buckets = buckets
        .into_iter()
        .map(|(idx, count)| Bucket { idx, count })
        .collect();
    dist
}

/// All that one run printed.
#[derive(Debug, Default)]
pub struct Lines {
    /// Every line, parsed.
    pub all: Vec<Value>,
}

impl Lines {
    /// Lines of one `type`.
    pub fn of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.all.iter().filter(move |line| line["type"] == kind)
    }

    /// The line of `type` "thread" for thread `tid`.
    pub fn thread(&self, tid: u32) -> &Value {
        self.of("thread")
            .find(|t| t["tid"] == tid)
            .unwrap_or_else(|| panic!("no thread {tid} in {:#?}", self.all))
    }

    /// The line of `type` "pty" for `/dev/pts/N`.
    pub fn pty(&self, index: u32) -> &Value {
        self.of("pty")
            .find(|p| p["index"] == index)
            .unwrap_or_else(|| panic!("no pty {index} in {:#?}", self.all))
    }

    /// The lines of `type` "hop", by probe name.
    pub fn hop(&self, probe: &str) -> &Value {
        self.of("hop")
            .find(|h| h["probe"] == probe)
            .unwrap_or_else(|| panic!("no hop {probe} in {:#?}", self.all))
    }

    /// Panics when anything was lost: then no count below can be exact.
    pub fn assert_nothing_lost(&self) {
        let losses: Vec<_> = self.of("loss").collect();
        assert!(losses.is_empty(), "lost: {losses:#?}");
    }
}

/// A distribution at `path` within a line (`["master_reads", "size"]`).
pub fn dist(line: &Value, path: &[&str]) -> Dist {
    let value = path.iter().fold(line, |v, key| &v[*key]);
    serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{path:?}: {e} in {line:#}"))
}

/// A number at `path` within a line.
pub fn number(line: &Value, path: &[&str]) -> u64 {
    let value = path.iter().fold(line, |v, key| &v[*key]);
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{path:?}: no number in {line:#}"))
}

/// An `attach` that runs.
#[derive(Debug)]
pub struct Attached {
    running: Running,
    first: Vec<Value>,
}

impl Attached {
    /// Attaches to process `pid` and waits until it says that it measures: with `--interval`, the
    /// first interval's line is the proof that every probe is in place.
    pub fn to(pid: u32) -> Attached {
        Attached::with(&["-p", &pid.to_string()])
    }

    /// Attaches with these arguments after `attach --json --interval 1s`.
    pub fn with(args: &[&str]) -> Attached {
        let mut command = Command::new(bin("phux-trace"));
        command
            .args(["attach", "--json", "--interval", "1s", "-d", "120s"])
            .args(args);
        let mut running = Running::start(&mut command);
        let line = running.line(Duration::from_secs(60));
        let first = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        Attached {
            running,
            first: vec![first],
        }
    }

    /// Process id of phux-trace.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Ends it as Ctrl-C does; gives all lines. It must end well, and soon.
    pub fn stop(self) -> Lines {
        self.running.signal(Signal::INT);
        self.end()
    }

    /// Waits for it to end by itself (target gone, time over).
    pub fn end(self) -> Lines {
        let ended = self.running.end(Duration::from_secs(30));
        assert!(ended.status.success(), "{}\n{}", ended.status, ended.stderr);
        let mut all = self.first;
        for line in &ended.stdout {
            all.push(serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")));
        }
        Lines { all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet_without_gap_and_end_at_503() {
        assert_eq!(bucket_of(31), 31);
        assert_eq!(bucket_of(32), 32);
        assert_eq!(bucket_of(35), 32);
        assert_eq!(bucket_of(36), 33);
        assert_eq!(bucket_of(63), 39);
        assert_eq!(bucket_of(64), 40);
        assert_eq!(bucket_of(u64::MAX), 503);
    }

    #[test]
    fn known_samples_give_their_distribution() {
        let dist = dist_of([1, 1, 40, 7]);
        assert_eq!((dist.count, dist.sum, dist.min, dist.max), (4, 49, 1, 40));
        let buckets: Vec<_> = dist.buckets.iter().map(|b| (b.idx, b.count)).collect();
        assert_eq!(buckets, [(1, 2), (7, 1), (34, 1)]);
    }
}
