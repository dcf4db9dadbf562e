//! What a chain is: one input, the links that it passed, and how it ended.
//!
//! Times are ns of CLOCK_MONOTONIC. The links of a chain follow each other without a gap, so that
//! their lengths sum to its length; the parts of a link sum to the link.

use crate::source::event::{Placement, ShortCulprit};
use crate::stats::PtyId;

/// One input on a PTY, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Counts up from 1 within a run.
    pub id: u64,
    /// The PTY of the program that the input was for.
    pub pty: PtyId,
    /// Bytes of input.
    pub bytes: u64,
    /// When the first link begins.
    pub begin: u64,
    /// How it ended.
    pub end: End,
    /// In order; each begins where the one before ends.
    pub links: Vec<Link>,
    /// Whether a phux's hops and their sequence numbers tell the same; `None` where there are none.
    pub confirmed: Option<bool>,
    /// Of something between (a flood in the same pane, a record that was lost) it had to be
    /// concluded by time alone which one belongs to this input.
    pub inexact: bool,
}

impl Chain {
    /// From the first link's begin to the last one's end, ns.
    pub fn length_ns(&self) -> u64 {
        self.links
            .last()
            .map_or(0, |l| l.until.saturating_sub(self.begin))
    }

    /// Whether the answer arrived.
    pub fn echoed(&self) -> bool {
        matches!(self.end, End::Echoed { .. })
    }
}

/// How a chain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// The answer was written to every client's terminal, or read from the PTY's master where there is no client.
    Echoed {
        /// Bytes of the answer's first write.
        bytes: u64,
    },
    /// The program took the input, slept and came back for more without having printed anything: a password prompt.
    Silent,
    /// Nobody had read the input within the limit: a busy program.
    Unread,
    /// It was read, and nothing had come within the limit.
    Late,
    /// The answer came as far as the server, and no client had taken it within the limit: a client that does not read.
    Undelivered,
    /// A record that it needs was lost.
    Lost,
    /// The run ended first.
    Open,
}

/// Which step of the way. In the order in which an input passes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkKind {
    /// Flush work towards the client's terminal: queued → kworker starts → client woken.
    TerminalInputFlush,
    /// The client, woken → on CPU → has read its terminal.
    ClientRead,
    /// The client, has read → has sent to the server.
    ClientSend,
    /// The server, woken by the client → on CPU → has received.
    ServerReceive,
    /// Threads of the server (or of the one process that is both) → has begun to write to the PTY's master.
    ServerInput,
    /// The write to the master itself, until the flush work is queued.
    MasterWrite,
    /// Flush work towards the program: queued → kworker on CPU → program woken.
    InputFlush,
    /// The program: woken → on CPU → has read.
    ChildRead,
    /// The program's own time: has read → begins to write.
    Child,
    /// The write to the slave, until the flush work is queued. With the kernel's own echo the kworker does it.
    ChildWrite,
    /// Flush work towards the server: queued → kworker on CPU → reader woken.
    OutputFlush,
    /// The reader: woken → on CPU → has read.
    MasterRead,
    /// Threads of the server: has read → sends to the client, or writes to its terminal.
    ServerOutput,
    /// The client: woken → on CPU → has received.
    ClientReceive,
    /// The client: has received → has written to its terminal.
    ClientWrite,
}

impl LinkKind {
    /// All, in order.
    pub const ALL: [LinkKind; 15] = [
        LinkKind::TerminalInputFlush,
        LinkKind::ClientRead,
        LinkKind::ClientSend,
        LinkKind::ServerReceive,
        LinkKind::ServerInput,
        LinkKind::MasterWrite,
        LinkKind::InputFlush,
        LinkKind::ChildRead,
        LinkKind::Child,
        LinkKind::ChildWrite,
        LinkKind::OutputFlush,
        LinkKind::MasterRead,
        LinkKind::ServerOutput,
        LinkKind::ClientReceive,
        LinkKind::ClientWrite,
    ];
}

/// One step of the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Which.
    pub kind: LinkKind,
    /// Who had it; one kind can stand several times in a row when several threads had it in turn.
    pub actor: Actor,
    /// Begin, ns.
    pub from: u64,
    /// End, ns.
    pub until: u64,
    /// Where the time went.
    pub parts: Parts,
    /// Who had the CPU during the run-queue waits, most time first. Sums to at most the wait.
    pub ran_instead: Vec<ShortCulprit>,
    /// What it slept in, longest first. Sums to `parts.blocked_ns`.
    pub blocked_on: Vec<(BlockedOn, u64)>,
    /// Major page faults of the actor meanwhile.
    pub major_faults: u32,
}

impl Link {
    /// Its length, ns.
    pub fn length_ns(&self) -> u64 {
        self.until.saturating_sub(self.from)
    }
}

/// Who had a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actor {
    /// Process; 0 where it is not known.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// A kworker, else a thread of a process.
    pub kworker: bool,
    /// Its scheduling class and all that belongs to it, at that time.
    pub place: Placement,
}

/// Where the time of a link went; the parts sum to its length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// On a CPU, interrupts aside.
    pub on_cpu_ns: u64,
    /// Runnable, waiting for a CPU, throttling aside.
    pub run_queue_ns: u64,
    /// Runnable, its cgroup's quota used up.
    pub throttled_ns: u64,
    /// Asleep.
    pub blocked_ns: u64,
    /// On its CPU, but interrupts had it.
    pub interrupt_ns: u64,
    /// Not known: records are missing.
    pub unknown_ns: u64,
}

impl Parts {
    /// Their sum, ns.
    pub fn total_ns(&self) -> u64 {
        [
            self.on_cpu_ns,
            self.run_queue_ns,
            self.throttled_ns,
            self.blocked_ns,
            self.interrupt_ns,
            self.unknown_ns,
        ]
        .iter()
        .sum()
    }
}

/// What a thread slept on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockedOn {
    /// A system call, by number of this architecture.
    Syscall(i32),
    /// The same, uninterruptibly: a disk, as a rule.
    Disk(i32),
    /// A page fault that had to read: swapped out, or a file's page.
    PageFault,
    /// Not known.
    Unknown,
}
