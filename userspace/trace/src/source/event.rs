//! What the kernel side tells one by one: the events that every analysis is made from, live or recorded.

use crate::stats::{PtyId, SchedClass, Side, ThreadStat};

/// Something that happened in a traced process.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A traced thread ended; its figures, whole.
    Exit {
        /// The thread.
        thread: Box<ThreadStat>,
        /// It was the last of its process; then the status is the process's, as wait(2) has it.
        last: bool,
    },
    /// A process became another program.
    Exec(Task),
    /// A traced process forked: the child.
    Fork(Task),
    /// A read or write on a traced PTY.
    Io(Io),
    /// Flush work of a traced PTY ended.
    Flush(Flush),
    /// A USDT probe fired.
    Hop(Hop),
    /// A traced thread is back on a CPU: its time off it.
    Off(Box<Off>),
    /// A send or a receive on a stream socket.
    Sock(Sock),
}

impl Event {
    /// When it happened, ns of CLOCK_MONOTONIC; of what has a duration, when it ended.
    pub fn ts(&self) -> u64 {
        match self {
            Event::Exit { thread, .. } => thread.ended_at,
            Event::Exec(t) | Event::Fork(t) => t.at.ts,
            Event::Io(io) => io.at.ts,
            Event::Flush(f) => f.at.ts,
            Event::Hop(h) => h.at.ts,
            Event::Off(o) => o.at.ts,
            Event::Sock(s) => s.at.ts,
        }
    }
}

/// When and where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct At {
    /// CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// Process; of a flush the kworker.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU.
    pub cpu: u32,
}

/// A process that was forked, or that called exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The process.
    pub at: At,
    /// Of a fork: the parent.
    pub parent: u32,
    /// `events::REL_*`.
    pub relation: u32,
    /// Its name.
    pub comm: String,
}

/// A read or write on a PTY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// Who, and when it ended.
    pub at: At,
    /// Which PTY.
    pub pty: PtyId,
    /// Which end.
    pub side: Side,
    /// A write, else a read.
    pub write: bool,
    /// Bytes, or a negative errno.
    pub result: i64,
    /// Blocking included.
    pub duration_ns: u64,
}

/// Flush work, done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flush {
    /// The kworker, and when it ended.
    pub at: At,
    /// Which PTY.
    pub pty: PtyId,
    /// The end that the bytes go to.
    pub towards: Side,
    /// Process that queued it.
    pub queued_by: u32,
    /// The thread of it that did.
    pub queued_by_tid: u32,
    /// When, ns; 0 when it was queued before tracing began.
    pub queued: u64,
    /// When a kworker began, ns.
    pub started: u64,
    /// The kworker's.
    pub place: Placement,
    /// Who had the kworker's CPU from queued to started; empty unless echoes are followed.
    pub blame: ShortBlame,
}

/// How a thread came to be runnable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wake {
    /// It never slept: it lost its CPU.
    Preempted,
    /// This task woke it.
    Task {
        /// Its process.
        pid: u32,
        /// It.
        tid: u32,
    },
    /// An interrupt did: no task caused it.
    Interrupt,
    /// It was forked.
    New,
    /// The kernel told no tracepoint of it.
    #[default]
    Unseen,
}

/// What a thread slept in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SleptIn {
    /// System call, by number of this architecture.
    pub syscall: Option<i32>,
    /// In an exception: a page fault, as a rule.
    pub fault: bool,
    /// Uninterruptibly: a disk, as a rule.
    pub disk: bool,
    /// The kernel counts it as waiting for I/O.
    pub iowait: bool,
}

/// Time off CPU: [`left`, `runnable`) asleep, [`runnable`, `at.ts`) waiting for a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Off {
    /// The thread, when it was on a CPU again, and which.
    pub at: At,
    /// When it had left its CPU, ns; 0: not seen.
    pub left: u64,
    /// When it was runnable again, ns; the same as `left` if it was preempted.
    pub runnable: u64,
    /// Of the wait: as long as its cgroup had used up its quota, ns.
    pub throttled_ns: u64,
    /// Of the slice before it left: hard and soft interrupts, ns, where the kernel tells.
    pub interrupt_ns: u64,
    /// How it came to be runnable.
    pub wake: Wake,
    /// The waker was doing flush work of this PTY, towards this side.
    pub woken_by_flush: Option<(PtyId, Side)>,
    /// What it slept in.
    pub slept_in: SleptIn,
    /// Major page faults since its record before this one.
    pub major_faults: u32,
    /// Moves to another CPU while it waited.
    pub migrations: u32,
    /// Its scheduling class and all that belongs to it.
    pub place: Placement,
    /// Who had the CPU that it waited for.
    pub blame: ShortBlame,
}

/// All that decides when a task gets a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Placement {
    /// Policy, nice, real-time priority.
    pub class: SchedClass,
    /// EEVDF slice, µs; 0: the kernel does not tell.
    pub slice_us: u32,
    /// Utilisation clamp as asked for, 0–1024: least and most.
    pub uclamp: (u16, u16),
    /// Nice of its autogroup, if it is in one.
    pub autogroup_nice: Option<i32>,
    /// Id of its cgroup (v2): the inode of its folder; 0: not known.
    pub cgroup: u64,
}

/// Who had the CPU during one wait: the parts sum to the wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShortBlame {
    /// By name, most time first; at most three.
    pub culprits: Vec<ShortCulprit>,
    /// The CPU was idle and on its way out of it.
    pub idle_ns: u64,
    /// Other names.
    pub other_ns: u64,
    /// Older than the record of slices.
    pub unknown_ns: u64,
}

/// One who had the CPU during one wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShortCulprit {
    /// Process name; of the victim's own process the thread's.
    pub name: String,
    /// Process; of the victim's own process the thread.
    pub pid: u32,
    /// Of the victim's own process.
    pub own: bool,
    /// How long, ns.
    pub ns: u64,
    /// Its class.
    pub class: SchedClass,
    /// Its cgroup.
    pub cgroup: u64,
}

/// A send or a receive on a stream socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sock {
    /// Who, and when it ended.
    pub at: At,
    /// The same number at both ends of a connection on this host.
    pub conn: u64,
    /// It sent, else it received.
    pub send: bool,
    /// Bytes, or a negative errno.
    pub result: i64,
    /// Blocking included.
    pub duration_ns: u64,
    /// The process at the other end, as far as known; 0.
    pub peer: u32,
}

/// A USDT probe that fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Who and when.
    pub at: At,
    /// The id that it was attached with.
    pub hop: u32,
    /// How many of `args` the probe has.
    pub nargs: u32,
    /// Value, pane or stream, sequence number.
    pub args: [u64; 3],
}
