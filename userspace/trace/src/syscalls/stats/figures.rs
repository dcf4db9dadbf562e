//! What is summed up of a set of calls.

use phux_perf::Snapshot;

use crate::syscalls::Call;

/// Sums of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Durations, ns; with their count and sum.
    pub duration: Snapshot,
    /// Calls that failed.
    pub errors: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Of the time: waited for a CPU.
    pub wait_ns: u64,
    /// Of the time: slept.
    pub blocked_ns: u64,
}

impl Figures {
    /// One more call.
    pub fn add(&mut self, call: &Call) {
        self.duration.record(call.dur);
        self.errors += u64::from(call.errno() != 0);
        self.bytes = self.bytes.saturating_add(call.bytes);
        self.wait_ns = self.wait_ns.saturating_add(call.wait_ns);
        self.blocked_ns = self.blocked_ns.saturating_add(call.blocked_ns);
    }

    /// Those of other calls.
    pub fn merge(&mut self, other: &Figures) {
        self.duration.merge(&other.duration);
        self.errors += other.errors;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.wait_ns = self.wait_ns.saturating_add(other.wait_ns);
        self.blocked_ns = self.blocked_ns.saturating_add(other.blocked_ns);
    }

    /// Calls.
    pub fn count(&self) -> u64 {
        self.duration.count
    }

    /// Their time, ns.
    pub fn time_ns(&self) -> u64 {
        self.duration.sum
    }
}
