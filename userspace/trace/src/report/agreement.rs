//! Whether a process's own histograms and ours of its probes tell the same.

use super::model::{Dist, InProcess, InProcessRow, Loss};

/// Losses by which a sample can be missing from what the kernel has of a probe.
const OF_HOPS: [&str; 3] = ["hop_table", "hop_arg", "missed"];
/// The two sides are read one after the other, at the begin and at the end: what a server records
/// while it answers us. So many at least.
const BETWEEN: u64 = 8;
/// And of a busy hop one in so many: 50 ms of ten seconds.
const BUSY: u64 = 200;

/// Says of each row how much of the difference nothing explains.
pub fn mark(processes: &mut [InProcess], losses: &[Loss]) {
    let lost = losses
        .iter()
        .filter(|l| OF_HOPS.contains(&l.class.as_str()))
        .fold(0u64, |sum, l| sum.saturating_add(l.count));
    for row in processes.iter_mut().flat_map(|p| &mut p.rows) {
        row.unexplained = unexplained(row, lost);
    }
}

fn unexplained(row: &InProcessRow, lost: u64) -> Option<u64> {
    let differing = row.differing?;
    let samples = row.outside.as_ref()?.count.max(row.inside.count);
    let explained = lost.saturating_add(BETWEEN).saturating_add(samples / BUSY);
    Some(differing.saturating_sub(explained))
}

/// The buckets that differ: index, samples inside, samples outside; the largest difference first.
#[must_use]
pub fn differences(inside: &Dist, outside: &Dist) -> Vec<(u16, u64, u64)> {
    let count = |d: &Dist, idx| {
        let of = d.buckets.iter().filter(|b| b.idx == idx);
        of.map(|b| b.count).sum::<u64>()
    };
    let mut indices: Vec<u16> = inside
        .buckets
        .iter()
        .chain(&outside.buckets)
        .map(|b| b.idx)
        .collect();
    indices.sort_unstable();
    indices.dedup();
    let mut all: Vec<(u16, u64, u64)> = indices
        .into_iter()
        .map(|idx| (idx, count(inside, idx), count(outside, idx)))
        .filter(|(_, a, b)| a != b)
        .collect();
    all.sort_by_key(|(idx, a, b)| (std::cmp::Reverse(a.abs_diff(*b)), *idx));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::dist;

    fn row(inside: &[(u64, u64)], outside: Option<&[(u64, u64)]>) -> InProcess {
        let (inside, outside) = (dist(inside), outside.map(dist));
        let differing = outside.as_ref().map(|o| {
            let all = differences(&inside, o);
            all.iter().map(|(_, a, b)| a.abs_diff(*b)).sum()
        });
        InProcess {
            pid: 1,
            role: "server".into(),
            rows: vec![InProcessRow {
                metric: "pty.read.size".into(),
                unit: "bytes".into(),
                inside,
                outside,
                differing,
                unexplained: None,
            }],
            missing: None,
        }
    }

    fn left(inside: &[(u64, u64)], outside: Option<&[(u64, u64)]>, lost: u64) -> Option<u64> {
        let mut one = [row(inside, outside)];
        let loss = |class: &str| Loss {
            class: class.into(),
            count: lost,
            meaning: String::new(),
        };
        mark(&mut one, &[loss("hop_table"), loss("ring_full")]);
        one[0].rows[0].unexplained
    }

    #[test]
    fn only_what_nothing_explains_is_a_disagreement() {
        assert_eq!(left(&[(3, 500)], Some(&[(3, 500)]), 0), Some(0));
        assert_eq!(
            left(&[(3, 500)], Some(&[(3, 492)]), 0),
            Some(0),
            "a few between the looks"
        );
        assert_eq!(left(&[(3, 500)], Some(&[(3, 300)]), 0), Some(190));
        assert_eq!(
            left(&[(3, 500)], Some(&[(3, 300)]), 200),
            Some(0),
            "they were lost"
        );
        assert_eq!(
            left(&[(3, 500)], Some(&[(9, 500)]), 0),
            Some(990),
            "as many, in other buckets"
        );
        assert_eq!(left(&[(3, 500)], None, 0), None);
    }

    #[test]
    fn buckets_that_differ_most_come_first() {
        let all = differences(
            &dist(&[(1, 5), (2, 9), (4, 3)]),
            &dist(&[(1, 5), (2, 1), (7, 1)]),
        );
        assert_eq!(all, [(2, 9, 1), (4, 3, 0), (7, 0, 1)]);
    }
}
