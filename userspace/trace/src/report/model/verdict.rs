//! The sentence that a person reads first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The largest cause of delay, or that there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Machine-readable cause.
    pub cause: Cause,
    /// One sentence with its figures.
    pub sentence: String,
    /// The figures that led to it, one line each, strongest first.
    pub evidence: Vec<String>,
    /// What would help, most first; only what the figures support, so it can be empty.
    pub advice: Vec<Advice>,
}

/// Something that would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// What to do, and why.
    pub text: String,
    /// The command that does it, where one does.
    pub command: Option<String>,
    /// What it can take off a slow echo at most, ns.
    pub saves_ns: u64,
}

/// What kind of delay is the largest. New kinds do not raise the schema's version.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No wait that a person could feel.
    NothingWrong,
    /// Threads wait for a CPU. Of echoes: and who had it is not known.
    RunQueue,
    /// The kernel's flush worker of a PTY (kworker) waits for a CPU.
    FlushWorker,
    /// The reader of a PTY, once woken, waits for a CPU.
    ReaderWait,
    /// Others have the CPU that a thread of the multiplexer waits for.
    HogOnServer,
    /// Others have the CPU that the program inside waits for.
    HogOnChild,
    /// Others have the CPU that the client waits for.
    HogOnClient,
    /// It waits because of its own class: SCHED_IDLE, SCHED_BATCH, a positive nice, a light cgroup.
    LowPriority,
    /// Its cgroup's quota was used up.
    QuotaThrottling,
    /// The multiplexer has other work: a flood of output in some pane.
    ServerBusy,
    /// The same, and the flood comes in many small reads.
    SmallReads,
    /// The multiplexer sleeps in a system call: a slow disk, a lock.
    ServerBlocked,
    /// The program inside takes its time.
    SlowChild,
    /// A client, or its terminal, does not take what is sent to it.
    ClientNotReading,
    /// The client takes its time.
    SlowClient,
    /// Pages had to be read from a disk: swapped out, or a file's.
    MajorFaults,
    /// Interrupts had the CPU.
    Interrupts,
    /// Echoes are slow, and no single cause stands out.
    SlowEcho,
    /// The target never ran, or nothing was measured.
    NoData,
}
