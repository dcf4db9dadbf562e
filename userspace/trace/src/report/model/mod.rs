//! What a run says, as data: every view (text, JSON) is rendered from a [`Report`] and from nothing else.
//!
//! All times are nanoseconds, all sizes bytes. A figure that a backend could not
//! give is `None`, never zero; why it is missing stands in [`Report::backends`].

mod chain;
mod echo;
mod event;
mod hop;
mod placement;
mod pty;
mod thread;
mod verdict;

use phux_perf::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use chain::{ActorRow, Cgroup, ChainRow, EndKind, LinkRow, PlaceRow, Rival, Sleep, SleepKind};
pub use echo::{ClassRow, Echoes, Ends, Group, LinkDist, PaneRow, Unanswered};
pub use event::{EventKind, EventRow, OffRow, WakeKind};
pub use hop::{HopRow, InProcess, InProcessRow};
pub use placement::{CgroupLevel, PlacementInfo};
pub use pty::{End, Flush, Io, PtyRow};
pub use thread::{Culprit, CulpritKind, SchedClass, ThreadRow, WaitAccount, Waker};
pub use verdict::{Advice, Cause, Verdict};

/// Version of the JSON shape. Raised when a field changes its meaning or vanishes; new fields do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that one run of `attach` found out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `true` for the last report of a run; interval reports carry what came since the one before.
    pub last: bool,
    /// Why this is less than a report can be, if it was made without the privileges to trace; said first.
    pub limited: Option<String>,
    /// When, where and for how long.
    pub window: Window,
    /// The sentence that a person reads first, with its evidence.
    pub verdict: Verdict,
    /// Who was traced.
    pub target: Target,
    /// How each thing was measured, and what could not be.
    pub backends: Vec<Backend>,
    /// What was lost, by class; a class that lost nothing is left out.
    pub losses: Vec<Loss>,
    /// What the looking itself cost.
    pub cost: Cost,
    /// One row per traced thread that ran or waited.
    pub threads: Vec<ThreadRow>,
    /// One row per PTY of the target.
    pub ptys: Vec<PtyRow>,
    /// One row per USDT probe of provider `phux` and process.
    pub hops: Vec<HopRow>,
    /// One entry per process of the target that keeps histograms of its own.
    pub in_process: Vec<InProcess>,
    /// What became of each input; `None` where echoes were not followed.
    pub echoes: Option<Echoes>,
    /// The slow ones one by one, in order of time; empty unless asked for.
    pub slow_echoes: Vec<ChainRow>,
    /// What a reader must know besides: a target that died, a hostile binary, a namespace.
    pub notes: Vec<String>,
}

/// When, where and for how long was measured.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Start, milliseconds since the Unix epoch.
    pub start_unix_ms: u64,
    /// Length, ns of CLOCK_MONOTONIC.
    pub duration_ns: u64,
    /// Host name.
    pub host: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// CPUs online.
    pub cpus: u32,
}

/// Who was traced.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// What the user typed, or how the target was found.
    pub asked: String,
    /// The traced processes, the named ones first.
    pub processes: Vec<Process>,
}

/// One traced process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Process id, in the pid namespace of phux-trace.
    pub pid: u32,
    /// `comm` of its leader.
    pub name: String,
    /// User name, or the number where it has none.
    pub user: String,
    /// Why it is traced.
    pub relation: Relation,
    /// How it ended while traced, if it did (`exited 0`, `killed by signal 9`, `exec'd vim`).
    pub ended: Option<String>,
}

/// Why a process is traced.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Named by the user, or forked from it without an exec.
    Target,
    /// Sits at the other end of one of the target's PTYs, or was started by the target.
    Peer,
}

/// How one capability was had, or that it was not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Backend {
    /// What it is for: `sched`, `tty`, `flush`, `sock`, `interrupt`, `hop`, `in_process`, `ends`.
    pub capability: String,
    /// The hooks in use (`tp_btf sched_switch …`, `sys_exit + fd walk`), `None` where nothing worked.
    pub used: Option<String>,
    /// What is missing or second best, with what is lost by it and what would bring it.
    pub missing: Option<String>,
}

/// Losses of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Class, as named in `events.h`.
    pub class: String,
    /// How many.
    pub count: u64,
    /// What the loss means for the figures.
    pub meaning: String,
}

/// What the looking cost.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// CPU time of phux-trace itself (user + system) in the window.
    pub daemon_cpu_ns: u64,
    /// Its resident memory at the end.
    pub daemon_rss_bytes: u64,
    /// What the kernel accounts to its BPF maps and programs; `None` where there are none, or it cannot be read.
    pub kernel_bytes: Option<u64>,
    /// Time spent in its BPF programs, estimated from the kernel's run-time statistics, which are on for a
    /// tenth of the time: they cost as much as a small program. `None` where they cannot be switched on.
    pub bpf_ns: Option<u64>,
    /// The same by program.
    pub programs: Vec<ProgramCost>,
}

/// A step by which a run made itself cheaper, because it cost more than it may.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Thinned {
    /// When, ns since the Unix epoch.
    pub unix_ns: u64,
    /// What it does from then on.
    pub level: ThinLevel,
    /// What it had cost in the seconds before: its BPF programs and phux-trace itself, in percent of the machine's CPU time.
    pub cost_percent: f64,
    /// What it may cost, in the same percent.
    pub budget_percent: f64,
    /// Of the time from then on, so much is measured; 1: all of it.
    pub measured_share: f64,
}

/// What a run does to be cheap.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ThinLevel {
    /// Sums only: no echoes, no single events.
    Aggregates,
    /// Sums, and those of a share of the time only.
    Sampled,
}

/// Run-time statistics of one BPF program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramCost {
    /// Program name.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// For how long.
    pub ns: u64,
}

/// A distribution: exact count, sum, min and max; percentiles never low and at most 12.5 % high.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dist {
    /// Samples.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Smallest (0 when empty).
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The non-empty ones of the 504 buckets, ascending.
    pub buckets: Vec<Bucket>,
}

/// One non-empty bucket of a [`Dist`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// 0–503.
    pub idx: u16,
    /// Samples in it.
    pub count: u64,
}

impl From<&Snapshot> for Dist {
    fn from(s: &Snapshot) -> Self {
        Dist {
            count: s.count,
            sum: s.sum,
            min: s.min,
            max: s.max,
            p50: s.percentile(50.0),
            p90: s.percentile(90.0),
            p99: s.percentile(99.0),
            buckets: s
                .nonempty()
                .map(|(idx, count)| Bucket {
                    idx: idx as u16,
                    count,
                })
                .collect(),
        }
    }
}
