//! What `phux-trace attach --json` printed, as a test wants it: one row for each thread, PTY and hop,
//! summed over the intervals of the run.
//!
//! The shapes name only the fields that tests look at; they are typed anew and not taken from the
//! profiler, so that a field that changes its name or meaning breaks a test.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

/// The largest value that falls into bucket `idx`.
pub fn bucket_top(idx: u16) -> u64 {
    let idx = u32::from(idx);
    if idx < 32 {
        return u64::from(idx);
    }
    let exponent = (idx - 32) / 8 + 5;
    let eighth = u64::from((idx - 32) % 8);
    let width = 1_u64 << (exponent - 3);
    (1_u64 << exponent) + (eighth * width) + (width - 1)
}

/// The distribution's exact part and buckets for known samples.
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

impl Dist {
    /// Adds the samples of `later`.
    pub fn absorb(&mut self, later: Dist) {
        if later.count == 0 {
            return;
        }
        self.min = if self.count == 0 {
            later.min
        } else {
            self.min.min(later.min)
        };
        self.max = self.max.max(later.max);
        self.count += later.count;
        self.sum += later.sum;
        let mut buckets: BTreeMap<u16, u64> = BTreeMap::new();
        for bucket in self.buckets.iter().chain(&later.buckets) {
            *buckets.entry(bucket.idx).or_default() += bucket.count;
        }
        self.buckets = buckets
            .into_iter()
            .map(|(idx, count)| Bucket { idx, count })
            .collect();
    }

    /// Upper bound of the bucket in which the `percent` percentile lies; 0 when empty.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (self.count as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for bucket in &self.buckets {
            seen += bucket.count;
            if seen >= rank {
                return bucket_top(bucket.idx).min(self.max);
            }
        }
        0
    }

    /// Panics when the parts of a distribution contradict each other.
    pub fn assert_sound(&self, what: &str) {
        let all: u64 = self.buckets.iter().map(|b| b.count).sum();
        assert_eq!(all, self.count, "{what}: buckets and count of {self:?}");
        assert!(self.min <= self.max, "{what}: {self:?}");
        assert!(
            self.buckets.iter().all(|b| b.count > 0 && b.idx < 504),
            "{what}: {self:?}"
        );
        assert!(self.buckets.is_sorted_by_key(|b| b.idx), "{what}: {self:?}");
    }
}

/// A thread.
#[derive(Debug, Clone, Deserialize)]
pub struct Thread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// `target` or `peer`.
    pub relation: String,
    /// Time on a CPU.
    pub on_cpu_ns: u64,
    /// Time asleep.
    pub blocked_ns: u64,
    /// Voluntary switches.
    pub voluntary: u64,
    /// Involuntary switches.
    pub involuntary: u64,
    /// Run-queue latency.
    pub wait: Dist,
    /// Who ran instead.
    pub ran_instead: Vec<Culprit>,
    /// Who woke it.
    pub wakers: Vec<Waker>,
    /// It ended.
    pub exited: bool,
    /// How long the wait under way has lasted.
    pub waiting_ns: Option<u64>,
    /// How many ended threads this row sums up.
    pub threads: u64,
}

/// Who ran instead.
#[derive(Debug, Clone, Deserialize)]
pub struct Culprit {
    /// `task`, `idle` or `unknown`.
    pub kind: String,
    /// Name of the process, or of the thread within the victim's process.
    pub name: String,
    /// Some of its pids.
    pub pids: Vec<u32>,
    /// Time.
    pub ns: u64,
}

