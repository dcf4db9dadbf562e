//! Threads: how they are scheduled, how long they waited, and who had the CPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Dist, Relation};
use crate::stats;
use crate::target::proc::policy_name;

/// Scheduling class of a thread: what Linux has for macOS's QoS class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchedClass {
    /// `SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`, `SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`, `SCHED_EXT`.
    pub policy: String,
    /// −20 … 19; meaningful for OTHER and BATCH.
    pub nice: i32,
    /// 1 … 99 for FIFO and RR, else 0.
    pub rt_priority: u32,
}

impl From<stats::SchedClass> for SchedClass {
    fn from(c: stats::SchedClass) -> Self {
        SchedClass {
            policy: policy_name(u32::from(c.policy)),
            nice: i32::from(c.nice),
            rt_priority: u32::from(c.rt_priority),
        }
    }
}

/// One traced thread.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ThreadRow {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// `comm` of the thread.
    pub comm: String,
    /// What it does, where that is known (`pty reader`, `main loop`, `child`).
    pub role: Option<String>,
    /// Of the target or of the other end.
    pub relation: Relation,
    /// Its scheduling class when last seen.
    pub sched: SchedClass,
    /// Time on a CPU.
    pub on_cpu_ns: u64,
    /// Time blocked (asleep, from off CPU until woken).
    pub blocked_ns: u64,
    /// Voluntary switches (it blocked).
    pub voluntary: u64,
    /// Involuntary switches (it was preempted or yielded).
    pub involuntary: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Run-queue latency: runnable (woken, new or preempted) until on a CPU.
    pub wait: Dist,
    /// A wait that had not ended when the window did: how long it had lasted.
    pub waiting_ns: Option<u64>,
    /// Who had the CPU during those waits, most time first; bounded, the rest summed in one row.
    pub ran_instead: Vec<Culprit>,
    /// Who woke it, most often first.
    pub wakers: Vec<Waker>,
    /// It ended within the window.
    pub exited: bool,
    /// How many ended threads of this name are summed in this row; then `tid` is 0, and for peers `pid` too.
    pub threads: u64,
}

/// What had the CPU that somebody waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    /// Kind of time.
    pub kind: CulpritKind,
    /// Process name (for threads of the victim's own process: the thread's name).
    pub name: String,
    /// Some of its pids (at most 4).
    pub pids: Vec<u32>,
    /// There were more pids than are listed.
    pub more_pids: bool,
    /// Time it had the CPU while the victim waited for that CPU.
    pub ns: u64,
    /// In how many slices.
    pub slices: u64,
    /// Its scheduling class when last seen; `None` for the kinds that are no task.
    pub sched: Option<SchedClass>,
}

/// What kind of time it was that the victim did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CulpritKind {
    /// Another task ran.
    Task,
    /// The CPU was idle and had to be woken, or the switch itself took the time.
    Idle,
    /// Not known: the wait went back further than the record of slices, or the table was full.
    Unknown,
}

/// Who woke a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waker {
    /// Process name, or `interrupt` where the wake came from an interrupt and no task caused it.
    pub name: String,
    /// How often.
    pub count: u64,
}
