//! A percentile with its confidence interval.

use serde::Serialize;

/// Half-width of the interval in standard deviations: 99 %. Two such intervals that do not overlap are
/// one chance in thousands, which leaves room for a hundred series in one comparison.
const Z: f64 = 2.576;

/// A percentile as the sample has it, and where the true one lies with 99 % confidence, if the
/// samples are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// The sample's.
    pub value: u64,
    /// Not below this.
    pub low: u64,
    /// Not above this; `None`: the sample is too small to bound it.
    pub high: Option<u64>,
    /// How many samples there were.
    pub samples: u64,
}

/// From sorted values. The number of values below the true p-quantile is binomial (n, p); the
/// interval's ends are the values at its mean ± [`Z`] standard deviations.
pub(super) fn percentile(sorted: &[u64], percentile: f64, samples: u64) -> Estimate {
    let n = sorted.len() as f64;
    let p = (percentile / 100.0).clamp(0.0, 1.0);
    let spread = Z * (n * p * (1.0 - p)).sqrt();
    // Order statistics count from 1, slices from 0. The cast saturates at 0.
    let at = |rank: f64| sorted.get((rank - 1.0).max(0.0) as usize).copied();
    Estimate {
        value: at((n * p).ceil()).unwrap_or(0),
        low: at((n * p - spread).floor()).unwrap_or(0),
        high: at((n * p + spread).ceil() + 1.0),
        samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_order_statistics() {
        let sorted: Vec<u64> = (1..=1_000).collect();
        let p50 = percentile(&sorted, 50.0, 1_000);
        assert_eq!((p50.value, p50.low, p50.high), (500, 459, Some(542)));
        let p99 = percentile(&sorted, 99.0, 1_000);
        assert_eq!((p99.value, p99.high), (990, Some(1_000)));
        let few = percentile(&sorted[..20], 99.0, 20);
        assert_eq!(
            (few.value, few.high),
            (20, None),
            "20 values cannot bound a p99"
        );
        assert_eq!(percentile(&[], 50.0, 0).value, 0);
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        // 2,000 samples of 400 uniform values: the true median is 5,000.
        let mut state = 1_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % 10_000
        };
        let held = (0..2_000)
            .filter(|_| {
                let mut sample: Vec<u64> = (0..400).map(|_| random()).collect();
                sample.sort_unstable();
                let e = percentile(&sample, 50.0, 400);
                e.low <= 5_000 && e.high.is_none_or(|h| h >= 5_000)
            })
            .count();
        assert!((1_970..=2_000).contains(&held), "{held} of 2,000");
    }
}