/// Who woke, or queued work.
#[derive(Debug, Clone, Deserialize)]
pub struct Waker {
    /// Name.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// A PTY.
#[derive(Debug, Clone, Deserialize)]
pub struct Pty {
    /// N of `/dev/pts/N`.
    pub index: u32,
    /// The devpts instance.
    pub devpts: u64,
    /// Holders of the master.
    pub master: Vec<End>,
    /// Holders of the slave.
    pub slave: Vec<End>,
    /// Reads on the master.
    pub master_reads: Io,
    /// Writes on the master.
    pub master_writes: Io,
    /// Reads on the slave.
    pub slave_reads: Io,
    /// Writes on the slave.
    pub slave_writes: Io,
    /// Flush work towards the master.
    pub flush_output: Flush,
    /// Flush work towards the slave.
    pub flush_input: Flush,
}

/// A process at an end of a PTY.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct End {
    /// Process.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// Calls at one end.
#[derive(Debug, Clone, Deserialize)]
pub struct Io {
    /// Sizes.
    pub size: Dist,
    /// Durations.
    pub duration: Dist,
    /// Calls that moved nothing.
    pub empty: u64,
}

/// Flush work in one direction.
#[derive(Debug, Clone, Deserialize)]
pub struct Flush {
    /// Queued until started.
    pub wait: Dist,
    /// Started until ended.
    pub run: Dist,
    /// The reader's wait.
    pub reader_wait: Dist,
    /// Who queued it.
    pub queued_by: Vec<Waker>,
}

/// A hop.
#[derive(Debug, Clone, Deserialize)]
pub struct Hop {
    /// Process.
    pub pid: u32,
    /// Probe name.
    pub probe: String,
    /// Metric name.
    pub metric: String,
    /// Probe sites attached.
    pub sites: u32,
    /// Values.
    pub value: Dist,
    /// Unit of the values, where known.
    pub unit: Option<String>,
}

/// A class of losses.
#[derive(Debug, Clone, Deserialize)]
pub struct Loss {
    /// Class.
    pub class: String,
    /// How many.
    pub count: u64,
}

/// The looking's own cost.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Cost {
    /// CPU time of phux-trace.
    pub daemon_cpu_ns: u64,
    /// Its resident memory.
    pub daemon_rss_bytes: u64,
    /// Time in its BPF programs.
    pub bpf_ns: Option<u64>,
}

/// What one run reported: its last report, which is of the whole run, and the ones before it.
#[derive(Debug, Default)]
pub struct Summed {
    /// The reports of intervals, summed.
    pub intervals: Option<Box<Summed>>,
    /// `run` lines, one for each report.
    pub runs: Vec<Value>,
    /// Threads by id.
    pub threads: BTreeMap<u32, Thread>,
    /// Ended threads that are summed in one row, by name.
    pub ended: BTreeMap<String, Thread>,
    /// PTYs by devpts instance and index.
    pub ptys: BTreeMap<(u64, u32), Pty>,
    /// Hops by process and probe.
    pub hops: BTreeMap<(u32, String), Hop>,
    /// `in_process` lines.
    pub in_process: Vec<Value>,
    /// Losses by class.
    pub losses: BTreeMap<String, u64>,
    /// CPU and BPF time summed; memory as last seen.
    pub cost: Cost,
    /// `verdict` lines, one for each report.
    pub verdicts: Vec<Value>,
    /// `echo` lines, one for each report that has echoes.
    pub echoes: Vec<Value>,
}

impl Summed {
    /// Reads the lines in their order.
    pub fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> Summed {
        let mut all = Summed::default();
        for line in lines {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            if value["type"] == "run" && value["last"] == true {
                let before = std::mem::take(&mut all);
                all.runs.clone_from(&before.runs);
                all.verdicts.clone_from(&before.verdicts);
                all.intervals = Some(Box::new(before));
            }
            all.add(value);
        }
        all.assert_holds_its_intervals();
        let last: Vec<bool> = all.runs.iter().map(|r| r["last"] == true).collect();
        assert!(
            last.split_last()
                .is_some_and(|(end, rest)| *end && rest.iter().all(|l| !l)),
            "exactly the end's report is the last one: {last:?}"
        );
        assert_eq!(
            all.runs.len(),
            all.verdicts.len(),
            "each report has a verdict"
        );
        all
    }

