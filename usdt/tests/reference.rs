//! Histograms and snapshots against a plain reference: the sorted list of all samples.
#![cfg(not(feature = "disabled"))]

use phux_perf::{BUCKETS, Histogram, Snapshot, bucket_bounds, bucket_of};
use proptest::collection::vec;
use proptest::prelude::*;

/// Values of every magnitude, and those at the edges of octaves.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0u32..64, any::<u64>()).prop_map(|(shift, value)| value >> shift),
        (0u32..64, -1i64..=1).prop_map(|(shift, off)| (1u64 << shift).wrapping_add_signed(off)),
        0u64..200,
    ]
}

fn values() -> impl Strategy<Value = Vec<u64>> {
    vec(value(), 0..300)
}

fn plain(values: &[u64]) -> Snapshot {
    let mut snapshot = Snapshot::new();
    values.iter().for_each(|&value| snapshot.record(value));
    snapshot
}

/// The bucket by the definition in words, searched instead of computed.
fn bucket_by_definition(value: u64) -> usize {
    if value < 32 {
        return value as usize;
    }
    let octave = (5..64)
        .rev()
        .find(|&e| value >= 1 << e)
        .expect("32 or more");
    let width = 1u64 << (octave - 3);
    let sub = (0..8)
        .rev()
        .find(|&sub| value >= (1u64 << octave) + sub * width)
        .expect("at least 0");
    32 + 8 * (octave as usize - 5) + sub as usize
}

proptest! {
    #[test]
    fn buckets_are_as_defined(value in value()) {
        let index = bucket_of(value);
        prop_assert_eq!(index, bucket_by_definition(value));
        prop_assert!(index < BUCKETS);
        let (lower, upper) = bucket_bounds(index);
        prop_assert!(lower <= value && value <= upper);
        // An eighth of an octave: at most 12.5 % of the smallest value in it.
        prop_assert!(upper - lower <= lower / 8);
    }

    #[test]
    fn a_histogram_holds_exactly_its_samples(values in values()) {
        let histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        let snapshot = histogram.snapshot();
        prop_assert_eq!(snapshot.count, values.len() as u64);
        prop_assert_eq!(snapshot.sum, values.iter().fold(0u64, |sum, v| sum.wrapping_add(*v)));
        prop_assert_eq!(snapshot.min, values.iter().copied().min().unwrap_or(0));
        prop_assert_eq!(snapshot.max, values.iter().copied().max().unwrap_or(0));
        let mut buckets = [0u64; BUCKETS];
        values.iter().for_each(|&value| buckets[bucket_by_definition(value)] += 1);
        prop_assert_eq!(snapshot.buckets(), buckets);
        // And the plain one differs in nothing but that its sum saturates.
        let mut plain = plain(&values);
        plain.sum = snapshot.sum;
        prop_assert_eq!(plain, snapshot);

        histogram.reset();
        prop_assert_eq!(histogram.snapshot(), Snapshot::new());
    }

    #[test]
    fn percentiles_are_never_low_and_at_most_an_eighth_high(
        mut values in vec(value(), 1..300),
        p in prop_oneof![0.0..=100.0f64, Just(50.0), Just(99.0), Just(99.9), Just(100.0)],
    ) {
        let answer = plain(&values).percentile(p);
        values.sort_unstable();
        let rank = ((p * values.len() as f64 / 100.0).ceil() as usize).max(1);
        let truth = values[rank - 1];
        prop_assert!(answer >= truth, "{answer} below {truth}");
        prop_assert!(answer - truth <= truth / 8, "{answer} over {truth} by more than 12.5 %");
        prop_assert!(answer <= values[values.len() - 1]);
    }

    #[test]
    fn merge_is_recording_both(a in values(), b in values()) {
        let mut merged = plain(&a);
        merged.merge(&plain(&b));
        prop_assert_eq!(merged, plain(&[a, b].concat()));
    }

    #[test]
    fn delta_is_what_came_after(a in values(), b in values()) {
        let histogram = Histogram::new();
        a.iter().for_each(|&value| histogram.record(value));
        let earlier = histogram.snapshot();
        b.iter().for_each(|&value| histogram.record(value));
        let delta = histogram.snapshot().delta(&earlier);

        let truth = plain(&b);
        prop_assert_eq!(delta.buckets(), truth.buckets());
        prop_assert_eq!(delta.count, truth.count);
        let overflows = [a, b].concat().iter().try_fold(0u64, |sum, v| sum.checked_add(*v)).is_none();
        prop_assert!(overflows || delta.sum == truth.sum);
        // Not exact, but of the right bucket and on the safe side.
        prop_assert!(delta.min <= truth.min && delta.max >= truth.max);
        prop_assert_eq!(bucket_of(delta.min), bucket_of(truth.min));
        prop_assert_eq!(bucket_of(delta.max), bucket_of(truth.max));
    }

    #[test]
    fn delta_survives_a_reset(a in values(), b in values()) {
        let histogram = Histogram::new();
        a.iter().for_each(|&value| histogram.record(value));
        let earlier = histogram.snapshot();
        histogram.reset();
        b.iter().for_each(|&value| histogram.record(value));
        let later = histogram.snapshot();
        let delta = later.delta(&earlier);
        // Where the reset shows, in the count or in any bucket, all of `later` is new.
        let shows = later.count < earlier.count
            || (0..BUCKETS).any(|index| later.bucket(index) < earlier.bucket(index));
        if shows {
            prop_assert_eq!(delta, later);
        } else {
            prop_assert_eq!(delta.count, later.count - earlier.count);
        }
    }

    #[test]
    fn parts_and_json_come_back_whole(values in values()) {
        let snapshot = plain(&values);
        let parts: Vec<_> = snapshot.nonempty().collect();
        let &Snapshot { count, sum, min, max, .. } = &snapshot;
        // In any order.
        let reversed: Vec<_> = parts.iter().rev().copied().collect();
        prop_assert_eq!(&Snapshot::from_parts(count, sum, min, max, &parts), &snapshot);
        prop_assert_eq!(&Snapshot::from_parts(count, sum, min, max, &reversed), &snapshot);

        let json = serde_json::to_string(&snapshot)?;
        prop_assert_eq!(serde_json::from_str::<Snapshot>(&json)?, snapshot);
    }

    /// Numbers from elsewhere may be anything.
    #[test]
    fn hostile_parts_do_no_harm(
        a in hostile(), b in hostile(), p in any::<f64>(),
    ) {
        let percentile = a.percentile(p);
        prop_assert!(percentile <= a.max || a.nonempty().any(|(i, _)| bucket_bounds(i).1 >= percentile));
        let mut merged = a.clone();
        merged.merge(&b);
        prop_assert!(merged.count >= a.count);
        prop_assert!(merged.nonempty().all(|(index, _)| index < BUCKETS));
        let _ = a.delta(&b);
        let _ = a.mean();
    }
}

