//! Rate-limited warnings.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Lets something through at most once per interval, and counts what it held back meanwhile.
///
/// For warnings at the default log level: a degraded hot path must say so, and must not make the
/// log its next problem. Lock-free; made to stand in a `static`.
///
/// ```
/// # use std::time::Duration;
/// use phux_perf::Throttle;
/// static FULL: Throttle = Throttle::new(Duration::from_secs(10));
/// if let Some(suppressed) = FULL.allow() {
///     eprintln!("queue full ({suppressed} such warnings suppressed)");
/// }
/// ```
#[derive(Debug)]
pub struct Throttle {
    interval: Duration,
    /// Nanoseconds on [`clock`] before which nothing passes. 0 at first: the first one passes.
    not_before: AtomicU64,
    suppressed: AtomicU64,
}

impl Throttle {
    /// One that lets the first call through, and then one per `interval`.
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            not_before: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }

    /// `Some(n)` if this one may pass, where `n` were held back since the last that passed.
    pub fn allow(&self) -> Option<u64> {
        self.allow_at(clock())
    }

    fn allow_at(&self, now: u64) -> Option<u64> {
        let not_before = self.not_before.load(Relaxed);
        let next = now.saturating_add(u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX));
        // Of several that come at once, the one whose exchange succeeds passes.
        let passes = now >= not_before
            && self
                .not_before
                .compare_exchange(not_before, next, Relaxed, Relaxed)
                .is_ok();
        if passes {
            Some(self.suppressed.swap(0, Relaxed))
        } else {
            self.suppressed.fetch_add(1, Relaxed);
            None
        }
    }
}

/// Monotonic nanoseconds since the first call in this process.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn passes_once_per_interval_and_says_what_it_held_back() {
        let throttle = Throttle::new(Duration::from_nanos(100));
        assert_eq!(throttle.allow_at(5), Some(0));
        assert_eq!(throttle.allow_at(5), None);
        assert_eq!(throttle.allow_at(104), None);
        assert_eq!(throttle.allow_at(105), Some(2));
        assert_eq!(throttle.allow_at(10_000), Some(0));
    }

    #[test]
    fn of_many_at_once_one_passes_and_none_is_lost() {
        const THREADS: usize = 8;
        const CALLS: u64 = 2_000;
        let throttle = Throttle::new(Duration::from_secs(3600));
        let passed = AtomicUsize::new(0);
        let reported = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..CALLS {
                        if let Some(suppressed) = throttle.allow_at(7) {
                            passed.fetch_add(1, Relaxed);
                            reported.fetch_add(suppressed, Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(passed.load(Relaxed), 1);
        let later = throttle.allow_at(u64::MAX).expect("the interval is over");
        assert_eq!(reported.load(Relaxed) + later, THREADS as u64 * CALLS - 1);
    }
}
