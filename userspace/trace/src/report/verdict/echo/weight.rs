//! Whether one who waits has less claim to the CPU than one who runs, and where that is settled.

use crate::report::model::{Cgroup, PlaceRow, Rival};

/// From this difference of nice on the claim is less than half (each step is a factor of 1.25).
const NICE: i32 = 4;
/// Weight of a cgroup that nobody set.
const USUAL_WEIGHT: u32 = 100;

/// Why somebody has the smaller claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Because {
    /// SCHED_IDLE or SCHED_BATCH: when woken it preempts nobody, whatever the cgroups.
    Policy,
    /// Its nice, within one cgroup.
    Nice,
    /// The nice of its session.
    Autogroup,
    /// Its cgroup's weight.
    Cgroup,
}

/// Why `waits` has less than half of the claim of `ran`; `None` if it has not.
///
/// The kernel shares by cgroup first: between two cgroups with weights, nice says nothing.
/// Outside of them, with autogroup, it shares by session first, and own nice counts within one only.
/// Real-time tasks go before all ordinary ones, so against them no class of these is the cause.
pub(super) fn outranked(waits: &PlaceRow, ran: &Rival) -> Option<Because> {
    match (waits.sched.policy.as_str(), ran.sched.policy.as_str()) {
        (_, "SCHED_FIFO" | "SCHED_RR" | "SCHED_DEADLINE") => return None,
        ("SCHED_IDLE", "SCHED_IDLE") | ("SCHED_BATCH", "SCHED_BATCH") => {}
        ("SCHED_BATCH", "SCHED_IDLE") => return None,
        ("SCHED_IDLE" | "SCHED_BATCH", _) => return Some(Because::Policy),
        ("SCHED_OTHER", _) => {}
        _ => return None,
    }
    if let Some((own, other)) = fork(waits.cgroup.as_ref(), ran.cgroup.as_ref()) {
        return (own.saturating_mul(2) < other).then_some(Because::Cgroup);
    }
    match waits.autogroup_nice {
        Some(nice) => (nice >= NICE).then_some(Because::Autogroup),
        None => {
            let less = waits.sched.nice.saturating_sub(ran.sched.nice) >= NICE;
            (less && waits.sched.nice > 0).then_some(Because::Nice)
        }
    }
}

/// Whether the kernel shares the CPU between these by cgroup.
pub(super) fn apart(a: Option<&Cgroup>, b: Option<&Cgroup>) -> bool {
    fork(a, b).is_some()
}

/// The weights of two cgroups where their paths part; `None` where the controller is not on there, or
/// they are one. Tasks of a cgroup stand beside the cgroups in it with the usual weight.
fn fork(a: Option<&Cgroup>, b: Option<&Cgroup>) -> Option<(u32, u32)> {
    let (a, b) = (a?, b?);
    let parts = |c: &Cgroup| -> Vec<String> {
        let parts = c.path.split('/').filter(|p| !p.is_empty());
        parts.map(str::to_owned).collect()
    };
    let common = parts(a)
        .iter()
        .zip(&parts(b))
        .take_while(|(a, b)| a == b)
        .count();
    let (own, other) = (a.weights.get(common), b.weights.get(common));
    if a.id == b.id || (own.is_none() && other.is_none()) {
        return None;
    }
    let weight = |w: Option<&u32>| w.copied().unwrap_or(USUAL_WEIGHT);
    Some((weight(own), weight(other)))
}

/// How many folders their paths have in common.
fn common(a: &Cgroup, b: &Cgroup) -> usize {
    parts(a).zip(parts(b)).take_while(|(a, b)| a == b).count()
}

fn parts(c: &Cgroup) -> impl Iterator<Item = &str> {
    c.path.split('/').filter(|p| !p.is_empty())
}

