//! PTYs: both ends, what went through, and how long it waited.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Culprit, Dist, Waker};

/// A PTY: both ends, what went through it, and how long it waited.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PtyRow {
    /// The number in `/dev/pts/N`.
    pub index: u32,
    /// Device number of the devpts instance: two containers can both have a `/dev/pts/3`.
    pub devpts: u64,
    /// Processes that hold the master, as `name(pid)` data.
    pub master: Vec<End>,
    /// Processes that hold the slave.
    pub slave: Vec<End>,
    /// Reads on the master: output of the program inside.
    pub master_reads: Io,
    /// Writes on the master: keystrokes.
    pub master_writes: Io,
    /// Reads on the slave: the program inside takes its input.
    pub slave_reads: Io,
    /// Writes on the slave: the program inside prints.
    pub slave_writes: Io,
    /// Flush work towards the master (output).
    pub flush_output: Flush,
    /// Flush work towards the slave (input).
    pub flush_input: Flush,
}

/// A process at one end of a PTY.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// Process.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// Reads or writes at one end of a PTY.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Io {
    /// Sizes, bytes, of the calls that moved any.
    pub size: Dist,
    /// Duration of those calls, blocking included.
    pub duration: Dist,
    /// Calls that moved nothing: end of file, EAGAIN, EINTR, EIO.
    pub empty: u64,
}

/// `flush_to_ldisc` work in one direction, and the wake that follows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Flush {
    /// Queued until a kworker started it.
    pub wait: Dist,
    /// Started until ended.
    pub run: Dist,
    /// The reader's wait: woken by this work until on a CPU.
    pub reader_wait: Dist,
    /// Who queued it, most often first.
    pub queued_by: Vec<Waker>,
    /// Who had the kworker's CPU while the work waited.
    pub ran_instead: Vec<Culprit>,
}