    /// No interval may tell of more than the whole.
    fn assert_holds_its_intervals(&self) {
        let Some(parts) = &self.intervals else { return };
        for (tid, part) in &parts.threads {
            // A thread that ended since stands in a row with others of its name.
            let Some(whole) = self.threads.get(tid) else {
                continue;
            };
            assert!(
                part.wait.count <= whole.wait.count,
                "waits of {tid}: {part:?} of {whole:?}"
            );
            assert!(
                part.wait.sum <= whole.wait.sum,
                "waits of {tid}: {part:?} of {whole:?}"
            );
            assert!(
                part.voluntary <= whole.voluntary,
                "switches of {tid}: {part:?} of {whole:?}"
            );
        }
        for (id, part) in &parts.ptys {
            let whole = &self.ptys[id];
            assert!(
                part.master_reads.size.sum <= whole.master_reads.size.sum,
                "{id:?}"
            );
            assert!(
                part.slave_writes.size.count <= whole.slave_writes.size.count,
                "{id:?}"
            );
            assert!(
                part.flush_output.wait.count <= whole.flush_output.wait.count,
                "{id:?}"
            );
        }
        for (id, part) in &parts.hops {
            assert!(part.value.count <= self.hops[id].value.count, "{id:?}");
        }
    }

    fn add(&mut self, line: Value) {
        let kind = line["type"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "run" => self.runs.push(line),
            "verdict" => self.verdicts.push(line),
            "echo" => self.echoes.push(line),
            "thread" => {
                let row: Thread = typed(line);
                row.wait.assert_sound(&format!("waits of {}", row.tid));
                if row.tid == 0 {
                    match self.ended.get_mut(&row.comm) {
                        None => drop(self.ended.insert(row.comm.clone(), row)),
                        Some(sum) => sum.absorb(row),
                    }
                    return;
                }
                match self.threads.get_mut(&row.tid) {
                    None => drop(self.threads.insert(row.tid, row)),
                    Some(sum) => sum.absorb(row),
                }
            }
            "pty" => {
                let row: Pty = typed(line);
                match self.ptys.get_mut(&(row.devpts, row.index)) {
                    None => drop(self.ptys.insert((row.devpts, row.index), row)),
                    Some(sum) => sum.absorb(row),
                }
            }
            "hop" => {
                let row: Hop = typed(line);
                row.value.assert_sound(&row.probe);
                match self.hops.get_mut(&(row.pid, row.probe.clone())) {
                    None => drop(self.hops.insert((row.pid, row.probe.clone()), row)),
                    Some(sum) => sum.value.absorb(row.value),
                }
            }
            "in_process" => self.in_process.push(line),
            "loss" => {
                let row: Loss = typed(line);
                *self.losses.entry(row.class).or_default() += row.count;
            }
            "cost" => {
                let row: Cost = typed(line);
                self.cost.daemon_cpu_ns += row.daemon_cpu_ns;
                self.cost.daemon_rss_bytes = row.daemon_rss_bytes;
                self.cost.bpf_ns = match (self.cost.bpf_ns, row.bpf_ns) {
                    (Some(a), Some(b)) => Some(a + b),
                    (a, b) => a.or(b),
                };
            }
            other => panic!("unknown type {other:?}: {line}"),
        }
    }

    /// Thread `tid`.
    pub fn thread(&self, tid: u32) -> &Thread {
        self.threads
            .get(&tid)
            .unwrap_or_else(|| panic!("no thread {tid} among {:?}", self.threads.keys()))
    }

    /// The `in_process` line of a process.
    pub fn in_process(&self, pid: u32) -> &Value {
        self.in_process
            .iter()
            .find(|line| line["pid"] == pid)
            .unwrap_or_else(|| panic!("nothing from inside {pid}: {:?}", self.in_process))
    }

    /// The only PTY with this index.
    pub fn pty(&self, index: u32) -> &Pty {
        let mut found = self.ptys.values().filter(|p| p.index == index);
        let first = found.next();
        assert!(found.next().is_none(), "two PTYs have index {index}");
        first.unwrap_or_else(|| panic!("no PTY {index} among {:?}", self.ptys.keys()))
    }

    /// Probe `probe` of process `pid`.
    pub fn hop(&self, pid: u32, probe: &str) -> &Hop {
        self.hops
            .get(&(pid, probe.to_owned()))
            .unwrap_or_else(|| panic!("no hop {probe} of {pid} among {:?}", self.hops.keys()))
    }

    /// Panics when anything was lost: then no count can be exact.
    pub fn assert_nothing_lost(&self) {
        assert!(self.losses.is_empty(), "lost: {:?}", self.losses);
    }

