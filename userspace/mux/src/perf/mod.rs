//! The telemetry of this program: statics, always on, one table for each role.
//!
//! A process is a server or a client, so a table is process-wide.

pub(crate) mod client;
pub(crate) mod server;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use phux_perf::{Gauge, promote_current_thread};

/// Whether the threads of the hot path got a better place in the run queue.
static SCHED_INTERACTIVE: Gauge = Gauge::new();

/// Whether they ask for one.
static PROMOTE: AtomicBool = AtomicBool::new(true);

/// Warnings about the same degradation are at least this far apart.
pub(crate) const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// Whether [`promote`] is to do anything.
pub(crate) fn set_promotion(wanted: bool) {
    PROMOTE.store(wanted, Relaxed);
}

/// Asks for a shorter wait for the CPU for the calling thread of the hot path, and says in the
/// log what it got.
pub(crate) fn promote(thread: &str) {
    if PROMOTE.load(Relaxed) {
        let got = promote_current_thread();
        SCHED_INTERACTIVE.set(got.gauge());
        log::debug!("thread {thread}: scheduling: {got}");
        #[cfg(target_os = "linux")]
        if !matches!(got, phux_perf::Promotion::Nice { .. }) {
            ask_rtkit(thread);
        }
    }
}

/// Asks RTKit for what the kernel did not grant, without waiting for the answer.
#[cfg(target_os = "linux")]
fn ask_rtkit(thread: &str) {
    let (name, id) = (thread.to_owned(), phux_perf::thread_id());
    let ask = move || {
        let got = phux_perf::promote_by_rtkit(id);
        SCHED_INTERACTIVE.set(got.gauge());
        log::debug!("thread {name}: scheduling after RTKit was asked: {got}");
    };
    // Without room for a thread the kernel's answer stands.
    let _ = std::thread::Builder::new()
        .name("phux-rtkit".into())
        .spawn(ask);
}

/// A reading of the clock for a hop alone. Where recording is compiled out there is none, so that
/// the comparison of the two has its cost in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(#[cfg(not(feature = "no-telemetry"))] Instant);

impl Stopwatch {
    #[inline]
    pub(crate) fn start() -> Self {
        Self(
            #[cfg(not(feature = "no-telemetry"))]
            Instant::now(),
        )
    }

    /// Microseconds since the start.
    #[inline]
    pub(crate) fn micros(self) -> u64 {
        #[cfg(not(feature = "no-telemetry"))]
        return micros(self.0);
        #[cfg(feature = "no-telemetry")]
        return 0;
    }
}

/// Microseconds since `start`, the unit of the timing hops.
pub(crate) fn micros(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Logs a warning at most once per [`WARN_INTERVAL`], with the number of those held back.
macro_rules! warn_throttled {
    ($($arg:tt)+) => {{
        static THROTTLE: phux_perf::Throttle =
            phux_perf::Throttle::new($crate::perf::WARN_INTERVAL);
        if let Some(suppressed) = THROTTLE.allow() {
            log::warn!("{} (suppressed since the last: {suppressed})", format_args!($($arg)+));
        }
    }};
}
pub(crate) use warn_throttled;
