//! When and where a run is: its two clocks, and the machine.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::report::model::Window;
use crate::source::live::monotonic_ns;

/// The two clocks at the moment when the window began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) monotonic_ns: u64,
    pub(crate) unix_ns: u64,
}

impl Start {
    pub(crate) fn now() -> Start {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Start {
            monotonic_ns: monotonic_ns(),
            unix_ns: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

impl Start {
    /// That of a recording.
    pub(crate) fn of(run: &phux_recording::Run) -> Start {
        Start {
            monotonic_ns: run.ts,
            unix_ns: run.unix_ns,
        }
    }

    /// What to add to CLOCK_MONOTONIC for the time since the Unix epoch, ns.
    pub(crate) fn unix_offset_ns(self) -> i128 {
        i128::from(self.unix_ns) - i128::from(self.monotonic_ns)
    }
}

/// Where and for how long.
pub(crate) fn window(start_unix_ns: u64, duration_ns: u64) -> Window {
    Window {
        start_unix_ms: start_unix_ns / 1_000_000,
        duration_ns,
        host: host(),
        kernel: kernel(),
        cpus: cpus(),
    }
}

fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

pub(crate) fn kernel() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}
