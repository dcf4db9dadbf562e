//! A histogram at rest: what a report, a percentile and a comparison work on.

use crate::bucket::{BUCKETS, bucket_bounds, bucket_of};

/// The state of a histogram at one moment, or between two.
///
/// Also usable as a plain, non-atomic histogram through [`record`](Self::record). It stores only
/// the span of buckets between the lowest and the highest one in use: an empty one costs no heap
/// memory, a typical one some hundred bytes.
///
/// Ten thousand threads may have one each, and the numbers may come from another process, so
/// nothing here panics or wraps: what does not fit saturates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Number of samples.
    pub count: u64,
    /// Sum of the samples, in the metric's unit.
    pub sum: u64,
    /// Smallest sample; 0 when empty.
    pub min: u64,
    /// Largest sample; 0 when empty.
    pub max: u64,
    /// Index of the bucket that `counts[0]` is. 0 when `counts` is empty.
    first: usize,
    /// Counts from `first` on. Its first and last element are never zero, so equal histograms have
    /// equal fields.
    counts: Vec<u64>,
}

impl Snapshot {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            count: 0,
            sum: 0,
            min: 0,
            max: 0,
            first: 0,
            counts: Vec::new(),
        }
    }

    /// One from numbers read elsewhere; buckets are pairs of index and count, in any order.
    ///
    /// The numbers are kept as they are: a reader who does not stop the writer gets a count that is
    /// a sample or so off the buckets. Indexes of [`BUCKETS`] or above are left out.
    pub fn from_parts(count: u64, sum: u64, min: u64, max: u64, buckets: &[(usize, u64)]) -> Self {
        let mut snapshot = Self::new();
        for &(index, n) in buckets {
            snapshot.add_to_bucket(index, n);
        }
        Self {
            count,
            sum,
            min,
            max,
            ..snapshot
        }
    }

    /// Adds one sample.
    pub fn record(&mut self, value: u64) {
        self.widen(value, value);
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(value);
        self.add_to_bucket(bucket_of(value), 1);
    }

    /// Adds `n` samples of which only the bucket is known: count grows by `n`, minimum and maximum
    /// widen to the bucket's bounds, and sum grows by `n` times the middle of the bucket. An index
    /// of [`BUCKETS`] or above is left out.
    pub fn add_bucket(&mut self, index: usize, n: u64) {
        if n == 0 || index >= BUCKETS {
            return;
        }
        let (lower, upper) = bucket_bounds(index);
        self.widen(lower, upper);
        self.count = self.count.saturating_add(n);
        self.sum = self
            .sum
            .saturating_add(n.saturating_mul(lower + (upper - lower) / 2));
        self.add_to_bucket(index, n);
    }

    /// Adds the samples of another histogram.
    pub fn merge(&mut self, other: &Snapshot) {
        if other.count == 0 && other.counts.is_empty() {
            return;
        }
        self.widen(other.min, other.max);
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        for (index, n) in other.nonempty() {
            self.add_to_bucket(index, n);
        }
    }

    /// The samples that came after `earlier`, an older state of the same histogram.
    ///
    /// If any number went down, the histogram was reset in between: then everything in `self` is
    /// new, and is the answer. Otherwise minimum and maximum are those of the buckets that grew,
    /// as their bounds, since the exact ones of an interval are not known; only where those bounds
    /// pass the all-time minimum or maximum, that one.
    pub fn delta(&self, earlier: &Snapshot) -> Snapshot {
        let shrank = earlier.nonempty().any(|(index, n)| self.bucket(index) < n);
        if shrank || self.count < earlier.count {
            return self.clone();
        }
        let mut delta = Snapshot::new();
        for (index, n) in self.nonempty() {
            delta.add_bucket(index, n - earlier.bucket(index));
        }
        delta.count = self.count - earlier.count;
        delta.sum = self.sum.saturating_sub(earlier.sum);
        if !delta.counts.is_empty() {
            // A minimum or maximum outside of its own bucket is a reader's race, and not to be
            // believed.
            if bucket_of(self.min) == bucket_of(delta.min) {
                delta.min = self.min;
            }
            if bucket_of(self.max) == bucket_of(delta.max) {
                delta.max = self.max;
            }
        }
        delta
    }

    /// The value that `p` percent of the samples do not exceed: the upper bound of the bucket that
    /// holds the sample of rank `max(1, ceil(p × count / 100))`, at most `max`.
    ///
    /// Never below the true value, and at most 12.5 % above it. 0 when empty.
    pub fn percentile(&self, p: f64) -> u64 {
        let rank = (p * self.count as f64 / 100.0).ceil() as u64;
        let rank = rank.min(self.count).max(1);
        let mut seen = 0u64;
        for (index, n) in self.nonempty() {
            seen = seen.saturating_add(n);
            if seen >= rank {
                let (lower, upper) = bucket_bounds(index);
                // A maximum below a sample that is there was read too early: no clamp.
                return if self.max < lower {
                    upper
                } else {
                    upper.min(self.max)
                };
            }
        }
        self.max
    }

    /// Arithmetic mean, rounded down; 0 when empty.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// Whether it holds no sample.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Buckets that hold samples, as index and count, in ascending order.
    pub fn nonempty(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|&(_, &n)| n > 0)
            .map(|(i, &n)| (self.first + i, n))
    }

    /// Count of one bucket; 0 for an index of [`BUCKETS`] or above.
    pub fn bucket(&self, index: usize) -> u64 {
        index
            .checked_sub(self.first)
            .and_then(|i| self.counts.get(i))
            .copied()
            .unwrap_or(0)
    }

    /// The counts of all buckets, as a copy of 4 KiB.
    pub fn buckets(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|index| self.bucket(index))
    }

    fn widen(&mut self, min: u64, max: u64) {
        let empty = self.count == 0 && self.counts.is_empty();
        self.min = if empty { min } else { self.min.min(min) };
        self.max = if empty { max } else { self.max.max(max) };
    }

    /// Adds to the bucket alone, making the span wider where needed.
    fn add_to_bucket(&mut self, index: usize, n: u64) {
        if n == 0 || index >= BUCKETS {
            return;
        }
        if self.counts.is_empty() {
            self.first = index;
        }
        if index < self.first {
            let missing = self.first - index;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = index;
        }
        let at = index - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count = count.saturating_add(n);
        }
    }
}

/// The JSON shape: `{count, sum, min, max, buckets: [{idx, count}]}`, buckets ascending, only those
/// that hold samples. Reading ignores unknown keys and indexes out of range.
mod json {
    use super::Snapshot;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Bucket {
        idx: usize,
        count: u64,
    }

    #[derive(Serialize, Deserialize)]
    struct Shape {
        count: u64,
        sum: u64,
        min: u64,
        max: u64,
        buckets: Vec<Bucket>,
    }

    impl Serialize for Snapshot {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let &Snapshot {
                count,
                sum,
                min,
                max,
                ..
            } = self;
            let buckets = self
                .nonempty()
                .map(|(idx, count)| Bucket { idx, count })
                .collect();
            Shape {
                count,
                sum,
                min,
                max,
                buckets,
            }
            .serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for Snapshot {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let Shape {
                count,
                sum,
                min,
                max,
                buckets,
            } = Shape::deserialize(deserializer)?;
            let buckets: Vec<_> = buckets
                .iter()
                .map(|bucket| (bucket.idx, bucket.count))
                .collect();
            Ok(Snapshot::from_parts(count, sum, min, max, &buckets))
        }
    }
}
