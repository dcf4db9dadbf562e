//! The histogram that a hot path records into.
//!
//! What a record costs is decided here. An atomic read-modify-write costs several times what the
//! bucket's index does, so there are as few as possible: one for the bucket, one for the sum. The
//! count is not kept at all (it is the sum of the buckets), and minimum and maximum are a load and
//! a compare, since a value that moves them is rare once a histogram is warm. `cargo bench -p
//! phux-perf` prints the figures.

use crate::bucket::{BUCKETS, bucket_bounds, bucket_of};
use crate::snapshot::Snapshot;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Bucket counts alone: what a record costs at the least, one relaxed `fetch_add`.
///
/// For a place that cannot afford [`Histogram`]; a snapshot has an estimated sum, and bucket
/// bounds for minimum and maximum.
#[derive(Debug)]
pub struct Buckets(pub(crate) [AtomicU64; BUCKETS]);

impl Buckets {
    /// Adds one sample. Lock-free, no allocation.
    #[inline(always)]
    pub fn record(&self, value: u64) {
        if cfg!(feature = "disabled") {
            return;
        }
        // `bucket_of` is below BUCKETS for every u64 (tested), which the optimiser cannot see;
        // `get` turns its doubt into a branch never taken and not into a panic.
        if let Some(bucket) = self.0.get(bucket_of(value)) {
            bucket.fetch_add(1, Relaxed);
        }
    }

    /// The counts at this moment; samples recorded meanwhile may or may not be in it.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for (index, bucket) in self.0.iter().enumerate() {
            snapshot.add_bucket(index, bucket.load(Relaxed));
        }
        snapshot
    }

    /// Sets every count to zero.
    pub fn reset(&self) {
        for bucket in &self.0 {
            bucket.store(0, Relaxed);
        }
    }
}

/// An always-on histogram of `u64` values: 504 buckets, sum, minimum and maximum, in 4 KiB.
///
/// Made to stand in a `static`. Recording is relaxed atomics only: no allocation, no lock, no
/// formatting, no flag to enable it. Two atomic additions, and two loads.
#[derive(Debug)]
// A cache line of its own at both ends: two hops recorded by two threads must not share one.
#[repr(C, align(64))]
pub struct Histogram {
    pub(crate) sum: AtomicU64,
    /// `u64::MAX` while empty.
    pub(crate) min: AtomicU64,
    pub(crate) max: AtomicU64,
    pub(crate) buckets: Buckets,
}

impl Histogram {
    /// Adds one sample, in the metric's unit.
    #[inline(always)]
    pub fn record(&self, value: u64) {
        if cfg!(feature = "disabled") {
            return;
        }
        self.sum.fetch_add(value, Relaxed);
        if value < self.min.load(Relaxed) || value > self.max.load(Relaxed) {
            self.widen(value);
        }
        // Last, so that on most machines a sample that is counted is also in sum, min and max.
        self.buckets.record(value);
    }

    /// Out of line, since it is rare and every hop has a copy of what is inlined.
    #[cold]
    #[inline(never)]
    fn widen(&self, value: u64) {
        self.min.fetch_min(value, Relaxed);
        self.max.fetch_max(value, Relaxed);
    }

    /// The state at this moment.
    ///
    /// The numbers are read one by one while others record, so sum, minimum and maximum can be a
    /// sample or so ahead of the buckets. `count` is always exactly the sum of the buckets, and
    /// minimum and maximum always lie on the right side of the lowest and highest bucket, so that a
    /// percentile is never low.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.buckets.snapshot();
        if snapshot.count == 0 {
            return snapshot;
        }
        // The snapshot of the buckets holds their outer bounds: min is the lower bound of the
        // lowest one, max the upper bound of the highest one.
        let lowest_upper = bucket_bounds(bucket_of(snapshot.min)).1;
        let highest_lower = bucket_bounds(bucket_of(snapshot.max)).0;
        snapshot.sum = self.sum.load(Relaxed);
        snapshot.min = self.min.load(Relaxed).min(lowest_upper);
        snapshot.max = self.max.load(Relaxed).max(highest_lower);
        snapshot
    }

    /// Empties the histogram. A sample recorded meanwhile can be lost in part or whole; a delta of
    /// two snapshots survives that.
    pub fn reset(&self) {
        self.buckets.reset();
        self.sum.store(0, Relaxed);
        self.min.store(u64::MAX, Relaxed);
        self.max.store(0, Relaxed);
    }
}
