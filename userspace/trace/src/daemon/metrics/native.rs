//! From our 504 buckets to those of Prometheus.
//!
//! Native histograms have exponential buckets: of schema 3 eight an octave, as ours, but each as much
//! wider than the one before it, where ours are all equally wide within an octave. So the two do not fall
//! together. A bucket of ours goes as a whole to where its upper bound is: a quantile is never low, as
//! everywhere in phux-trace, and at most 12.5 % (ours) and 9.1 % (theirs) high.
//!
//! Classic ones have their bounds where ours have them, so they are exact.

use std::collections::BTreeMap;

use phux_perf::{Snapshot, bucket_bounds};

use super::families::Unit;

/// Buckets an octave, as a power of two.
pub(super) const SCHEMA: i32 = 3;
/// What is not above this is zero: less than one ns or byte.
pub(super) const ZERO: f64 = 1e-10;

/// A native histogram's buckets above zero.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sparse {
    pub(super) zero: u64,
    /// Runs of buckets: the gap before each (of the first: its index), and how many.
    pub(super) spans: Vec<(i32, u32)>,
    /// Each bucket's count less that of the one before.
    pub(super) deltas: Vec<i64>,
}

/// The native form.
pub(super) fn sparse(snapshot: &Snapshot, unit: Unit) -> Sparse {
    let mut buckets: BTreeMap<i32, u64> = BTreeMap::new();
    let mut sparse = Sparse::default();
    for (index, count) in snapshot.nonempty() {
        let (_, upper) = bucket_bounds(index);
        match upper {
            0 => sparse.zero += count,
            upper => *buckets.entry(bucket_of(unit.of(upper))).or_default() += count,
        }
    }
    let mut next = 0;
    let mut before = 0;
    for (at, count) in buckets {
        match sparse.spans.last_mut() {
            Some((_, length)) if at == next => *length += 1,
            _ => sparse.spans.push((at - next, 1)),
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        sparse.deltas.push(count.saturating_sub(before));
        before = count;
        next = at + 1;
    }
    sparse
}

/// The bucket that holds a value above zero: i for (2^((i-1)/8), 2^(i/8)].
fn bucket_of(value: f64) -> i32 {
    (value.log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

/// The classic form: for each bound how many were at most that. One bound an octave.
pub(super) fn cumulative(snapshot: &Snapshot, unit: Unit) -> Vec<(f64, u64)> {
    let octaves = match unit {
        // 1 µs to 17 s.
        Unit::Seconds => 10..=34,
        // A byte to a MiB.
        Unit::Bytes => 1..=20,
    };
    octaves
        .map(|octave| {
            let bound = (1u64 << octave) - 1;
            let below = snapshot.nonempty();
            let below = below.filter(|(index, _)| bucket_bounds(*index).1 <= bound);
            (unit.of(bound), below.map(|(_, count)| count).sum())
        })
        .collect()
}

/// All samples of the buckets: what a native histogram's count must be.
pub(super) fn total(snapshot: &Snapshot) -> u64 {
    snapshot.nonempty().map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The upper bound of each sample's bucket, ascending: how Prometheus unfolds it.
    fn unfolded(sparse: &Sparse) -> Vec<(f64, u64)> {
        let (mut at, mut count, mut deltas) = (0, 0, sparse.deltas.iter());
        let mut all = vec![(0.0, sparse.zero)];
        for (gap, length) in &sparse.spans {
            at += gap;
            for _ in 0..*length {
                count += deltas.next().expect("one a bucket");
                all.push((
                    2f64.powf(f64::from(at) / 8.0),
                    u64::try_from(count).expect("a count"),
                ));
                at += 1;
            }
        }
        assert!(deltas.next().is_none());
        all
    }

    #[test]
    fn bounds_are_inclusive() {
        assert_eq!(bucket_of(1.0), 0);
        assert_eq!(bucket_of(1.0001), 1);
        assert_eq!(bucket_of(2.0), 8);
        assert_eq!(bucket_of(0.5), -8);
    }

    proptest! {
        #[test]
        fn no_sample_is_lost_or_told_too_low(values in proptest::collection::vec(0u64..1 << 40, 0..200)) {
            let mut snapshot = Snapshot::new();
            values.iter().for_each(|v| snapshot.record(*v));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for unit in [Unit::Seconds, Unit::Bytes] {
                let sparse = sparse(&snapshot, unit);
                let all = unfolded(&sparse);
                prop_assert_eq!(all.iter().map(|b| b.1).sum::<u64>(), values.len() as u64);
                let told = all.iter().flat_map(|(bound, n)| (0..*n).map(move |_| *bound));
                for (value, bound) in sorted.iter().zip(told) {
                    let value = unit.of(*value);
                    prop_assert!(bound >= value * (1.0 - 1e-12), "{value} {bound}");
                    prop_assert!(bound <= value * 1.125 * 1.0906, "{value} {bound}");
                }
                for (bound, count) in cumulative(&snapshot, unit) {
                    let exact = sorted.iter().filter(|v| unit.of(**v) <= bound).count();
                    prop_assert_eq!(count, exact as u64);
                }
            }
        }
    }
}