/// The cgroup that `a` is in where its path leaves that of `b`: the one whose weight counts between them.
pub(super) fn branch(a: &Cgroup, b: &Cgroup) -> Option<Cgroup> {
    let common = common(a, b);
    let path: Vec<&str> = parts(a).take(common + 1).collect();
    (path.len() > common).then(|| Cgroup {
        path: format!("/{}", path.join("/")),
        version_1: a.version_1,
        weight: a.weights.get(common).copied(),
        ..Cgroup::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::SchedClass;

    fn class(policy: &str, nice: i32) -> SchedClass {
        SchedClass {
            policy: policy.into(),
            nice,
            rt_priority: 0,
        }
    }

    fn group(id: u64, weight: Option<u32>) -> Option<Cgroup> {
        Some(Cgroup {
            id,
            path: format!("/{id}"),
            weight,
            weights: weight.into_iter().collect(),
            ..Cgroup::default()
        })
    }

    fn of(
        waits: (SchedClass, Option<Cgroup>, Option<i32>),
        ran: (SchedClass, Option<Cgroup>),
    ) -> Option<Because> {
        let place = PlaceRow {
            sched: waits.0,
            cgroup: waits.1,
            autogroup_nice: waits.2,
            ..PlaceRow::default()
        };
        let ran = Rival {
            sched: ran.0,
            cgroup: ran.1,
            ..Rival::default()
        };
        outranked(&place, &ran)
    }

    #[test]
    fn nice_counts_within_a_cgroup_only() {
        let other = |nice| class("SCHED_OTHER", nice);
        let one = || group(1, Some(100));
        assert_eq!(
            of((other(10), one(), None), (other(0), one())),
            Some(Because::Nice)
        );
        assert_eq!(of((other(10), one(), None), (other(10), one())), None);
        assert_eq!(
            of((other(0), one(), None), (other(-10), one())),
            None,
            "a hog with a claim"
        );
        assert_eq!(
            of((other(10), one(), None), (other(0), group(2, Some(100)))),
            None
        );
        // Two cgroups without the controller are one.
        assert_eq!(
            of(
                (other(10), group(1, None), None),
                (other(0), group(2, None))
            ),
            Some(Because::Nice)
        );
        assert_eq!(
            of((other(10), None, Some(0)), (other(0), None)),
            None,
            "another session"
        );
        assert_eq!(
            of((other(0), None, Some(10)), (other(0), None)),
            Some(Because::Autogroup)
        );
        assert_eq!(
            of(
                (other(0), group(1, Some(10)), None),
                (other(0), group(2, Some(100)))
            ),
            Some(Because::Cgroup)
        );
    }

    #[test]
    fn idle_and_batch_preempt_nobody() {
        let other = class("SCHED_OTHER", 0);
        for policy in ["SCHED_IDLE", "SCHED_BATCH"] {
            let place = |g| (class(policy, 0), g, None);
            assert_eq!(
                of(
                    place(group(1, Some(100))),
                    (other.clone(), group(2, Some(100)))
                ),
                Some(Because::Policy)
            );
            assert_eq!(of(place(None), (class(policy, 0), None)), None);
            assert_eq!(of(place(None), (class("SCHED_FIFO", 0), None)), None);
        }
        let fifo = class("SCHED_FIFO", 0);
        assert_eq!(of((fifo, None, None), (other, None)), None);
    }

    #[test]
    fn weights_are_compared_where_the_paths_part() {
        let of = |path: &str, weights: &[u32]| Cgroup {
            id: path.len() as u64 + u64::from(weights.len() as u32) * 100,
            path: path.into(),
            weight: weights.last().copied(),
            weights: weights.to_vec(),
            ..Cgroup::default()
        };
        // The slice above is what is light, not the service itself.
        let light = of("/batch.slice/a.service", &[10, 100]);
        let usual = of("/system.slice/build.service", &[100, 100]);
        assert_eq!(fork(Some(&light), Some(&usual)), Some((10, 100)));
        let sibling = of("/batch.slice/other.service", &[10, 200]);
        assert_eq!(fork(Some(&light), Some(&sibling)), Some((100, 200)));
        // A kernel worker of the root stands beside the slices.
        assert_eq!(fork(Some(&of("/", &[])), Some(&light)), Some((100, 10)));
        // The controller ends above where they part.
        let scope = |n| of(&format!("/user.slice/session-{n}.scope"), &[100]);
        assert_eq!(fork(Some(&scope(3)), Some(&scope(17))), None);
    }
}
