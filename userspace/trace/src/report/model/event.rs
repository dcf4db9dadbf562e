//! What `--events` tells one by one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Culprit;

/// One line of `--events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    /// When it ended, ns since the Unix epoch.
    pub unix_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// Process; of a flush the kworker.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU.
    pub cpu: u32,
    /// Device number of the PTY's devpts instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devpts: Option<u64>,
    /// The PTY's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// At the master (of a flush: towards it), else at the slave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<bool>,
    /// Bytes read or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i64>,
    /// Of a read or write, blocking included; of a flush, from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// Of a flush: from queued to started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ns: Option<u64>,
    /// Of a flush: the process that queued it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_by: Option<u32>,
    /// Of a flush: the thread of it that did; with the kernel's own echo a kworker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_by_tid: Option<u32>,
    /// Of a flush: who had the kworker's CPU from queued to started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_instead: Option<Vec<Culprit>>,
    /// Of a time off CPU: all that is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off: Option<Box<OffRow>>,
    /// Of a socket: the connection; the same number at both ends, of this run only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conn: Option<u64>,
    /// Of a socket: it sent, else it received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<bool>,
    /// Of a socket: the process at the other end, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    /// Of a hop: its probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    /// Of a hop: value, pane or stream, sequence number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<u64>>,
}

/// Kind of an [`EventRow`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A read on a PTY.
    #[default]
    Read,
    /// A write on a PTY.
    Write,
    /// Flush work of a PTY.
    Flush,
    /// A USDT probe.
    Hop,
    /// A thread is back on a CPU: its time off it.
    Off,
    /// A send or a receive on a stream socket.
    Sock,
}

/// How a thread came to be runnable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WakeKind {
    /// It never slept: it lost its CPU.
    Preempted,
    /// A task woke it.
    Task,
    /// An interrupt did: no task caused it.
    Interrupt,
    /// It was forked.
    New,
    /// The kernel told no tracepoint of it.
    #[default]
    Unseen,
}

/// A thread's time off CPU: `blocked_ns`, then `wait_ns`, until the row's time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OffRow {
    /// Asleep; `None` where it was not seen to leave its CPU.
    pub blocked_ns: Option<u64>,
    /// Runnable, waiting for a CPU.
    pub wait_ns: u64,
    /// Of the wait: its cgroup had used up its quota.
    pub throttled_ns: u64,
    /// Of the time on CPU before: in interrupts, where the kernel tells.
    pub interrupt_ns: u64,
    /// How it came to be runnable.
    pub wake: WakeKind,
    /// Process of who woke it.
    pub waker_pid: Option<u32>,
    /// Thread of who woke it.
    pub waker_tid: Option<u32>,
    /// It was woken by flush work of the PTY with this number.
    pub woken_by_flush: Option<u32>,
    /// Number of the system call that it slept in.
    pub syscall: Option<i32>,
    /// It slept in an exception: a page fault, as a rule.
    pub fault: bool,
    /// Uninterruptibly: for a disk, as a rule.
    pub disk: bool,
    /// The kernel counts it as waiting for I/O.
    pub iowait: bool,
    /// Major page faults since the row before.
    pub major_faults: u32,
    /// Moves to another CPU while it waited.
    pub migrations: u32,
    /// Who had the CPU; sums to the wait.
    pub ran_instead: Vec<Culprit>,
}
