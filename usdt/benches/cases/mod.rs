//! What is measured: each case does one thing to each of the given values.

use phux_perf::{Buckets, Histogram, Timer, hop, hops};
use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;

/// Something to measure.
pub(crate) struct Case {
    /// What one operation is.
    pub(crate) name: &'static str,
    /// Does it once per value.
    pub(crate) run: fn(&[u64]),
    /// Empties what grew, outside of the measurement.
    pub(crate) tidy: fn(),
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The floor: what every record contains at the least.
pub(crate) const FLOOR: &str = "relaxed fetch_add";
/// Bucket counts alone.
pub(crate) const BUCKETS_RECORD: &str = "Buckets::record";
/// The whole histogram.
pub(crate) const RECORD: &str = "Histogram::record";
/// The whole histogram and the probe.
pub(crate) const HOP: &str = "hop!, nobody attached";

/// All cases, the floor first.
pub(crate) const ALL: &[Case] = &[
    Case {
        name: FLOOR,
        run: floor,
        tidy: nothing,
    },
    Case {
        name: BUCKETS_RECORD,
        run: buckets_record,
        tidy: nothing,
    },
    Case {
        name: RECORD,
        run: histogram_record,
        tidy: nothing,
    },
    Case {
        name: HOP,
        run: hop_record,
        tidy: nothing,
    },
    Case {
        name: "count, sum, min, max, bucket, all fetch_*",
        run: naive_record,
        tidy: nothing,
    },
    Case {
        name: "Instant::now",
        run: clock,
        tidy: nothing,
    },
    Case {
        name: "Timer",
        run: timer,
        tidy: nothing,
    },
    Case {
        name: "hdrhistogram, plain",
        run: hdr_plain,
        tidy: nothing,
    },
    Case {
        name: "hdrhistogram in a Mutex",
        run: hdr_mutex,
        tidy: nothing,
    },
    Case {
        name: "metrics, AtomicBucket",
        run: metrics_record,
        tidy: metrics_tidy,
    },
];

/// Microseconds as a hot path sees them: every octave from 1 us to 16 ms equally often.
pub(crate) fn values() -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let value = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let octave = (state >> 32) % 14;
        (1 << octave) + (state >> 40) % (1 << octave)
    };
    (0..1024).map(value).collect()
}

fn nothing() {}

#[inline(never)]
fn floor(values: &[u64]) {
    static FLOOR: AtomicU64 = AtomicU64::new(0);
    for &value in values {
        FLOOR.fetch_add(value, Relaxed);
    }
}

#[inline(never)]
fn buckets_record(values: &[u64]) {
    static BUCKETS: Buckets = Buckets::new();
    for &value in values {
        BUCKETS.record(value);
    }
}

#[inline(never)]
fn histogram_record(values: &[u64]) {
    static HISTOGRAM: Histogram = Histogram::new();
    for &value in values {
        HISTOGRAM.record(value);
    }
}

hops! {
    static BENCH_HOP: "bench.hop", Micros, bench__hop;
}

#[inline(never)]
fn hop_record(values: &[u64]) {
    for (&value, sequence) in values.iter().zip(0_u64..) {
        hop!(BENCH_HOP, value, 1_u64, sequence);
    }
}

/// What [`Histogram`] would cost if it kept every number by an atomic operation of its own.
#[inline(never)]
fn naive_record(values: &[u64]) {
    static BUCKETS: Buckets = Buckets::new();
    static NUMBERS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    let [count, sum, min, max] = &NUMBERS;
    for &value in values {
        count.fetch_add(1, Relaxed);
        sum.fetch_add(value, Relaxed);
        min.fetch_min(value, Relaxed);
        max.fetch_max(value, Relaxed);
        BUCKETS.record(value);
    }
}

#[inline(never)]
fn clock(values: &[u64]) {
    for _ in values {
        black_box(Instant::now());
    }
}

#[inline(never)]
fn timer(values: &[u64]) {
    static HISTOGRAM: Histogram = Histogram::new();
    for _ in values {
        drop(Timer::start(&HISTOGRAM));
    }
}

type Hdr = hdrhistogram::Histogram<u64>;

/// One significant digit: buckets at most 6.25 % wide, the next finer step than ours of 12.5 %.
fn hdr() -> Mutex<Hdr> {
    Mutex::new(Hdr::new_with_max(u64::MAX / 2, 1).expect("in range"))
}

#[inline(never)]
fn hdr_plain(values: &[u64]) {
    static HDR: LazyLock<Mutex<Hdr>> = LazyLock::new(hdr);
    let mut hdr = HDR.lock().expect("not poisoned");
    for &value in values {
        let _ = hdr.record(value);
    }
}

#[inline(never)]
fn hdr_mutex(values: &[u64]) {
    static HDR: LazyLock<Mutex<Hdr>> = LazyLock::new(hdr);
    for &value in values {
        let _ = HDR.lock().expect("not poisoned").record(value);
    }
}

type Samples = metrics_util::storage::AtomicBucket<f64>;

/// What the exporters of the `metrics` crate record into: a list of all samples, emptied when read.
static METRICS: LazyLock<(metrics::Histogram, Arc<Samples>)> = LazyLock::new(|| {
    let samples = Arc::new(Samples::new());
    (metrics::Histogram::from_arc(Arc::clone(&samples)), samples)
});

#[inline(never)]
fn metrics_record(values: &[u64]) {
    let histogram = &METRICS.0;
    for &value in values {
        histogram.record(value as f64);
    }
}

fn metrics_tidy() {
    METRICS.1.clear();
}
