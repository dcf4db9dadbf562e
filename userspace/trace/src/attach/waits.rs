//! What a run waits for, and what ended it.

use std::io;
use std::process::{ExitCode, ExitStatus};

use tokio::time::{Instant, sleep_until};

use super::exit_code;
use super::wrapped::Wrapped;

/// Status of a run that its duration ended, as timeout(1) has it.
pub(crate) const TIMED_OUT: u8 = 124;

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    Signal,
    Duration,
    Target,
}

impl EndedBy {
    /// Our own status, given that of the wrapped command.
    pub(crate) fn exit_code(self, command: Option<ExitStatus>) -> ExitCode {
        match (self, command) {
            (EndedBy::Duration, Some(_)) => ExitCode::from(TIMED_OUT),
            (_, Some(status)) => exit_code(status),
            (_, None) => ExitCode::SUCCESS,
        }
    }
}

pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn tick(interval: &mut Option<tokio::time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

pub(crate) async fn wait(wrapped: &mut Option<Wrapped>) -> io::Result<ExitStatus> {
    match wrapped {
        Some(w) => w.wait().await,
        None => std::future::pending().await,
    }
}
