//! Floods: a pane that prints more than any person reads, and how it is read.

use crate::report::model::{Cause, PtyRow, Relation, Report, Rival};

/// Reads a second that make a flood. A fast typist's echoes are 15, a screen redrawn at 60 Hz is 60.
/// Over the whole window, so that one that lasts a tenth of it is seen.
const READS: u64 = 200;
/// Bytes a second that make one: an 80×24 screen in colour at 60 Hz is a quarter of it.
const BYTES: u64 = 1_000_000;
/// Mean read that is small, bytes. A flood through a full buffer is read 4,095 at a time, one that is
/// written by line or by character in some tens at most.
const SMALL: u64 = 256;

/// A PTY that floods.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flood<'a> {
    pub(super) pty: &'a PtyRow,
    pub(super) reads_per_s: u64,
    pub(super) bytes_per_s: u64,
}

/// The one that costs most reads, if there is one.
pub(super) fn largest(report: &Report) -> Option<Flood<'_>> {
    let window = report.window.duration_ns.max(1);
    let per_s = |n: u64| {
        let n = u128::from(n) * 1_000_000_000 / u128::from(window);
        u64::try_from(n).unwrap_or(u64::MAX)
    };
    report
        .ptys
        .iter()
        .map(|pty| Flood {
            pty,
            reads_per_s: per_s(pty.master_reads.size.count),
            bytes_per_s: per_s(pty.master_reads.size.sum),
        })
        .filter(|f| f.reads_per_s >= READS || f.bytes_per_s >= BYTES)
        .max_by_key(|f| (f.reads_per_s, f.bytes_per_s))
}

impl Flood<'_> {
    /// Many small reads, or much output.
    pub(super) fn cause(&self) -> Cause {
        if self.reads_per_s >= READS && self.mean() <= SMALL {
            Cause::SmallReads
        } else {
            Cause::ServerBusy
        }
    }

    /// Mean read, bytes.
    pub(super) fn mean(&self) -> u64 {
        let size = &self.pty.master_reads.size;
        size.sum.checked_div(size.count).unwrap_or(0)
    }

    /// Whether who had the CPU makes the flood, carries it, or shows it.
    pub(super) fn has_part(&self, rival: &Rival, report: &Report) -> bool {
        let target = |pid: &u32| {
            let mut all = report.target.processes.iter();
            all.any(|p| p.pid == *pid && p.relation == Relation::Target)
        };
        let makes = |pid: &u32| self.pty.slave.iter().any(|e| e.pid == *pid);
        rival.name.starts_with("kworker/")
            || !rival.own && rival.pids.iter().any(|pid| makes(pid) || target(pid))
    }
}
