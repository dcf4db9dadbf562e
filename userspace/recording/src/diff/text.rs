//! A comparison for people.

use std::fmt::Write;

use super::{Change, Diff, Estimate, Kind, Verdict};
use crate::text::{duration, harmless};

/// As a table; without `all` only what changed.
pub fn render(diff: &Diff, all: bool) -> String {
    let mut out = String::new();
    let shown: Vec<&Change> = diff
        .changes
        .iter()
        .filter(|c| all || matches!(c.verdict, Verdict::Regression | Verdict::Improvement))
        .collect();
    let count = |verdict| diff.changes.iter().filter(|c| c.verdict == verdict).count();
    let _ = writeln!(
        out,
        "{} regressions, {} improvements, {} the same, {} with too few samples",
        diff.regressions,
        count(Verdict::Improvement),
        count(Verdict::Same),
        count(Verdict::TooFew),
    );
    if !shown.is_empty() {
        let _ = writeln!(
            out,
            "\n{:<12} {:<10} {:<24} {:>6} {:>10} {:>22} {:>10} {:>22} {:>8}",
            "", "KIND", "NAME", "", "A", "99 % INTERVAL", "B", "99 % INTERVAL", "CHANGE"
        );
    }
    for c in shown {
        let verdict = match c.verdict {
            Verdict::Regression => "regression",
            Verdict::Improvement => "improvement",
            Verdict::Same => "same",
            Verdict::TooFew => "too few",
        };
        let change = c
            .change
            .map_or_else(|| "new".to_owned(), |c| format!("{:+.1} %", c * 100.0));
        let _ = writeln!(
            out,
            "{verdict:<12} {:<10} {:<24} {:>6} {:>10} {:>22} {:>10} {:>22} {change:>8}",
            c.kind.name(),
            harmless(&c.name),
            format!("p{}", c.percentile),
            figure(c.kind, c.a.value),
            interval(c.kind, &c.a),
            figure(c.kind, c.b.value),
            interval(c.kind, &c.b),
        );
    }
    for a in &diff.alone {
        let _ = writeln!(
            out,
            "only in {}: {} {} ({} samples)",
            if a.in_b { "B" } else { "A" },
            a.kind.name(),
            harmless(&a.name),
            a.samples,
        );
    }
    out
}

/// A hop's value has a unit of its own.
fn figure(kind: Kind, value: u64) -> String {
    match kind {
        Kind::Hop => value.to_string(),
        _ => duration(value),
    }
}

fn interval(kind: Kind, e: &Estimate) -> String {
    let high = e.high.map_or_else(|| "?".to_owned(), |h| figure(kind, h));
    format!("{} – {high}", figure(kind, e.low))
}
