//! Two recordings compared: what has become slower, and how sure that is.
//!
//! Each series (a syscall's durations, a hop's values, echo lengths, waits for a CPU by thread name …)
//! is compared at its percentiles. A percentile of a sample has a confidence interval from order
//! statistics, which needs no assumption about the distribution. Only where the two intervals
//! do not overlap, and the change exceeds a threshold, is it a change.

mod estimate;
mod series;
mod text;

pub use estimate::Estimate;
pub use series::Kind;
pub use text::render;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::store::RunId;
use crate::{Dataset, Error};
use series::{Key, Sample};

/// How to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which percentiles, in (0, 100).
    pub percentiles: Vec<f64>,
    /// A change below this part of the older value is none.
    pub threshold: f64,
    /// Nor is one below so many ns (or units of a hop).
    pub least: u64,
    /// A series with fewer samples on either side is not judged.
    pub samples: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            percentiles: vec![50.0, 90.0, 99.0],
            threshold: 0.1,
            least: 1_000,
            samples: 30,
        }
    }
}

/// What became of a percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Larger, surely, and by more than the threshold.
    Regression,
    /// Smaller, surely, and by more than the threshold.
    Improvement,
    /// No change that could be told from chance, or none that matters.
    Same,
    /// Too few samples to say.
    TooFew,
}

/// One percentile of one series in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// What kind of series.
    pub kind: Kind,
    /// Of what: the syscall's, hop's or thread's name.
    pub name: String,
    /// Which percentile.
    pub percentile: f64,
    /// In the first recording.
    pub a: Estimate,
    /// In the second.
    pub b: Estimate,
    /// `b ÷ a − 1`; `None` where a is 0.
    pub change: Option<f64>,
    /// What to think of it.
    pub verdict: Verdict,
}

/// A series that only one recording has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alone {
    /// What kind of series.
    pub kind: Kind,
    /// Of what.
    pub name: String,
    /// In the second recording, else in the first.
    pub in_b: bool,
    /// How many samples it has.
    pub samples: u64,
}

/// Two recordings compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// Regressions first, the largest on top; then improvements; then the rest.
    pub changes: Vec<Change>,
    /// Series of one recording only.
    pub alone: Vec<Alone>,
    /// How many regressions there are: none is exit status 0.
    pub regressions: usize,
}

/// Compares a recording of one folder with one of another.
///
/// # Errors
/// When a file cannot be read.
pub fn diff(a: (&Dataset, RunId), b: (&Dataset, RunId), options: &Options) -> Result<Diff, Error> {
    let mut all: BTreeMap<Key, (Sample, Sample)> = BTreeMap::new();
    series::gather(a.0, a.1, |key, value| {
        all.entry(key).or_default().0.add(value)
    })?;
    series::gather(b.0, b.1, |key, value| {
        all.entry(key).or_default().1.add(value)
    })?;
    let (mut changes, mut alone) = (Vec::new(), Vec::new());
    for ((kind, name), (mut a, mut b)) in all {
        if a.count() == 0 || b.count() == 0 {
            alone.push(Alone {
                kind,
                name: name.to_string(),
                in_b: a.count() == 0,
                samples: a.count() + b.count(),
            });
            continue;
        }
        for percentile in &options.percentiles {
            changes.push(compare(kind, &name, *percentile, &mut a, &mut b, options));
        }
    }
    let size = |c: &Change| c.change.map_or(f64::INFINITY, f64::abs);
    changes.sort_by(|x, y| x.verdict.cmp(&y.verdict).then(size(y).total_cmp(&size(x))));
    Ok(Diff {
        regressions: changes
            .iter()
            .filter(|c| c.verdict == Verdict::Regression)
            .count(),
        changes,
        alone,
    })
}

fn compare(
    kind: Kind,
    name: &str,
    percentile: f64,
    a: &mut Sample,
    b: &mut Sample,
    options: &Options,
) -> Change {
    let (a, b) = (a.percentile(percentile), b.percentile(percentile));
    let change = (a.value != 0).then(|| b.value as f64 / a.value as f64 - 1.0);
    let matters = b.value.abs_diff(a.value) >= options.least
        && change.is_none_or(|c| c.abs() > options.threshold);
    let verdict = if a.samples.min(b.samples) < options.samples {
        Verdict::TooFew
    } else if matters && a.high.is_some_and(|high| b.low > high) {
        Verdict::Regression
    } else if matters && b.high.is_some_and(|high| high < a.low) {
        Verdict::Improvement
    } else {
        Verdict::Same
    };
    Change {
        kind,
        name: name.to_owned(),
        percentile,
        a,
        b,
        change,
        verdict,
    }
}
