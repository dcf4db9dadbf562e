//! Figures of calls: by system call, file, process and thread; over time; as a tree; the last ones.
//! Bounded however long it runs: the largest are kept by name, the rest is summed, nothing dropped.

mod figures;
mod rates;
mod recent;
mod top;
mod tree;

#[cfg(test)]
pub(crate) use tree::tests;

pub use figures::Figures;
pub use rates::{Rate, Rates, SECONDS};
pub use recent::{RECENT, Recent};
pub use top::Top;
pub use tree::{Leaf, Leaves, Level, Metric, Node};

use phux_perf::Snapshot;
use rustc_hash::FxHashMap;

use super::{Call, Consumer, End, Name};
use crate::source::live::CallSums;

/// Files, and threads, that have figures of their own.
const MOST: usize = 4096;
/// Processes.
const MOST_PROCESSES: usize = 4096;

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThreadKey {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

/// All figures.
#[derive(Debug)]
pub struct Stats {
    /// All calls.
    pub total: Figures,
    /// By number; see [`super::table`].
    pub syscalls: FxHashMap<u32, Figures>,
    /// By file; calls without one are in none.
    pub files: Top<Name>,
    /// By process.
    pub processes: Top<u32>,
    /// By thread.
    pub threads: Top<ThreadKey>,
    /// What processes are called.
    pub process_names: FxHashMap<u32, Name>,
    /// By second.
    pub rates: Rates,
    /// By process, file and call at once.
    pub leaves: Leaves,
    /// The last ones.
    pub recent: Recent,
    /// Between the calls of a thread, ns.
    pub gaps: Snapshot,
    /// Of their sum: off CPU.
    pub gap_off_ns: u64,
    /// Calls that were still under way at the end.
    pub under_way: Vec<Call>,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            total: Figures::default(),
            syscalls: FxHashMap::default(),
            files: Top::new(MOST),
            processes: Top::new(MOST_PROCESSES),
            threads: Top::new(MOST),
            process_names: FxHashMap::default(),
            rates: Rates::default(),
            leaves: Leaves::default(),
            recent: Recent::default(),
            gaps: Snapshot::default(),
            gap_off_ns: 0,
            under_way: Vec::new(),
        }
    }
}

impl Stats {
    pub(super) fn add(&mut self, call: &Call) {
        if call.end == End::UnderWay {
            self.under_way.push(call.clone());
            return;
        }
        self.total.add(call);
        self.syscalls.entry(call.nr).or_default().add(call);
        if let Some(file) = &call.file {
            self.files.of(file).add(call);
        }
        self.processes.of(&call.pid).add(call);
        let thread = ThreadKey {
            pid: call.pid,
            tid: call.tid,
        };
        self.threads.of(&thread).add(call);
        if self.leaves.add(call) {
            self.name_process(call.pid, &call.process);
        }
        if call.gap != 0 {
            self.gaps.record(call.gap);
            self.gap_off_ns = self.gap_off_ns.saturating_add(call.gap_off_ns);
        }
        self.rates.add(call);
        self.recent.push(call);
    }

    fn name_process(&mut self, pid: u32, name: &Name) {
        if self.process_names.len() >= 2 * MOST_PROCESSES {
            let kept = &self.processes;
            self.process_names.retain(|pid, _| kept.get(pid).is_some());
        }
        self.process_names.insert(pid, name.clone());
    }

    /// Adds what the kernel has summed up itself: there is neither file nor thread nor second of it.
    pub(super) fn add_summed(&mut self, sums: &CallSums, process: &Name) {
        let CallSums {
            pid, nr, figures, ..
        } = sums;
        let (pid, nr) = (*pid, *nr);
        self.name_process(pid, process);
        self.total.merge(figures);
        self.syscalls.entry(nr).or_default().merge(figures);
        self.processes.of(&pid).merge(figures);
        self.leaves.add_summed(pid, nr, figures);
    }

    /// What a process is called; empty when nobody said.
    pub fn process_name(&self, pid: u32) -> &str {
        self.process_names.get(&pid).map_or("", |n| n)
    }
}

impl Consumer for Stats {
    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            self.add(call);
        }
    }
}
