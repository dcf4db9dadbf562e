//! Hops: a target's own probe points, and its own histograms beside them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Dist;

/// One hop: a USDT probe of provider `phux` in one process.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HopRow {
    /// Process.
    pub pid: u32,
    /// Probe name (`pty__read__size`).
    pub probe: String,
    /// Metric name (`pty.read.size`).
    pub metric: String,
    /// Unit of the values, where known: `micros`, `bytes`, `count`.
    pub unit: Option<String>,
    /// Probe sites attached.
    pub sites: u32,
    /// Values (arg0).
    pub value: Dist,
}

/// A process's own histograms over the window (GET_PERF), beside those that its probes filled in the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InProcess {
    /// Process.
    pub pid: u32,
    /// What it calls itself (`server`).
    pub role: String,
    /// Its histograms, in its own order.
    pub rows: Vec<InProcessRow>,
    /// Why there are none.
    pub missing: Option<String>,
}

/// One metric, seen from both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InProcessRow {
    /// Metric name.
    pub metric: String,
    /// `micros`, `bytes`, `count`, or what the process calls it.
    pub unit: String,
    /// As the process has it.
    pub inside: Dist,
    /// As the kernel has it, from the probe of that name; `None` where there is no such probe.
    pub outside: Option<Dist>,
    /// Samples, over all buckets, that only one of the two has.
    pub differing: Option<u64>,
}
