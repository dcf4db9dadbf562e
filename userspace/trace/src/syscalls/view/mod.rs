//! What of the figures of calls somebody looks at: asked for by a [`Look`], narrowed by [`Filter`]s,
//! answered by a [`Seen`], which is a copy and goes to another thread.
//!
//! Only what is looked at is made: a page of the largest files costs their sorting, and nobody pays
//! for the pages that are not open.

mod filter;
mod rows;
mod watch;

pub use filter::Filter;
pub(crate) use filter::{errno_name, holds};
pub use rows::{Key, Kind, Measure, Row};
pub use watch::Watch;

use phux_perf::Snapshot;

use super::Call;
use super::stats::{Level, Metric, Node};

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// The largest of a kind.
    pub rows: Option<(Kind, Measure)>,
    /// The tree, with these levels from its root.
    pub tree: Option<(Metric, [Level; 3])>,
    /// Histograms, by call.
    pub series: bool,
    /// The last calls.
    pub recent: bool,
    /// Nothing, until it is not held any more.
    pub held: bool,
}

/// Sums of all calls that pass the filters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Calls.
    pub count: u64,
    /// Those that failed.
    pub errors: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Their time, ns.
    pub time_ns: u64,
    /// Of that: waited for a CPU.
    pub wait_ns: u64,
    /// Of that: slept.
    pub blocked_ns: u64,
    /// Calls that ended in the last whole second.
    pub per_second: u64,
}

/// Between the calls of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// How long, ns.
    pub length: Snapshot,
    /// Of their sum: waited for a CPU or slept, so that it is no work of the program's own.
    pub off_cpu_ns: u64,
}

/// The answer: figures of one moment.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Of all.
    pub sums: Sums,
    /// The largest, as asked for; the rest is one row of its own.
    pub rows: Option<(Kind, Vec<Row>)>,
    /// The tree, as asked for.
    pub tree: Option<Node>,
    /// Durations by call, and the gaps.
    pub series: Option<(Vec<(&'static str, Snapshot)>, Gaps)>,
    /// Calls that are new since the last answer, at most [`super::stats::RECENT`].
    pub recent: Vec<Call>,
    /// Forget those before: the filters are others.
    pub anew: bool,
    /// What to add to CLOCK_MONOTONIC for the time since the Unix epoch, ns.
    pub unix_offset_ns: i128,
}
