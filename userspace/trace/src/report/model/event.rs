//! What `--events` tells one by one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line of `--events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    /// When it ended, ns since the Unix epoch.
    pub unix_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// Process; of a flush the kworker.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU.
    pub cpu: u32,
    /// Device number of the PTY's devpts instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devpts: Option<u64>,
    /// The PTY's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// At the master (of a flush: towards it), else at the slave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<bool>,
    /// Bytes read or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i64>,
    /// Of a read or write, blocking included; of a flush, from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// Of a flush: from queued to started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ns: Option<u64>,
    /// Of a flush: the process that queued it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_by: Option<u32>,
    /// Of a hop: its probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    /// Of a hop: value, pane or stream, sequence number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<u64>>,
}

/// Kind of an [`EventRow`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A read on a PTY.
    #[default]
    Read,
    /// A write on a PTY.
    Write,
    /// Flush work of a PTY.
    Flush,
    /// A USDT probe.
    Hop,
}
