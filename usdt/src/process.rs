//! What the kernel says about this process as a whole.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// CPU time, memory and context switches of a process since its start, from `getrusage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStats {
    /// Microseconds of CPU in user mode.
    pub cpu_user_us: u64,
    /// Microseconds of CPU in the kernel.
    pub cpu_system_us: u64,
    /// Largest resident set so far, in bytes. Linux counts from before the program was executed: a
    /// small program started by a large one has the large one's peak.
    pub max_rss_bytes: u64,
    /// Switches because a thread waited.
    pub voluntary_ctx_switches: u64,
    /// Switches because a thread was preempted.
    pub involuntary_ctx_switches: u64,
}

impl ProcessStats {
    /// This process, now. `None` where the kernel does not say.
    pub fn capture() -> Option<Self> {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: `usage` is a writable rusage, which the call fills or leaves as it is.
        if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: an rusage is plain integers; it was zeroed, and then filled by the call.
        let usage = unsafe { usage.assume_init() };
        // Kibibytes everywhere except on Apple's systems.
        let rss_unit = if cfg!(target_vendor = "apple") {
            1
        } else {
            1024
        };
        Some(Self {
            cpu_user_us: micros(usage.ru_utime),
            cpu_system_us: micros(usage.ru_stime),
            max_rss_bytes: unsigned(usage.ru_maxrss).saturating_mul(rss_unit),
            voluntary_ctx_switches: unsigned(usage.ru_nvcsw),
            involuntary_ctx_switches: unsigned(usage.ru_nivcsw),
        })
    }

    /// What was used between `earlier` and now; the peak of the memory stays the peak.
    pub fn delta(&self, earlier: &Self) -> Self {
        Self {
            cpu_user_us: self.cpu_user_us.saturating_sub(earlier.cpu_user_us),
            cpu_system_us: self.cpu_system_us.saturating_sub(earlier.cpu_system_us),
            max_rss_bytes: self.max_rss_bytes,
            voluntary_ctx_switches: self
                .voluntary_ctx_switches
                .saturating_sub(earlier.voluntary_ctx_switches),
            involuntary_ctx_switches: self
                .involuntary_ctx_switches
                .saturating_sub(earlier.involuntary_ctx_switches),
        }
    }
}

/// The C types differ in width between systems; none of these is ever negative.
fn unsigned(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(0)
}

fn micros(time: libc::timeval) -> u64 {
    unsigned(time.tv_sec)
        .saturating_mul(1_000_000)
        .saturating_add(unsigned(time.tv_usec))
}

/// Time since this process started. Where the system does not say (it does on Linux), since the
/// first call.
pub fn uptime() -> Duration {
    static FIRST_CALL: OnceLock<(Instant, Duration)> = OnceLock::new();
    // The start is looked up once, and then a monotonic clock counts on: two reports of one process
    // differ by exactly the time between them.
    let (at, uptime) =
        FIRST_CALL.get_or_init(|| (Instant::now(), since_start().unwrap_or_default()));
    *uptime + at.elapsed()
}

#[cfg(target_os = "linux")]
fn since_start() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Field 22 of proc(5), in ticks since boot; fields are counted after the name's closing
    // parenthesis, since a name may hold anything.
    let start_ticks: u64 = stat
        .rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()?;
    // SAFETY: takes and returns an integer.
    let ticks_per_second = unsigned(unsafe { libc::sysconf(libc::_SC_CLK_TCK) });
    let started_ms = start_ticks
        .checked_mul(1000)?
        .checked_div(ticks_per_second)?;
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a writable timespec.
    if unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) } != 0 {
        return None;
    }
    let now_ms = unsigned(now.tv_sec) * 1000 + unsigned(now.tv_nsec) / 1_000_000;
    Some(Duration::from_millis(now_ms.saturating_sub(started_ms)))
}

#[cfg(not(target_os = "linux"))]
fn since_start() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work() {
        let before = ProcessStats::capture().expect("getrusage works");
        let mut after = before;
        let mut x = 1u64;
        let started = Instant::now();
        while after.cpu_user_us <= before.cpu_user_us && started.elapsed().as_secs() < 20 {
            for _ in 0..100_000 {
                x = std::hint::black_box(x.wrapping_mul(3));
            }
            after = ProcessStats::capture().expect("getrusage works");
        }
        let delta = after.delta(&before);
        assert!(delta.cpu_user_us > 0);
        // A test binary is larger than 512 KiB and smaller than 64 GiB: the unit is right.
        assert!(
            (1 << 19..1 << 36).contains(&delta.max_rss_bytes),
            "{delta:?}"
        );
        assert_eq!(
            delta.max_rss_bytes, after.max_rss_bytes,
            "a peak is not subtracted"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn uptime_counts_from_the_start_of_the_process() {
        // The kernel made this directory when the process started, or later: never before.
        let first = uptime();
        let second = uptime();
        assert!(second >= first);
        assert!(since_start().is_some_and(|since| since < Duration::from_secs(3600)));
    }
}
