//! Between the live analysis and a recording: `record -o DIR` and what reads such a directory.
//!
//! [`events`] turns events into rows and back; [`sink`] writes what a run sees, [`replay`] reads it. Both
//! give it to the same [`analysis`], so that a recording is judged as the run was, and [`report`] tells it.
//! [`calls`] and [`chains`] are the rows of system calls and echoes, [`sums`] those of threads, PTYs, hops and
//! the target's own metrics, [`details`] what no table has; [`trigger`] the conditions of `--on`.

pub mod analysis;
pub mod calls;
pub mod chains;
pub mod details;
pub mod events;
pub mod replay;
pub mod report;
pub mod sink;
pub mod sums;
pub mod trigger;

use anyhow::{Context, Result};
use phux_recording::{Record, Run};

use crate::attach::window::{Start, window};
use crate::report::model::Backend;

/// Takes rows of any table.
pub trait Put {
    /// Takes one.
    fn put<T: Record>(&mut self, row: T);
}

/// The row that says what a recording is one of, as it begins.
///
/// # Errors
/// The backends are no JSON, for no reason known.
pub(crate) fn describe(
    start: Start,
    asked: &str,
    options: &serde_json::Value,
    backends: &[Backend],
) -> Result<Run> {
    let host = window(start.unix_ns, 0);
    Ok(Run {
        hostname: host.host.as_str().into(),
        kernel: host.kernel.as_str().into(),
        version: env!("CARGO_PKG_VERSION").into(),
        cpus: host.cpus,
        ts: start.monotonic_ns,
        unix_ns: start.unix_ns,
        target: asked.into(),
        options: options.to_string().into(),
        backends: serde_json::to_string(backends).context("backends")?.into(),
        ..Run::default()
    })
}
