//! What a run comes to, live or replayed: the same steps in the same order give the same answer.

use std::collections::{BTreeSet, HashMap};

use phux_perf::Snapshot;
use phux_recording::Row;

use super::sums::Heard;
use crate::echo::{self, Chain, Config, Counts, Follower, Summary};
use crate::report::model::{Cgroup, Echoes};
use crate::source::Event;

/// What numbers are called, as far as the recording knows.
#[derive(Debug, Default)]
pub struct Known {
    threads: HashMap<(u32, u32), String>,
    cgroups: HashMap<u64, Cgroup>,
    unix_offset_ns: i128,
}

impl echo::Names for Known {
    fn thread(&self, pid: u32, tid: u32) -> String {
        self.threads.get(&(pid, tid)).cloned().unwrap_or_default()
    }

    fn cgroup(&self, id: u64) -> Option<Cgroup> {
        self.cgroups.get(&id).cloned()
    }

    fn unix_offset_ns(&self) -> i128 {
        self.unix_offset_ns
    }
}

/// All of it.
#[derive(Debug)]
pub struct Analysis {
    follower: Option<Follower>,
    summary: Summary,
    counts: Counts,
    /// Threads, PTYs, hops.
    pub sums: Heard,
    /// Names.
    pub known: Known,
    targets: BTreeSet<u32>,
    lost: u64,
    drained_ns: u64,
}

impl Analysis {
    /// Nothing yet. What to add to CLOCK_MONOTONIC for Unix time, ns; echoes of `slow_from` ns
    /// and longer are kept one by one.
    pub fn new(unix_offset_ns: i128, slow_from: Option<u64>) -> Analysis {
        Analysis {
            follower: Some(Follower::new(Config::default())),
            summary: Summary::new(slow_from),
            counts: Counts::default(),
            sums: Heard::default(),
            known: Known {
                unix_offset_ns,
                ..Known::default()
            },
            targets: BTreeSet::new(),
            lost: 0,
            drained_ns: 0,
        }
    }

    /// A thread is called so.
    pub fn named(&mut self, pid: u32, tid: u32, name: &str) {
        self.known.threads.insert((pid, tid), name.to_owned());
    }

    /// A cgroup.
    pub fn cgroup(&mut self, cgroup: Cgroup) {
        self.known.cgroups.insert(cgroup.id, cgroup);
    }

    /// What the hop with this id is.
    pub fn hop_named(&mut self, id: u32, probe: &str) {
        if let Some(follower) = &mut self.follower {
            follower.hop_named(id, probe);
        }
    }

    /// A process is the target from now on, or not any more.
    pub fn target(&mut self, pid: u32, is: bool) {
        if is {
            self.targets.insert(pid);
        } else {
            self.targets.remove(&pid);
        }
    }

    /// A row of a table of sums; others mean nothing here.
    pub fn sum(&mut self, row: &Row) {
        self.sums.row(row);
    }

    /// An event.
    pub fn event(&mut self, event: Event) {
        if let Event::Exit { thread, .. } = &event {
            self.named(thread.pid, thread.tid, &thread.comm);
        }
        self.sums.event(&event);
        if let Some(follower) = &mut self.follower {
            follower.push(event);
        }
    }

    /// All events up to then were given, and so many were lost since the beginning: the echoes that
    /// have ended. After the `last` there is no more.
    pub fn drained(&mut self, at_ns: u64, lost: u64, last: bool) -> Vec<Chain> {
        let Some(mut follower) = self.follower.take() else {
            return Vec::new();
        };
        if lost > self.lost {
            follower.lost(self.drained_ns, at_ns);
            self.lost = lost;
        }
        self.drained_ns = at_ns;
        follower.targets(&self.targets);
        let chains = if last {
            let (chains, counts) = follower.finish(at_ns);
            self.counts = counts;
            chains
        } else {
            let chains = follower.settle(at_ns);
            self.counts = follower.counts().clone();
            self.follower = Some(follower);
            chains
        };
        chains.iter().for_each(|c| self.summary.add(c));
        chains
    }

    /// Whether the end was told.
    pub fn is_over(&self) -> bool {
        self.follower.is_none()
    }

    /// What became of all inputs.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Lengths of those that were echoed, ns.
    pub fn lengths(&self) -> &Snapshot {
        self.summary.lengths()
    }

    /// The summary as the report has it.
    pub fn echoes(&self) -> Echoes {
        self.summary.rows(&self.known)
    }

    /// The slow ones.
    pub fn slow(&self) -> Vec<crate::report::model::ChainRow> {
        self.summary.slow_rows(&self.known)
    }
}
