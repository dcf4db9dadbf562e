//! Single numbers: a counter that only grows, a gauge that says how it is now.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A number that only grows, until a reset. Lock-free; made to stand in a `static`.
#[derive(Debug, Default)]
// A cache line of its own: counters of two threads stand side by side in memory.
#[repr(align(64))]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `n`.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        if !cfg!(feature = "disabled") {
            self.0.fetch_add(n, Relaxed);
        }
    }

    /// Adds one.
    #[inline(always)]
    pub fn increment(&self) {
        self.add(1);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Back to zero.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// A number that says how it is now. It has no reset: a reset starts a new measurement, and does
/// not change how many clients there are.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// A gauge at zero.
    pub const fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// Sets the value.
    #[inline(always)]
    pub fn set(&self, value: i64) {
        if !cfg!(feature = "disabled") {
            self.0.store(value, Relaxed);
        }
    }

    /// Adds `n`, which may be negative.
    #[inline(always)]
    pub fn add(&self, n: i64) {
        if !cfg!(feature = "disabled") {
            self.0.fetch_add(n, Relaxed);
        }
    }

    /// The value now.
    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

#[cfg(all(test, not(feature = "disabled")))]
mod tests {
    use super::*;

    #[test]
    fn counter_counts_and_resets() {
        let counter = Counter::new();
        counter.increment();
        counter.add(41);
        assert_eq!(counter.get(), 42);
        counter.reset();
        assert_eq!(counter.get(), 0);
    }

    #[test]
    fn gauge_moves_both_ways() {
        let gauge = Gauge::new();
        gauge.set(3);
        gauge.add(-5);
        assert_eq!(gauge.get(), -2);
    }
}
