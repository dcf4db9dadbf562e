//! One thread's time: off and on a CPU, so that any stretch of it can be split into where it went.

use std::collections::VecDeque;

use super::model::{BlockedOn, Parts};
use super::syscalls;
use crate::source::event::{Off, Placement, ShortBlame, ShortCulprit, Wake};
use crate::stats::{PtyId, Side};

/// Naps in a row, after which a thread still does the same.
pub(super) const NAPS: usize = 8;
/// Names in one link's `ran_instead`.
const NAMED: usize = 8;

/// The last seconds of a thread.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    offs: VecDeque<Off>,
}

/// Where a stretch of time went.
#[derive(Debug, Default)]
pub(super) struct Spent {
    pub(super) parts: Parts,
    pub(super) ran_instead: Vec<ShortCulprit>,
    pub(super) blocked_on: Vec<(BlockedOn, u64)>,
    pub(super) major_faults: u32,
    pub(super) place: Placement,
}

/// It slept, so that somebody or something woke it.
fn slept(off: &Off) -> bool {
    off.wake != Wake::Preempted && off.wake != Wake::New
}

/// A sleep that is part of the work: a timer that it set, a disk, a lock, or the kernel's worker that
/// a read of a terminal waits for when it has emptied it. Whoever ended it has handed it nothing.
pub(super) fn is_nap(off: &Off) -> bool {
    let slept_in = off.slept_in;
    let call = slept_in.syscall.and_then(syscalls::name);
    let syncs = call.is_some_and(|c| {
        let syncs = ["fsync", "fdatasync", "sync", "syncfs", "msync"];
        syncs.contains(&c)
    });
    slept_in.fault
        || slept_in.disk
        || syncs
        || matches!(call, Some("nanosleep" | "clock_nanosleep"))
}

/// When it left; where that was not seen, when it was runnable.
fn left(off: &Off) -> u64 {
    if off.left == 0 {
        off.runnable
    } else {
        off.left
    }
}

fn blocked_on(off: &Off) -> BlockedOn {
    let s = off.slept_in;
    match s.syscall {
        _ if s.fault => BlockedOn::PageFault,
        Some(n) if s.disk => BlockedOn::Disk(n),
        Some(n) => BlockedOn::Syscall(n),
        None => BlockedOn::Unknown,
    }
}

/// Length of what `a..b` and `c..d` have in common.
fn overlap(a: u64, b: u64, c: u64, d: u64) -> u64 {
    b.min(d).saturating_sub(a.max(c))
}

/// `part` of `whole`, of `amount`.
fn share(amount: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let share = u128::from(amount) * u128::from(part.min(whole)) / u128::from(whole);
    u64::try_from(share).unwrap_or(amount)
}

