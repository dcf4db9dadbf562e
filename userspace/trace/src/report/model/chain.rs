//! One input and what became of it, link by link: as `echo --json` and `--slow` tell it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SchedClass;
use crate::echo::{End, LinkKind, Parts};

/// One input on a PTY, and the way that it took. The lengths of its links sum to its length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChainRow {
    /// Counts up from 1 within a run.
    pub id: u64,
    /// When it began, ns since the Unix epoch.
    pub unix_ns: u64,
    /// Device number of the PTY's devpts instance.
    pub devpts: u64,
    /// The PTY's number.
    pub index: u32,
    /// Bytes of input.
    pub bytes: u64,
    /// From the first link's begin to the last one's end, ns.
    pub length_ns: u64,
    /// How it ended.
    pub end: EndKind,
    /// Bytes of the answer's first write, if one came.
    pub echo_bytes: Option<u64>,
    /// Whether a phux's own hops and their sequence numbers tell the same; `None` where there are none.
    pub confirmed: Option<bool>,
    /// Which answer belongs to it was concluded by time alone.
    pub inexact: bool,
    /// In order; each begins where the one before ends.
    pub links: Vec<LinkRow>,
}

/// How an input ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// The answer was written to every client's terminal, or read by who has no client.
    Echoed,
    /// The program took it, printed nothing and came back for more: a password prompt.
    Silent,
    /// Nobody had read it within the limit.
    Unread,
    /// It was read, and nothing had come within the limit.
    Late,
    /// The answer came as far as the server, and no client had taken it within the limit.
    Undelivered,
    /// A record that it needs was lost.
    Lost,
    /// The run ended first.
    Open,
}

impl EndKind {
    /// All.
    pub const ALL: [EndKind; 7] = [
        EndKind::Echoed,
        EndKind::Silent,
        EndKind::Unread,
        EndKind::Late,
        EndKind::Undelivered,
        EndKind::Lost,
        EndKind::Open,
    ];
}

impl From<End> for EndKind {
    fn from(end: End) -> Self {
        match end {
            End::Echoed { .. } => EndKind::Echoed,
            End::Silent => EndKind::Silent,
            End::Unread => EndKind::Unread,
            End::Late => EndKind::Late,
            End::Undelivered => EndKind::Undelivered,
            End::Lost => EndKind::Lost,
            End::Open => EndKind::Open,
        }
    }
}

/// One step of the way: of one input, or the mean of many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkRow {
    /// Which.
    pub link: LinkKind,
    /// Who had it; of many inputs who had it longest.
    pub actor: ActorRow,
    /// Where it begins, ns from the input's begin.
    pub from_ns: u64,
    /// Its length, ns.
    pub length_ns: u64,
    /// Where the time went; sums to the length.
    pub parts: Parts,
    /// Who had the CPU during the waits for it, most time first; the rest is not told by name.
    pub ran_instead: Vec<Rival>,
    /// What it slept in, longest first.
    pub blocked_on: Vec<Sleep>,
    /// Major page faults of the actor meanwhile; of many inputs the sum over those that were kept.
    pub major_faults: u64,
}

/// Who had a link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActorRow {
    /// Process; 0 where it is not known.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// A kernel worker.
    pub kworker: bool,
    /// How it is scheduled.
    pub place: PlaceRow,
}

/// All that decides when a task gets a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceRow {
    /// Policy, nice, real-time priority.
    pub sched: SchedClass,
    /// EEVDF slice, µs; `None` where the kernel does not tell.
    pub slice_us: Option<u32>,
    /// Utilisation clamp, least, 0–1024.
    pub uclamp_min: u16,
    /// Utilisation clamp, most, 0–1024.
    pub uclamp_max: u16,
    /// Nice of its autogroup, if it is in one: then its own nice counts within its session only.
    pub autogroup_nice: Option<i32>,
    /// Its cgroup; `None` where it is not known.
    pub cgroup: Option<Cgroup>,
}

/// A cgroup (v2), and what its cpu controller is set to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cgroup {
    /// The inode of its folder.
    pub id: u64,
    /// Path from the root of the hierarchy, beginning with `/`; empty where it is not known.
    pub path: String,
    /// Of version 1: then its files have other names (`cpu.shares`, `cpu.cfs_quota_us`).
    #[serde(default)]
    pub version_1: bool,
    /// `cpu.weight`, of version 1 its shares on the same scale; `None` where the controller is not on.
    pub weight: Option<u32>,
    /// `cpu.weight` of each cgroup on the path, the one below the root first, as far as the controller is on.
    pub weights: Vec<u32>,
    /// `cpu.max`: so much of each period, µs; `None` where there is no limit, in it and above it.
    pub quota_us: Option<u64>,
    /// `cpu.max`: the period, µs.
    pub period_us: Option<u64>,
    /// Path of the cgroup that has that limit: it, or one above it.
    pub quota_path: Option<String>,
    /// `cpuset.cpus.effective`; `None` where the controller is not on.
    pub cpus: Option<String>,
}

/// Who had the CPU that somebody waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rival {
    /// Process name; of the waiting one's own process the thread's name.
    pub name: String,
    /// Some of its pids (at most 4); of the waiting one's own process tids.
    pub pids: Vec<u32>,
    /// There were more than are listed.
    pub more_pids: bool,
    /// Another thread of the process that waited.
    pub own: bool,
    /// For how long, ns.
    pub ns: u64,
    /// Its class.
    pub sched: SchedClass,
    /// Its cgroup; `None` where it is not known.
    pub cgroup: Option<Cgroup>,
}

/// What a thread slept in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sleep {
    /// Which kind of sleep.
    pub what: SleepKind,
    /// The system call's name, or its number where it is not a known one.
    pub syscall: Option<String>,
    /// For how long, ns.
    pub ns: u64,
}

/// Which kind of sleep.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SleepKind {
    /// In a system call.
    Syscall,
    /// In a system call, uninterruptibly: a disk, as a rule.
    Disk,
    /// In a page fault that had to read.
    PageFault,
    /// Not known.
    Unknown,
}
