//! What decides when a thread gets a CPU, in full.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SchedClass;

/// All that decides when a thread gets a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementInfo {
    /// Policy, nice, real-time priority.
    pub sched: SchedClass,
    /// How long it may run before others have their turn (EEVDF's slice), µs; `None` where the kernel does not tell.
    pub slice_us: Option<u32>,
    /// Utilisation clamp as asked for: at least, 0–1024.
    pub uclamp_min: u16,
    /// At most, 0–1024; 1024: no clamp.
    pub uclamp_max: u16,
    /// Nice of its autogroup, if it is in one: then its own nice counts only within that.
    pub autogroup_nice: Option<i32>,
    /// Id of its cgroup: the inode of its folder.
    pub cgroup_id: u64,
    /// Path of its cgroup; `None` where that is gone or not to be seen.
    pub cgroup: Option<String>,
    /// Its cgroup and those above it, as far as the cpu controller is on for them, the root left out.
    pub levels: Vec<CgroupLevel>,
    /// CPUs of its cpuset (version 2).
    pub cpuset: Option<String>,
    /// CPUs that it may run on in the end; `None` where it has ended.
    pub cpus_allowed: Option<String>,
}

/// One cgroup that a thread is in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupLevel {
    /// Its path.
    pub path: String,
    /// Of version 1: then its files have other names.
    #[serde(default)]
    pub version_1: bool,
    /// `cpu.weight`, 100 if nobody has changed it; of version 1 its shares on the same scale.
    pub weight: Option<u64>,
    /// `cpu.idle`: its tasks run only when nobody else wants to.
    pub idle: bool,
    /// Quota, µs of CPU time a period; `None`: none.
    pub quota_us: Option<u64>,
    /// The period, µs.
    pub period_us: Option<u64>,
    /// In how many periods it was throttled in the window.
    pub nr_throttled: Option<u64>,
    /// For how long, all CPUs together.
    pub throttled_ns: Option<u64>,
}