impl Timeline {
    pub(super) fn push(&mut self, off: Off) {
        // Two CPUs' clocks can disagree; the order of the records is what happened.
        if self.offs.back().is_none_or(|last| last.at.ts <= off.at.ts) {
            self.offs.push_back(off);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.offs.len()
    }

    /// Forgets what ended before `ns`, but for the last: since then it runs.
    pub(super) fn forget(&mut self, ns: u64) {
        while self.offs.len() > 1 && self.offs.get(1).is_some_and(|o| o.at.ts < ns) {
            self.offs.pop_front();
        }
    }

    /// Its records, the latest that was back on a CPU by `ns` first.
    pub(super) fn back_from(&self, ns: u64) -> impl Iterator<Item = &Off> {
        let later = self.offs.partition_point(|o| o.at.ts <= ns);
        self.offs.range(..later).rev()
    }

    /// The last sleep that was over by `ns` and that somebody or something had to end.
    pub(super) fn last_wait(&self, ns: u64) -> Option<&Off> {
        let mut naps = self.sleeps_back_from(ns).take(NAPS + 1);
        naps.find(|o| !is_nap(o))
    }

    /// The sleeps that were over by `ns`, the last one first.
    pub(super) fn sleeps_back_from(&self, ns: u64) -> impl Iterator<Item = &Off> {
        self.back_from(ns).filter(|o| slept(o))
    }

    /// The sleeps that begin at `ns` or later.
    pub(super) fn sleeps_from(&self, ns: u64) -> impl Iterator<Item = &Off> {
        let first = self.offs.partition_point(|o| left(o) < ns);
        self.offs.range(first..).filter(|o| slept(o))
    }

    /// Whether it was asleep at that moment.
    pub(super) fn asleep_at(&self, ns: u64) -> bool {
        let first = self.offs.partition_point(|o| o.at.ts <= ns);
        self.offs
            .get(first)
            .is_some_and(|o| slept(o) && left(o) <= ns)
    }

    /// When flush work of that PTY, under way `started..ended`, woke it.
    pub(super) fn woken_by(&self, flush: (PtyId, Side), started: u64, ended: u64) -> Option<&Off> {
        let first = self.offs.partition_point(|o| o.runnable < started);
        let woken = self.offs.range(first..).take_while(|o| o.runnable <= ended);
        woken.into_iter().find(|o| o.woken_by_flush == Some(flush))
    }

    /// Where its time `from..until` went. At `seen` the thread is known to have been on a CPU, from
    /// elsewhere than its records here; in `gaps` records were lost.
    pub(super) fn spent(&self, from: u64, until: u64, seen: u64, gaps: &[(u64, u64)]) -> Spent {
        let mut spent = Spent::default();
        let mut at = from;
        let first = self.offs.partition_point(|o| o.at.ts <= from);
        let before = first.checked_sub(1).and_then(|i| self.offs.get(i));
        spent.place = before
            .or(self.offs.front())
            .map_or_else(Placement::default, |o| o.place);
        // Since when it runs; `None`: not known.
        let mut running = before.map(|o| o.at.ts);
        for off in self.offs.range(first..) {
            let gone = left(off).max(at);
            // What belongs to the slice before it left, though it may leave after the end.
            let slice = running.map_or(0, |since| left(off).saturating_sub(since));
            let ran = overlap(at, until, at, gone);
            if off.left == 0 {
                spent.parts.unknown_ns += ran;
            } else {
                let interrupt = share(off.interrupt_ns, ran, slice.max(ran)).min(ran);
                spent.parts.interrupt_ns += interrupt;
                spent.parts.on_cpu_ns += ran - interrupt;
            }
            at = at.max(gone.min(until));
            if gone >= until {
                break;
            }
            spent.off(off, at, until);
            at = off.at.ts.clamp(at, until);
            running = Some(off.at.ts);
        }
        let known = if running.is_some() {
            seen.clamp(at, until.max(at))
        } else {
            at
        };
        spent.parts.on_cpu_ns += known - at;
        spent.parts.unknown_ns += until.saturating_sub(known);
        spent.mistrust(from, until, gaps);
        spent.finish();
        spent
    }
}

impl Spent {
    /// The part of one absence that lies in `from..until`.
    fn off(&mut self, off: &Off, from: u64, until: u64) {
        let runnable = off.runnable.clamp(left(off), off.at.ts.max(left(off)));
        let blocked = overlap(from, until, left(off), runnable);
        let waited = overlap(from, until, runnable, off.at.ts);
        let whole = off.at.ts.saturating_sub(runnable);
        let throttled = share(off.throttled_ns.min(whole), waited, whole);
        self.parts.blocked_ns += blocked;
        self.parts.throttled_ns += throttled;
        self.parts.run_queue_ns += waited - throttled;
        if blocked > 0 {
            let on = blocked_on(off);
            match self.blocked_on.iter_mut().find(|(b, _)| *b == on) {
                Some((_, ns)) => *ns += blocked,
                None => self.blocked_on.push((on, blocked)),
            }
        }
        self.major_faults = self.major_faults.saturating_add(off.major_faults);
        self.blame(&off.blame, waited - throttled, whole);
    }

    /// Who had the CPU during a wait of `whole`, of which `waited` counts.
    pub(super) fn blame(&mut self, blame: &ShortBlame, waited: u64, whole: u64) {
        let named = blame.culprits.iter().map(|c| c.ns);
        let whole = whole.max(named.fold(0, u64::saturating_add));
        for culprit in &blame.culprits {
            let ns = share(culprit.ns, waited, whole);
            if ns == 0 {
                continue;
            }
            let same = |c: &&mut ShortCulprit| {
                c.own == culprit.own && c.pid == culprit.pid && c.name == culprit.name
            };
            match self.ran_instead.iter_mut().find(same) {
                Some(c) => c.ns += ns,
                None => self.ran_instead.push(ShortCulprit {
                    ns,
                    ..culprit.clone()
                }),
            }
        }
    }

