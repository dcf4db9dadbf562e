//! Everything at one moment, and what came between two moments.

use std::collections::{BTreeMap, HashSet, VecDeque};

use phux_perf::Snapshot;
use probe_ebpf::events;

use super::{FlushStat, IoKey, IoStat, PtyId, Side, ThreadKey, ThreadStat};

/// Ended threads of the target that are kept one by one; further ones are summed by name.
pub(crate) const MAX_ENDED: usize = 4096;
/// Names under which they are summed; further ones share one.
const MAX_NAMES: usize = 4096;

/// Ended threads summed: their process, or 0 for those of peers, and their name.
pub type SumKey = (u32, String);

/// The kernel side's sums at one moment.
#[derive(Debug, Clone, Default)]
pub struct KernelState {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Threads.
    pub threads: BTreeMap<ThreadKey, ThreadStat>,
    /// Ended threads, summed by name: a shell starts a hundred `date`.
    pub summed: BTreeMap<SumKey, ThreadStat>,
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
    /// Times that a program could not run, because it ran on that CPU already.
    pub missed: u64,
}

impl KernelState {
    /// Adds the threads that have ended, and closes what is under way.
    pub fn complete(&mut self, ended: &Ended) {
        for (key, thread) in &ended.threads {
            // One that ended while the others were read out is in both: the ended one is whole.
            self.threads.insert(*key, thread.clone());
        }
        self.threads.retain(|key, _| !ended.is_summed(key));
        self.summed.clone_from(&ended.summed);
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
                .map(|(k, v)| {
                    (
                        k.clone(),
                        then.get(k).map_or_else(|| v.clone(), |e| since(v, e)),
                    )
                })
                .collect()
        }
        let summed_then = self.summed_at(earlier);
        KernelState {
            at_ns: self.at_ns,
            threads: diff(&self.threads, &earlier.threads, ThreadStat::since),
            summed: diff(&self.summed, &summed_then, ThreadStat::since),
            io: diff(&self.io, &earlier.io, IoStat::since),
            flush: diff(&self.flush, &earlier.flush, FlushStat::since),
            hops: diff(&self.hops, &earlier.hops, Snapshot::delta),
            losses: diff(&self.losses, &earlier.losses, |n, e| n.saturating_sub(*e)),
            undecodable: self.undecodable.saturating_sub(earlier.undecodable),
            missed: self.missed.saturating_sub(earlier.missed),
        }
    }
}

impl KernelState {
    /// Of what is summed now, as much as there was then: a thread that lived then and is summed now brought into
    /// the sum what it had then already.
    pub fn summed_at(&self, earlier: &KernelState) -> BTreeMap<SumKey, ThreadStat> {
        let mut then = earlier.summed.clone();
        for (key, thread) in &earlier.threads {
            if !self.threads.contains_key(key) {
                add(&mut then, thread, 0);
            }
        }
        then
    }

    /// A thread has ended, and is summed by name from here on.
    pub fn sum_up(&mut self, key: ThreadKey) {
        if let Some(thread) = self.threads.remove(&key) {
            add(&mut self.summed, &thread, 0);
        }
    }
}

/// The threads that have ended since tracing began.
#[derive(Debug, Clone, Default)]
pub struct Ended {
    threads: BTreeMap<ThreadKey, ThreadStat>,
    summed: BTreeMap<SumKey, ThreadStat>,
    /// The last ones that were summed: the kernel may still have listed them a moment before.
    recent: VecDeque<ThreadKey>,
    /// The same, to look one up.
    is_recent: HashSet<ThreadKey>,
}

impl Ended {
    /// Keeps an ended thread: of the target one by one, of peers by name.
    pub fn add(&mut self, thread: ThreadStat) {
        if thread.relation == events::REL_TARGET && self.threads.len() < MAX_ENDED {
            self.threads.insert(thread.key(), thread);
            return;
        }
        if self.recent.len() >= MAX_ENDED
            && let Some(oldest) = self.recent.pop_front()
        {
            self.is_recent.remove(&oldest);
        }
        if self.is_recent.insert(thread.key()) {
            self.recent.push_back(thread.key());
        }
        add(&mut self.summed, &thread, 1);
    }

    fn is_summed(&self, key: &ThreadKey) -> bool {
        self.is_recent.contains(key)
    }

    /// Rows that they take.
    pub fn len(&self) -> usize {
        self.threads.len() + self.summed.len()
    }

    /// None has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn add(summed: &mut BTreeMap<SumKey, ThreadStat>, thread: &ThreadStat, threads: u64) {
    let process = if thread.relation == events::REL_TARGET {
        thread.pid
    } else {
        0
    };
    let mut key = (process, thread.comm.clone());
    if summed.len() >= MAX_NAMES && !summed.contains_key(&key) {
        key = (0, "(others)".into());
    }
    let sum = summed
        .entry(key)
        .or_insert_with_key(|(pid, comm)| ThreadStat {
            pid: *pid,
            comm: comm.clone(),
            relation: thread.relation,
            exited: true,
            ..ThreadStat::default()
        });
    sum.merge(thread);
    sum.threads += threads;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(i: u64, relation: u32) -> ThreadStat {
        let mut t = ThreadStat {
            tid: i as u32 + 1,
            first_tid: i as u32 + 1,
            start_time: i,
            pid: (i % 9000) as u32 + 1,
            relation,
            ..ThreadStat::default()
        };
        t.comm = format!("t{}", i % 7);
        t.on_cpu_ns = 3;
        t.wait.record(i);
        t
    }

    #[test]
    fn a_storm_of_ended_threads_is_bounded_and_whole() {
        for relation in [events::REL_TARGET, events::REL_CHILD] {
            let mut ended = Ended::default();
            let n = 50_000u64;
            (0..n).for_each(|i| ended.add(thread(i, relation)));
            assert!(ended.len() <= MAX_ENDED + MAX_NAMES + 1, "{}", ended.len());
            let mut state = KernelState::default();
            state.complete(&ended);
            let all = || state.threads.values().chain(state.summed.values());
            assert_eq!(all().map(|t| t.wait.count).sum::<u64>(), n);
            assert_eq!(all().map(|t| t.on_cpu_ns).sum::<u64>(), 3 * n);
            assert_eq!(
                state.threads.len() as u64 + state.summed.values().map(|t| t.threads).sum::<u64>(),
                n
            );
        }
    }

    #[test]
    fn an_interval_is_what_came_since() {
        let mut then = KernelState::default();
        let mut t = ThreadStat {
            tid: 1,
            first_tid: 1,
            start_time: 1,
            voluntary: 2,
            ..ThreadStat::default()
        };
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

    #[test]
    fn a_peer_that_ends_within_an_interval_is_not_counted_twice() {
        let mut then = KernelState::default();
        let mut t = thread(1, events::REL_PEER);
        then.threads.insert(t.key(), t.clone());
        t.on_cpu_ns = 10;
        t.wait.record(50);
        let mut ended = Ended::default();
        // The kernel listed it just before it ended.
        let mut now = then.clone();
        ended.add(t);
        now.complete(&ended);
        assert!(now.threads.is_empty());
        let since = now.since(&then);
        let sum = &since.summed[&(0, "t1".to_owned())];
        assert_eq!((sum.threads, sum.on_cpu_ns, sum.wait.count), (1, 7, 1));
    }
}