    /// All notes of all reports.
    pub fn notes(&self) -> Vec<String> {
        let notes = self
            .runs
            .iter()
            .filter_map(|r| r["notes"].as_array())
            .flatten();
        notes
            .filter_map(|n| n.as_str().map(str::to_owned))
            .collect()
    }

    /// The processes of the last report.
    pub fn processes(&self) -> &[Value] {
        let last = self
            .runs
            .last()
            .and_then(|r| r["target"]["processes"].as_array());
        last.map(Vec::as_slice).unwrap_or_default()
    }
}

fn typed<T: DeserializeOwned>(line: Value) -> T {
    T::deserialize(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

impl Thread {
    fn absorb(&mut self, later: Thread) {
        self.comm = later.comm;
        if self.tid == 0 {
            self.threads += later.threads;
        }
        self.on_cpu_ns += later.on_cpu_ns;
        self.blocked_ns += later.blocked_ns;
        self.voluntary += later.voluntary;
        self.involuntary += later.involuntary;
        self.wait.absorb(later.wait);
        self.exited |= later.exited;
        add_wakers(&mut self.wakers, later.wakers);
        for culprit in later.ran_instead {
            let same = |c: &&mut Culprit| c.kind == culprit.kind && c.name == culprit.name;
            match self.ran_instead.iter_mut().find(same) {
                Some(sum) => sum.ns += culprit.ns,
                None => self.ran_instead.push(culprit),
            }
        }
    }

    /// Time that is blamed on anybody, or on nobody known.
    pub fn blamed_ns(&self) -> u64 {
        self.ran_instead.iter().map(|c| c.ns).sum()
    }

    /// Time that is blamed on `name`.
    pub fn blamed_on(&self, name: &str) -> u64 {
        self.ran_instead
            .iter()
            .filter(|c| c.name == name)
            .map(|c| c.ns)
            .sum()
    }
}

fn add_wakers(sum: &mut Vec<Waker>, later: Vec<Waker>) {
    for waker in later {
        match sum.iter_mut().find(|w| w.name == waker.name) {
            Some(same) => same.count += waker.count,
            None => sum.push(waker),
        }
    }
}

impl Pty {
    fn absorb(&mut self, later: Pty) {
        self.master = later.master;
        self.slave = later.slave;
        self.master_reads.absorb(later.master_reads);
        self.master_writes.absorb(later.master_writes);
        self.slave_reads.absorb(later.slave_reads);
        self.slave_writes.absorb(later.slave_writes);
        self.flush_output.absorb(later.flush_output);
        self.flush_input.absorb(later.flush_input);
    }

    /// True when process `pid` holds that end.
    pub fn held_by(ends: &[End], pid: u32) -> bool {
        ends.iter().any(|end| end.pid == pid)
    }
}

impl Io {
    fn absorb(&mut self, later: Io) {
        self.size.absorb(later.size);
        self.duration.absorb(later.duration);
        self.empty += later.empty;
    }
}

impl Flush {
    fn absorb(&mut self, later: Flush) {
        self.wait.absorb(later.wait);
        self.run.absorb(later.run);
        self.reader_wait.absorb(later.reader_wait);
        add_wakers(&mut self.queued_by, later.queued_by);
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
        assert_eq!(bucket_top(503), u64::MAX);
        for idx in 0..503 {
            assert_eq!(bucket_of(bucket_top(idx)), idx);
            assert_eq!(bucket_of(bucket_top(idx) + 1), idx + 1);
        }
    }

    #[test]
    fn intervals_sum_up_to_the_whole() {
        let samples = [1, 1, 40, 7, 100, 100_000];
        let mut sum = Dist::default();
        for part in samples.chunks(2) {
            sum.absorb(dist_of(part.iter().copied()));
        }
        assert_eq!(sum, dist_of(samples));
        assert_eq!(sum.percentile(50.0), 7);
        assert_eq!(sum.percentile(100.0), 100_000);
    }

    #[test]
    fn known_samples_give_their_distribution() {
        let dist = dist_of([1, 1, 40, 7]);
        assert_eq!((dist.count, dist.sum, dist.min, dist.max), (4, 49, 1, 40));
        let buckets: Vec<_> = dist.buckets.iter().map(|b| (b.idx, b.count)).collect();
        assert_eq!(buckets, [(1, 2), (7, 1), (34, 1)]);
    }
}
