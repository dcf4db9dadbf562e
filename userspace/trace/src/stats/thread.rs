//! One thread.

use phux_perf::Snapshot;
use probe_ebpf::events;

use super::{Blame, Wakers, comm, hist};

/// Identity of a thread that is never reused: tid and start time, both of when it was first seen.
pub type ThreadKey = (u32, u64);

/// What a thread is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was seen of it: it sleeps.
    #[default]
    Unknown,
    /// On a CPU.
    Running,
    /// Asleep.
    Blocked,
    /// Runnable, not running.
    Waiting,
}

/// Scheduling class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchedClass {
    /// `SCHED_*` of the kernel's UAPI.
    pub policy: u8,
    /// −20 … 19.
    pub nice: i8,
    /// 1 … 99 for FIFO and RR.
    pub rt_priority: u8,
}

impl From<&events::sched_class> for SchedClass {
    fn from(c: &events::sched_class) -> Self {
        SchedClass {
            policy: c.policy,
            nice: c.nice,
            rt_priority: c.rt_priority,
        }
    }
}

/// All that is kept of one thread. Times in ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadStat {
    /// Thread; 0 where ended threads are summed.
    pub tid: u32,
    /// How many ended threads are summed here; 0 for a thread of its own.
    pub threads: u64,
    /// Process.
    pub pid: u32,
    /// Name.
    pub comm: String,
    /// Its tid when it was first seen; an exec can change it.
    pub first_tid: u32,
    /// CLOCK_MONOTONIC of its start; an exec does not change it here.
    pub start_time: u64,
    /// `events::REL_*`.
    pub relation: u32,
    /// Its class when last seen.
    pub sched: SchedClass,
    /// What it was doing when last seen.
    pub phase: Phase,
    /// Since when.
    pub phase_since: u64,
    /// On a CPU, ended slices.
    pub on_cpu_ns: u64,
    /// Asleep, ended sleeps.
    pub blocked_ns: u64,
    /// Switches because it blocked.
    pub voluntary: u64,
    /// Switches because it was preempted or yielded.
    pub involuntary: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Run-queue latency.
    pub wait: Snapshot,
    /// Who ran instead.
    pub blame: Blame,
    /// Who woke it.
    pub wakers: Wakers,
    /// It has ended.
    pub exited: bool,
    /// When, ns; 0 while it lives.
    pub ended_at: u64,
    /// Status as in wait(2), once ended.
    pub exit_code: u32,
}

impl From<&events::thread_stats> for ThreadStat {
    fn from(t: &events::thread_stats) -> Self {
        ThreadStat {
            tid: t.tid,
            threads: 0,
            pid: t.tgid,
            comm: comm(&t.comm),
            first_tid: t.first_tid,
            start_time: t.start_time,
            relation: t.relation,
            sched: SchedClass::from(&t.sched),
            phase: match t.phase {
                events::PHASE_RUNNING => Phase::Running,
                events::PHASE_BLOCKED => Phase::Blocked,
                events::PHASE_WAITING => Phase::Waiting,
                _ => Phase::Unknown,
            },
            phase_since: t.phase_since,
            on_cpu_ns: t.on_cpu_ns,
            blocked_ns: t.blocked_ns,
            voluntary: t.voluntary,
            involuntary: t.involuntary,
            migrations: t.migrations,
            wait: hist(&t.wait),
            blame: Blame::from(&t.blame),
            wakers: Wakers::from(&t.wakers),
            exited: false,
            ended_at: 0,
            exit_code: t.exit_code,
        }
    }
}

impl ThreadStat {
    /// Its identity.
    pub fn key(&self) -> ThreadKey {
        (self.first_tid, self.start_time)
    }

    /// Closes what is under way at `now`, so that figures of a window are whole.
    pub fn close(&mut self, now: u64) {
        let ns = now.saturating_sub(self.phase_since);
        match self.phase {
            Phase::Running => self.on_cpu_ns += ns,
            Phase::Blocked => self.blocked_ns += ns,
            Phase::Waiting | Phase::Unknown => return,
        }
        self.phase_since = now;
    }

    /// A wait that has not ended at `now`: how long it has lasted.
    pub fn waiting_ns(&self, now: u64) -> Option<u64> {
        (self.phase == Phase::Waiting).then(|| now.saturating_sub(self.phase_since))
    }

    /// Adds another ended thread of the same name.
    pub fn merge(&mut self, more: &ThreadStat) {
        self.on_cpu_ns += more.on_cpu_ns;
        self.blocked_ns += more.blocked_ns;
        self.voluntary += more.voluntary;
        self.involuntary += more.involuntary;
        self.migrations += more.migrations;
        self.wait.merge(&more.wait);
        self.blame.merge(&more.blame);
        self.wakers.merge(&more.wakers);
        self.sched = more.sched;
    }

    /// What came since.
    pub fn since(&self, earlier: &ThreadStat) -> ThreadStat {
        ThreadStat {
            threads: self.threads.saturating_sub(earlier.threads),
            on_cpu_ns: self.on_cpu_ns.saturating_sub(earlier.on_cpu_ns),
            blocked_ns: self.blocked_ns.saturating_sub(earlier.blocked_ns),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
            migrations: self.migrations.saturating_sub(earlier.migrations),
            wait: self.wait.delta(&earlier.wait),
            blame: self.blame.since(&earlier.blame),
            wakers: self.wakers.since(&earlier.wakers),
            ..self.clone()
        }
    }

    /// Nothing happened to it.
    pub fn is_quiet(&self) -> bool {
        self.wait.count == 0
            && self.on_cpu_ns == 0
            && self.voluntary + self.involuntary == 0
            && self.phase != Phase::Waiting
    }
}
