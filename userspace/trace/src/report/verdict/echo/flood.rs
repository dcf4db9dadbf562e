//! Floods: a pane that prints more than any person reads, and how it is read.

use crate::report::model::{Cause, PtyRow, Relation, Report, Rival};

/// Reads a second that make a flood. A fast typist's echoes are 15, a screen redrawn at 60 Hz is 60.
/// Over the whole window, so that one that lasts a tenth of it is seen.
const READS: u64 = 200;
/// Bytes a second that make one: an 80×24 screen in colour at 60 Hz is a quarter of it.
const BYTES: u64 = 1_000_000;
/// Fewer make one where the multiplexer is too slow for more: where reading what nobody typed keeps
/// it busy for one part in so many of the window…
const BUSY: u64 = 4;
/// …by so many reads a second at least: a clock in a pane, a progress bar, are less.
const SOME: u64 = 20;
/// Reads that an input leads to at most: its echo, and what the program says to it.
const ANSWERS: u64 = 4;
/// Mean read that is small, bytes. A flood through a full buffer is read 4,095 at a time, one that is
/// written by line or by character in some tens at most.
const SMALL: u64 = 256;

/// A PTY that floods.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flood<'a> {
    pub(super) pty: &'a PtyRow,
    pub(super) reads_per_s: u64,
    pub(super) bytes_per_s: u64,
    /// It is one for what it costs, not for its rate.
    costly: bool,
}

/// The one that costs most reads, if there is one.
pub(super) fn largest(report: &Report) -> Option<Flood<'_>> {
    let window = report.window.duration_ns.max(1);
    let per_s = |n: u64| {
        let n = u128::from(n) * 1_000_000_000 / u128::from(window);
        u64::try_from(n).unwrap_or(u64::MAX)
    };
    let all = report.ptys.iter().filter(|p| is_own(p, report));
    let all = all.fold(0u64, |s, p| s.saturating_add(p.master_reads.size.count));
    let busy = u128::from(on_cpu(report));
    report
        .ptys
        .iter()
        .map(|pty| {
            // Its part of the multiplexer's time, by its part of the reads.
            let unasked = unasked(pty, report);
            let costs = busy * u128::from(unasked) / u128::from(all.max(1));
            Flood {
                pty,
                reads_per_s: per_s(pty.master_reads.size.count),
                bytes_per_s: per_s(pty.master_reads.size.sum),
                costly: is_own(pty, report)
                    && per_s(unasked) >= SOME
                    && costs * u128::from(BUSY) >= u128::from(window),
            }
        })
        .filter(|f| f.reads_per_s >= READS || f.bytes_per_s >= BYTES || f.costly)
        .max_by_key(|f| (f.reads_per_s, f.bytes_per_s))
}

/// Whether it is the target that reads it.
fn is_own(pty: &PtyRow, report: &Report) -> bool {
    let targets = &report.target.processes;
    let target = |pid| {
        let mut all = targets.iter().filter(|p| p.relation == Relation::Target);
        all.any(|p| p.pid == pid)
    };
    pty.master.iter().any(|e| target(e.pid))
}

/// CPU time of the target, ns.
fn on_cpu(report: &Report) -> u64 {
    let own = report.threads.iter();
    let own = own.filter(|t| t.relation == Relation::Target);
    own.fold(0, |s, t| s.saturating_add(t.on_cpu_ns))
}

/// Reads of a PTY beyond those that answer what is typed at it.
fn unasked(pty: &PtyRow, report: &Report) -> u64 {
    let panes = report.echoes.iter().flat_map(|e| &e.panes);
    let typed = panes
        .filter(|p| p.index == Some(pty.index) && p.devpts == pty.devpts)
        .fold(0u64, |s, p| s.saturating_add(p.ends.all()));
    let reads = pty.master_reads.size.count;
    reads.saturating_sub(typed.saturating_mul(ANSWERS))
}

impl Flood<'_> {
    /// Many small reads, or much output.
    pub(super) fn cause(&self) -> Cause {
        if (self.reads_per_s >= READS || self.costly) && self.mean() <= SMALL {
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