    /// Time in which records were lost: what it did is not known.
    fn mistrust(&mut self, from: u64, until: u64, gaps: &[(u64, u64)]) {
        let lossy: u64 = gaps.iter().map(|(a, b)| overlap(from, until, *a, *b)).sum();
        let moved = lossy.min(self.parts.on_cpu_ns);
        self.parts.on_cpu_ns -= moved;
        self.parts.unknown_ns += moved;
    }

    pub(super) fn finish(&mut self) {
        self.ran_instead.sort_by_key(|c| std::cmp::Reverse(c.ns));
        self.ran_instead.truncate(NAMED);
        self.blocked_on
            .sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::event::{At, SleptIn};
    use proptest::prelude::*;

    fn off(left: u64, runnable: u64, ts: u64) -> Off {
        Off {
            at: At {
                ts,
                ..At::default()
            },
            left,
            runnable,
            wake: if left == runnable {
                Wake::Preempted
            } else {
                Wake::Interrupt
            },
            slept_in: SleptIn {
                syscall: Some(7),
                ..SleptIn::default()
            },
            blame: ShortBlame {
                culprits: vec![ShortCulprit {
                    name: "hog".into(),
                    ns: ts - runnable,
                    ..ShortCulprit::default()
                }],
                ..ShortBlame::default()
            },
            ..Off::default()
        }
    }

    fn timeline(offs: &[(u64, u64, u64)]) -> Timeline {
        let mut t = Timeline::default();
        offs.iter().for_each(|(a, b, c)| t.push(off(*a, *b, *c)));
        t
    }

    #[test]
    fn a_stretch_is_split_at_its_records() {
        let t = timeline(&[(0, 5, 10), (30, 50, 60), (100, 100, 130)]);
        let s = t.spent(20, 120, 120, &[]);
        assert_eq!((s.parts.on_cpu_ns, s.parts.blocked_ns), (10 + 40, 20));
        assert_eq!((s.parts.run_queue_ns, s.parts.unknown_ns), (10 + 20, 0));
        assert_eq!(s.blocked_on, [(BlockedOn::Syscall(7), 20)]);
        assert_eq!(s.ran_instead.iter().map(|c| c.ns).sum::<u64>(), 30);
    }

    #[test]
    fn what_nobody_told_is_not_known() {
        assert_eq!(timeline(&[]).spent(5, 25, 25, &[]).parts.unknown_ns, 20);
        let t = timeline(&[(0, 5, 10)]);
        let parts = t.spent(20, 120, 50, &[]).parts;
        assert_eq!((parts.on_cpu_ns, parts.unknown_ns), (30, 70));
        let parts = t.spent(20, 120, 120, &[(100, 110)]).parts;
        assert_eq!((parts.on_cpu_ns, parts.unknown_ns), (90, 10));
    }

    #[test]
    fn interrupts_are_taken_out_of_the_slice_in_which_they_came() {
        let mut t = timeline(&[(0, 5, 10)]);
        t.push(Off {
            interrupt_ns: 40,
            ..off(110, 120, 130)
        });
        let parts = t.spent(60, 110, 110, &[]).parts;
        assert_eq!((parts.interrupt_ns, parts.on_cpu_ns), (20, 30));
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_stretch(
            steps in prop::collection::vec((0u64..50, 0u64..50, 0u64..50, 0u64..60, any::<bool>()), 0..20),
            from in 0u64..800, length in 0u64..800, seen in 0u64..2000,
            gaps in prop::collection::vec((0u64..1500, 0u64..1500), 0..3),
        ) {
            let mut t = Timeline::default();
            let mut now = 1;
            for (ran, slept, waited, extra, unseen) in steps {
                let left = now + ran;
                now = left + slept + waited;
                t.push(Off {
                    left: if unseen { 0 } else { left },
                    throttled_ns: extra,
                    interrupt_ns: extra,
                    ..off(left, left + slept, now)
                });
            }
            let s = t.spent(from, from + length, seen, &gaps);
            prop_assert_eq!(s.parts.total_ns(), length);
            prop_assert!(s.ran_instead.iter().map(|c| c.ns).sum::<u64>() <= s.parts.run_queue_ns);
            prop_assert_eq!(s.blocked_on.iter().map(|(_, ns)| ns).sum::<u64>(), s.parts.blocked_ns);
        }
    }
}
