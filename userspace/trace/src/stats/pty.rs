//! One PTY.

use phux_perf::Snapshot;
use probe_ebpf::events;

use super::{Blame, Wakers, hist};

/// Which PTY: two devpts instances can both have an index 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtyId {
    /// Device of the devpts instance, in the kernel's own encoding (for the anonymous
    /// devices that devpts has: the minor number).
    pub devpts: u32,
    /// The number in `/dev/pts/N`.
    pub index: u32,
}

impl From<events::pty_id> for PtyId {
    fn from(id: events::pty_id) -> Self {
        PtyId {
            devpts: id.devpts,
            index: id.index,
        }
    }
}

/// An end of a PTY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The multiplexer's, or the terminal's.
    Master,
    /// That of the program inside.
    Slave,
}

impl Side {
    /// From `enum pty_side`; `None` for anything else.
    pub fn from_raw(side: u32) -> Option<Side> {
        match side {
            events::SIDE_MASTER => Some(Side::Master),
            events::SIDE_SLAVE => Some(Side::Slave),
            _ => None,
        }
    }
}

/// Reads, or writes, at one end of one PTY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoKey {
    /// Which PTY.
    pub pty: PtyId,
    /// Which end.
    pub side: Side,
    /// Writes, else reads.
    pub write: bool,
}

/// Their figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IoStat {
    /// Bytes, of calls that moved any.
    pub size: Snapshot,
    /// ns, of the same calls.
    pub duration: Snapshot,
    /// Calls that moved none.
    pub empty: u64,
    /// Process that called last; 0: none, or none that has a pid here.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

impl From<&events::io_stats> for IoStat {
    fn from(s: &events::io_stats) -> Self {
        IoStat {
            size: hist(&s.size),
            duration: hist(&s.duration),
            empty: s.empty,
            pid: s.by,
            name: super::comm(&s.comm),
        }
    }
}

impl IoStat {
    /// What came since.
    pub fn since(&self, earlier: &IoStat) -> IoStat {
        IoStat {
            size: self.size.delta(&earlier.size),
            duration: self.duration.delta(&earlier.duration),
            empty: self.empty.saturating_sub(earlier.empty),
            pid: self.pid,
            name: self.name.clone(),
        }
    }
}

/// Flush work towards one end. Times in ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlushStat {
    /// Queued until started.
    pub wait: Snapshot,
    /// Started until ended.
    pub run: Snapshot,
    /// Reader woken by it until on a CPU.
    pub reader_wait: Snapshot,
    /// Who queued it.
    pub queued_by: Wakers,
    /// Who had the kworker's CPU meanwhile.
    pub blame: Blame,
}

impl From<&events::flush_stats> for FlushStat {
    fn from(s: &events::flush_stats) -> Self {
        FlushStat {
            wait: hist(&s.wait),
            run: hist(&s.run),
            reader_wait: hist(&s.reader_wait),
            queued_by: Wakers::from(&s.queued_by),
            blame: Blame::from(&s.blame),
        }
    }
}

impl FlushStat {
    /// What came since.
    pub fn since(&self, earlier: &FlushStat) -> FlushStat {
        FlushStat {
            wait: self.wait.delta(&earlier.wait),
            run: self.run.delta(&earlier.run),
            reader_wait: self.reader_wait.delta(&earlier.reader_wait),
            queued_by: self.queued_by.since(&earlier.queued_by),
            blame: self.blame.since(&earlier.blame),
        }
    }
}

/// A process that holds one end of a traced PTY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Which PTY.
    pub pty: PtyId,
    /// Which end.
    pub side: Side,
    /// The process.
    pub pid: u32,
    /// `events::REL_*`.
    pub relation: u32,
    /// Its name.
    pub name: String,
}
