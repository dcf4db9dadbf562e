//! Asking the scheduler for a shorter wait.
//!
//! A thread of the hot path uses little CPU and is late all the same when every CPU is busy: it
//! waits for the run queue. What a system offers against that differs, so the answer says what was
//! got, and is read back from the kernel and not assumed.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod rtkit;

use std::fmt;
use std::time::Duration;

#[cfg(target_os = "linux")]
pub use rtkit::{promote_by_rtkit, thread_id};

/// What [`promote_current_thread`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Promotion {
    /// Nothing: the thread is scheduled as before.
    None,
    /// macOS: the quality-of-service class "user interactive".
    UserInteractive,
    /// Linux: a shorter slice, and so an earlier deadline when the thread wakes.
    Slice(
        /// The slice in force.
        Duration,
    ),
    /// Linux: a negative nice value for this thread, with a shorter slice where the kernel has it.
    Nice {
        /// The nice value in force.
        nice: i32,
        /// The slice in force, if it is this thread's own.
        slice: Option<Duration>,
    },
}

impl Promotion {
    /// For the gauge `proc.sched_interactive`: 1 if anything was got.
    pub fn gauge(self) -> i64 {
        i64::from(self != Self::None)
    }
}

impl fmt::Display for Promotion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "none"),
            Self::UserInteractive => write!(f, "QoS class user-interactive"),
            Self::Slice(slice) => write!(f, "slice {} us", slice.as_micros()),
            Self::Nice { nice, slice: None } => write!(f, "nice {nice}"),
            Self::Nice {
                nice,
                slice: Some(slice),
            } => {
                write!(f, "nice {nice}, slice {} us", slice.as_micros())
            }
        }
    }
}

/// Asks that the calling thread wait less for a CPU, with what the system offers without harm to
/// others: never a real-time policy, with which a loop in this thread could take a CPU for good.
///
/// - macOS: QoS class user-interactive; needs no privilege.
/// - Linux: a slice of 0.1 ms (kernel 6.12 and later; needs no privilege), and nice −10 where
///   `CAP_SYS_NICE` or `RLIMIT_NICE` allows it; where they do not, `promote_by_rtkit` may get it. Neither passes on to threads or processes that the
///   thread starts: a shell in a pane must not run promoted.
/// - Elsewhere: nothing.
///
/// A thread that has another policy than the default one is left as it is.
pub fn promote_current_thread() -> Promotion {
    platform()
}

#[cfg(target_os = "linux")]
use linux::promote as platform;

#[cfg(target_vendor = "apple")]
fn platform() -> Promotion {
    // SAFETY: acts on the calling thread alone; takes a class and a relative priority.
    let refused = unsafe {
        libc::pthread_set_qos_class_self_np(libc::qos_class_t::QOS_CLASS_USER_INTERACTIVE, 0)
    };
    if refused == 0 {
        Promotion::UserInteractive
    } else {
        Promotion::None
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn platform() -> Promotion {
    Promotion::None
}