fn hostile() -> impl Strategy<Value = Snapshot> {
    let number = || prop_oneof![Just(u64::MAX), Just(0), any::<u64>()];
    let buckets = vec(
        (prop_oneof![0..600usize, Just(usize::MAX)], number()),
        0..20,
    );
    (number(), number(), number(), number(), buckets).prop_map(|(count, sum, min, max, buckets)| {
        Snapshot::from_parts(count, sum, min, max, &buckets)
    })
}

#[test]
fn a_maximum_that_was_read_too_early_does_not_make_a_percentile_low() {
    // The reader saw the maximum before the sample of bucket 97 (10,000) came.
    let raced = Snapshot::from_parts(2, 10_005, 5, 5, &[(5, 1), (97, 1)]);
    assert_eq!(raced.percentile(50.0), 5);
    assert!(raced.percentile(100.0) >= 10_000);
}

#[test]
fn empty_snapshots_are_cheap() {
    assert!(
        size_of::<Snapshot>() <= 64,
        "{} bytes",
        size_of::<Snapshot>()
    );
    assert_eq!(Snapshot::new().percentile(99.0), 0);
    assert_eq!(Snapshot::new().nonempty().count(), 0);
}

#[test]
fn samples_known_by_bucket_alone_are_on_the_safe_side() {
    let mut snapshot = Snapshot::new();
    snapshot.add_bucket(87, 3); // 3840 to 4095
    snapshot.add_bucket(BUCKETS, 9);
    assert_eq!(
        (snapshot.count, snapshot.min, snapshot.max),
        (3, 3840, 4095)
    );
    assert_eq!(snapshot.sum, 3 * 3967);
}
