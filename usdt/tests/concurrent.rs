//! Records are never lost, however threads interleave.
//!
//! Loom runs every interleaving of the very source file that the library consists of, compiled here
//! with loom's atomics in place of the real ones, and with 8 buckets, those of the values 0 to 7.
//! Then many real threads do the same at full speed.
#![cfg(not(feature = "disabled"))]
#![allow(
    unreachable_pub,
    dead_code,
    reason = "the file is the library's, seen from here"
)]

mod bucket {
    pub const BUCKETS: usize = 8;
    pub use phux_perf::{bucket_bounds, bucket_of};
}
mod snapshot {
    pub use phux_perf::Snapshot;
}
mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}
#[path = "../src/histogram.rs"]
mod histogram;

use loom::sync::Arc;
use phux_perf::Snapshot;
use sync::{AtomicU64, Ordering::Relaxed};

/// As `histogram_new.rs`, for loom's atomics.
fn modelled() -> histogram::Histogram {
    histogram::Histogram {
        sum: AtomicU64::new(0),
        min: AtomicU64::new(u64::MAX),
        max: AtomicU64::new(0),
        buckets: histogram::Buckets(std::array::from_fn(|_| AtomicU64::new(0))),
    }
}

fn truth(values: &[u64]) -> Snapshot {
    let mut snapshot = Snapshot::new();
    values.iter().for_each(|&value| snapshot.record(value));
    snapshot
}

#[test]
fn every_interleaving_of_two_writers_keeps_every_record() {
    // They meet in a bucket, in the sum, and with a new minimum and maximum each.
    loom::model(|| {
        let histogram = Arc::new(modelled());
        let other = Arc::clone(&histogram);
        let thread = loom::thread::spawn(move || {
            other.record(7);
            other.record(1);
        });
        histogram.record(7);
        thread.join().expect("it does not panic");
        assert_eq!(histogram.snapshot(), truth(&[7, 7, 1]));
        // A snapshot mends a minimum or maximum that misses its bucket; here none needs mending.
        let raw = [&histogram.sum, &histogram.min, &histogram.max].map(|n| n.load(Relaxed));
        assert_eq!(raw, [15, 1, 7]);
    });
}

#[test]
fn every_interleaving_of_a_reader_gives_a_snapshot_that_holds_together() {
    loom::model(|| {
        let histogram = Arc::new(modelled());
        histogram.record(3);
        let other = Arc::clone(&histogram);
        let thread = loom::thread::spawn(move || other.record(6));
        let snapshot = histogram.snapshot();
        // The first sample is there for certain, the second perhaps.
        assert!(snapshot.count == 1 || snapshot.count == 2, "{snapshot:?}");
        assert_eq!(
            snapshot.count,
            snapshot.nonempty().map(|(_, n)| n).sum::<u64>()
        );
        assert_eq!((snapshot.min, snapshot.percentile(50.0)), (3, 3));
        // Never low, even where the bucket is visible before the maximum is.
        assert_eq!(
            snapshot.percentile(100.0),
            if snapshot.count == 2 { 6 } else { 3 }
        );
        thread.join().expect("it does not panic");
        assert_eq!(histogram.snapshot(), truth(&[3, 6]));
    });
}

/// On a weakly ordered machine a bucket may be visible before minimum and maximum are.
#[test]
fn a_snapshot_mends_a_minimum_and_maximum_that_come_late() {
    loom::model(|| {
        let histogram = modelled();
        histogram.record(4);
        histogram.buckets.record(1);
        histogram.buckets.record(6);
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.count, snapshot.min, snapshot.max), (3, 1, 6));
    });
}

#[test]
fn many_threads_at_full_speed_lose_nothing() {
    static HISTOGRAM: phux_perf::Histogram = phux_perf::Histogram::new();
    const THREADS: u64 = 8;
    const EACH: u64 = 50_000;
    let values = |thread: u64| (0..EACH).map(move |i| (i * 7919 + thread) % (1 << (i % 40 + 1)));
    let start = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                values(thread).for_each(|value| HISTOGRAM.record(value));
            });
        }
    });
    let expected: Vec<u64> = (0..THREADS).flat_map(values).collect();
    assert_eq!(HISTOGRAM.snapshot(), truth(&expected));
}
