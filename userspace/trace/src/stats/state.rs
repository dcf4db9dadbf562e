//! Everything at one moment, and what came between two moments.

use std::collections::BTreeMap;

use phux_perf::Snapshot;

use super::{FlushStat, IoKey, IoStat, PtyId, Side, ThreadKey, ThreadStat};

/// Ended threads kept one by one; further ones are summed by process and name.
const MAX_ENDED: usize = 4096;
/// Names under which they are summed; further ones share one.
const MAX_NAMES: usize = 4096;

/// The kernel side's sums at one moment.
#[derive(Debug, Clone, Default)]
pub struct KernelState {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Threads.
    pub threads: BTreeMap<ThreadKey, ThreadStat>,
    /// Reads and writes on PTYs.
    pub io: BTreeMap<IoKey, IoStat>,
    /// Flush work, by the end that it goes to.
    pub flush: BTreeMap<(PtyId, Side), FlushStat>,
    /// Hops, by process and id.
    pub hops: BTreeMap<(u32, u32), Snapshot>,
    /// Losses by `events::LOSS_*`.
    pub losses: BTreeMap<u32, u64>,
    /// Records that could not be decoded.
    pub undecodable: u64,
}

impl KernelState {
    /// Adds the threads that have ended, and closes what is under way.
    pub fn complete(&mut self, ended: &Ended) {
        for (key, thread) in &ended.threads {
            // One that ended while the others were read out is in both: the ended one is whole.
            self.threads.insert(*key, thread.clone());
        }
        for (i, thread) in ended.summed.values().enumerate() {
            self.threads.insert((0, i as u64), thread.clone());
        }
        let now = self.at_ns;
        self.threads.values_mut().for_each(|t| t.close(now));
    }

    /// What came since an earlier moment.
    pub fn since(&self, earlier: &KernelState) -> KernelState {
        fn diff<K: Ord + Clone, V: Clone>(
            now: &BTreeMap<K, V>,
            then: &BTreeMap<K, V>,
            since: impl Fn(&V, &V) -> V,
        ) -> BTreeMap<K, V> {
            now.iter()
                .map(|(k, v)| (k.clone(), then.get(k).map_or_else(|| v.clone(), |e| since(v, e))))
                .collect()
        }
        KernelState {
            at_ns: self.at_ns,
            threads: diff(&self.threads, &earlier.threads, ThreadStat::since),
            io: diff(&self.io, &earlier.io, IoStat::since),
            flush: diff(&self.flush, &earlier.flush, FlushStat::since),
            hops: diff(&self.hops, &earlier.hops, Snapshot::delta),
            losses: diff(&self.losses, &earlier.losses, |n, e| n.saturating_sub(*e)),
            undecodable: self.undecodable.saturating_sub(earlier.undecodable),
        }
    }
}

/// The threads that have ended since tracing began.
#[derive(Debug, Clone, Default)]
pub struct Ended {
    threads: BTreeMap<ThreadKey, ThreadStat>,
    summed: BTreeMap<(u32, String), ThreadStat>,
}

impl Ended {
    /// Keeps an ended thread.
    pub fn add(&mut self, thread: ThreadStat) {
        if self.threads.len() < MAX_ENDED {
            self.threads.insert(thread.key(), thread);
            return;
        }
        let mut key = (thread.pid, thread.comm.clone());
        if self.summed.len() >= MAX_NAMES && !self.summed.contains_key(&key) {
            key = (0, "(ended)".into());
        }
        match self.summed.get_mut(&key) {
            Some(sum) => sum.merge(&thread),
            None => {
                let sum = ThreadStat { tid: 0, start_time: 0, pid: key.0, comm: key.1.clone(), ..thread };
                self.summed.insert(key, sum);
            }
        }
    }

    /// How many are kept, one by one or summed.
    pub fn len(&self) -> usize {
        self.threads.len() + self.summed.len()
    }

    /// None has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_ended_threads_is_bounded_and_whole() {
        let mut ended = Ended::default();
        let n = 50_000u64;
        for i in 0..n {
            let mut t = ThreadStat { tid: i as u32 + 1, start_time: i, pid: (i % 9000) as u32 + 1, ..ThreadStat::default() };
            t.comm = format!("t{}", i % 7);
            t.on_cpu_ns = 3;
            t.wait.record(i);
            ended.add(t);
        }
        assert!(ended.len() <= MAX_ENDED + MAX_NAMES + 1, "{}", ended.len());
        let mut state = KernelState::default();
        state.complete(&ended);
        assert_eq!(state.threads.values().map(|t| t.wait.count).sum::<u64>(), n);
        assert_eq!(state.threads.values().map(|t| t.on_cpu_ns).sum::<u64>(), 3 * n);
    }

    #[test]
    fn an_interval_is_what_came_since() {
        let mut then = KernelState::default();
        let mut t = ThreadStat { tid: 1, start_time: 1, voluntary: 2, ..ThreadStat::default() };
        t.wait.record(10);
        then.threads.insert(t.key(), t.clone());
        let mut now = then.clone();
        t.voluntary = 5;
        t.wait.record(20);
        now.threads.insert(t.key(), t);
        let since = now.since(&then);
        let t = &since.threads[&(1, 1)];
        assert_eq!((t.voluntary, t.wait.count, t.wait.sum), (3, 1, 20));
    }
}
