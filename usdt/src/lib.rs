//! Always-on telemetry for a hot path: histograms, hops that are USDT probes, reports.
//!
//! A program declares its [`hops!`] and its table of [`Metric`]s as statics, writes one [`hop!`] per
//! hop, and hands out a [`PerfReport`] when asked. There is no flag to enable it: recording is
//! relaxed atomics, and a probe to which nobody is attached is a `nop`. What is seen from inside
//! (the histogram) and from outside (the probe) is the same number, in histograms of the same
//! shape, so the two can be laid over each other.
//!
//! The naming rule: metric `pty.read.size` is probe `phux:pty__read__size` to SystemTap, bpftrace
//! and libbpf, and `pty-read-size` to DTrace. arg0 is the value in the metric's unit, arg1 the id of
//! the pane or stream, arg2 a sequence number where one exists.
//!
//! The feature `disabled` compiles recording and probes out, to measure what they cost.

mod bucket;
mod counter;
mod histogram;
mod histogram_new;
mod hop;
mod metric;
mod process;
mod promote;
mod report;
mod snapshot;
mod sync;
mod throttle;
mod timer;

pub use bucket::{BUCKETS, bucket_bounds, bucket_of};
pub use counter::{Counter, Gauge};
pub use histogram::{Buckets, Histogram};
pub use hop::{Hop, HopArg, Probe, register_probes};
pub use metric::{Handle, Metric, Unit};
pub use process::{ProcessStats, uptime};
pub use promote::{Promotion, promote_current_thread};
#[cfg(target_os = "linux")]
pub use promote::{promote_by_rtkit, thread_id};
pub use report::{PerfReport, Reading, SCHEMA_VERSION, Span, Value};
pub use snapshot::Snapshot;
pub use throttle::Throttle;
pub use timer::{HopTimer, Timer};

/// What the macros expand to; no part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::hop::names_agree;
    #[cfg(all(
        not(feature = "disabled"),
        any(target_os = "linux", target_os = "android")
    ))]
    pub use probe;
    #[cfg(all(
        not(feature = "disabled"),
        any(target_os = "macos", target_os = "illumos", target_os = "freebsd")
    ))]
    pub use usdt;
}
