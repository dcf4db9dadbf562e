//! Many chains in bounded memory: distributions of all of them, and some of them whole.
//!
//! Whole ones are kept by length: of each bucket of the histogram up to [`KEPT`], each with the
//! same chance. So there are real ones near every percentile, the rarest of the slow included, and
//! each stands for a known number of others.

use std::collections::BTreeMap;

use phux_perf::{Snapshot, bucket_of};

use super::model::{Actor, Chain, LinkKind, Parts};
use crate::report::model::{EndKind, Ends};
use crate::source::event::Placement;
use crate::stats::PtyId;

/// Whole chains kept of each bucket. Real lengths spread over some fifty buckets: about 3 MB.
const KEPT: usize = 16;
/// Whole chains kept for `--slow`.
const SLOW: usize = 512;
/// PTYs told one by one.
const PANES: usize = 1024;
/// Scheduling classes told one by one.
const CLASSES: usize = 128;

/// What is kept of all chains so far.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub(super) ends: Ends,
    pub(super) inexact: u64,
    pub(super) confirmed: u64,
    pub(super) contradicted: u64,
    pub(super) length: Snapshot,
    pub(super) links: BTreeMap<LinkKind, LinkStat>,
    /// Of the echoed, by bucket of the length.
    pub(super) echoed: BTreeMap<usize, Stratum>,
    /// Of those that got no answer, by how they ended.
    pub(super) unanswered: BTreeMap<EndKind, Stratum>,
    /// `None`: all beyond [`PANES`].
    pub(super) panes: BTreeMap<Option<PtyId>, PaneStat>,
    /// `None`: all beyond [`CLASSES`].
    pub(super) classes: BTreeMap<Option<(bool, Placement)>, ClassStat>,
    /// Those of `slow_from` and longer, by length and id.
    pub(super) slow: BTreeMap<(u64, u64), Chain>,
    pub(super) slow_left_out: u64,
    pub(super) slow_from: Option<u64>,
    dice: Dice,
}

/// One link over all echoed chains.
#[derive(Debug, Clone, Default)]
pub(super) struct LinkStat {
    pub(super) length: Snapshot,
    pub(super) on_cpu: Snapshot,
    pub(super) run_queue: Snapshot,
    pub(super) throttled: Snapshot,
    pub(super) blocked: Snapshot,
    pub(super) interrupt: Snapshot,
    pub(super) unknown: Snapshot,
}

/// One PTY.
#[derive(Debug, Clone, Default)]
pub(super) struct PaneStat {
    pub(super) ends: Ends,
    pub(super) length: Snapshot,
}

/// Links of one scheduling class.
#[derive(Debug, Clone, Default)]
pub(super) struct ClassStat {
    pub(super) links: u64,
    pub(super) wait: Snapshot,
    pub(super) parts: Parts,
}

impl Summary {
    /// An empty one; chains of `slow_from` ns and longer are kept for a list of their own.
    pub fn new(slow_from: Option<u64>) -> Summary {
        Summary {
            slow_from,
            ..Summary::default()
        }
    }

    /// Whether no chain has been added.
    pub fn is_empty(&self) -> bool {
        self.ends == Ends::default()
    }

    /// Lengths of the echoed, ns.
    pub fn lengths(&self) -> &Snapshot {
        &self.length
    }

    /// Adds a chain that has ended.
    pub fn add(&mut self, chain: &Chain) {
        let end = EndKind::from(chain.end);
        let length = chain.length_ns();
        count(&mut self.ends, end, 1);
        let pane = bounded(&mut self.panes, chain.pty, PANES);
        count(&mut pane.ends, end, 1);
        match chain.confirmed {
            Some(true) => self.confirmed += 1,
            Some(false) => self.contradicted += 1,
            None => {}
        }
        match end {
            EndKind::Echoed => {
                pane.length.record(length);
                self.inexact += u64::from(chain.inexact);
                self.length.record(length);
                self.add_links(chain);
                let stratum = self.echoed.entry(bucket_of(length)).or_default();
                stratum.add(chain, &mut self.dice);
            }
            EndKind::Unread | EndKind::Late | EndKind::Undelivered => {
                let stratum = self.unanswered.entry(end).or_default();
                stratum.add(chain, &mut self.dice);
            }
            EndKind::Silent | EndKind::Lost | EndKind::Open => return,
        }
        if self.slow_from.is_some_and(|from| length >= from) {
            self.slow.insert((length, chain.id), chain.clone());
            self.trim_slow();
        }
    }

    fn add_links(&mut self, chain: &Chain) {
        let mut by_kind: BTreeMap<LinkKind, Parts> = BTreeMap::new();
        for link in &chain.links {
            by_kind.entry(link.kind).or_default().add(&link.parts);
            let Actor {
                kworker,
                place,
                tid,
                ..
            } = &link.actor;
            if *tid != 0 {
                let class = bounded(&mut self.classes, (*kworker, *place), CLASSES);
                class.links += 1;
                class.wait.record(
                    link.parts
                        .run_queue_ns
                        .saturating_add(link.parts.throttled_ns),
                );
                class.parts.add(&link.parts);
            }
        }
        for (kind, parts) in by_kind {
            let stat = self.links.entry(kind).or_default();
            stat.length.record(parts.total_ns());
            stat.on_cpu.record(parts.on_cpu_ns);
            stat.run_queue.record(parts.run_queue_ns);
            stat.throttled.record(parts.throttled_ns);
            stat.blocked.record(parts.blocked_ns);
            stat.interrupt.record(parts.interrupt_ns);
            stat.unknown.record(parts.unknown_ns);
        }
    }

    fn trim_slow(&mut self) {
        while self.slow.len() > SLOW {
            self.slow.pop_first();
            self.slow_left_out += 1;
        }
    }

    /// Adds all chains of another: an interval's to the whole run's.
    ///
    /// There is no subtraction, since what a sample has dropped cannot come back: who reports
    /// intervals keeps one summary for the interval under way and merges it when it is over.
    pub fn merge(&mut self, other: Summary) {
        add_ends(&mut self.ends, &other.ends);
        self.inexact += other.inexact;
        self.confirmed += other.confirmed;
        self.contradicted += other.contradicted;
        self.length.merge(&other.length);
        for (kind, stat) in &other.links {
            self.links.entry(*kind).or_default().merge(stat);
        }
        for (bucket, stratum) in other.echoed {
            let mine = self.echoed.entry(bucket).or_default();
            mine.merge(stratum, &mut self.dice);
        }
        for (end, stratum) in other.unanswered {
            let mine = self.unanswered.entry(end).or_default();
            mine.merge(stratum, &mut self.dice);
        }
        for (pty, stat) in other.panes {
            let mine = match pty {
                Some(pty) => bounded(&mut self.panes, pty, PANES),
                None => self.panes.entry(None).or_default(),
            };
            add_ends(&mut mine.ends, &stat.ends);
            mine.length.merge(&stat.length);
        }
        for (class, stat) in other.classes {
            let mine = match class {
                Some(class) => bounded(&mut self.classes, class, CLASSES),
                None => self.classes.entry(None).or_default(),
            };
            mine.links += stat.links;
            mine.wait.merge(&stat.wait);
            mine.parts.add(&stat.parts);
        }
        self.slow.extend(other.slow);
        self.slow_left_out += other.slow_left_out;
        self.trim_slow();
    }
}

impl LinkStat {
    fn merge(&mut self, other: &LinkStat) {
        self.length.merge(&other.length);
        self.on_cpu.merge(&other.on_cpu);
        self.run_queue.merge(&other.run_queue);
        self.throttled.merge(&other.throttled);
        self.blocked.merge(&other.blocked);
        self.interrupt.merge(&other.interrupt);
        self.unknown.merge(&other.unknown);
    }
}

/// The entry of `key`; once there are `most`, new ones share the entry `None`.
fn bounded<K: Ord, V: Default>(map: &mut BTreeMap<Option<K>, V>, key: K, most: usize) -> &mut V {
    let key = Some(key);
    let key = if map.len() >= most && !map.contains_key(&key) {
        None
    } else {
        key
    };
    map.entry(key).or_default()
}

fn count(ends: &mut Ends, end: EndKind, n: u64) {
    let to = match end {
        EndKind::Echoed => &mut ends.echoed,
        EndKind::Silent => &mut ends.silent,
        EndKind::Unread => &mut ends.unread,
        EndKind::Late => &mut ends.late,
        EndKind::Undelivered => &mut ends.undelivered,
        EndKind::Lost => &mut ends.lost,
        EndKind::Open => &mut ends.open,
    };
    *to += n;
}

fn add_ends(to: &mut Ends, from: &Ends) {
    for end in EndKind::ALL {
        count(to, end, from.of(end));
    }
}

/// A uniform sample of chains that are alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Stratum {
    /// All that were added.
    pub(super) count: u64,
    /// Those kept.
    pub(super) kept: Vec<Chain>,
}

impl Stratum {
    /// Vitter's algorithm R.
    fn add(&mut self, chain: &Chain, dice: &mut Dice) {
        self.count += 1;
        if self.kept.len() < KEPT {
            self.kept.push(chain.clone());
            return;
        }
        let at = dice.below(self.count);
        if let Some(slot) = usize::try_from(at)
            .ok()
            .and_then(|at| self.kept.get_mut(at))
        {
            slot.clone_from(chain);
        }
    }

    /// Each of both populations keeps its share.
    fn merge(&mut self, mut other: Stratum, dice: &mut Dice) {
        let mut left = (self.count, other.count);
        self.count += other.count;
        let mut mine = std::mem::take(&mut self.kept);
        while self.kept.len() < KEPT && !(mine.is_empty() && other.kept.is_empty()) {
            let from_mine = dice.below(left.0 + left.1) < left.0;
            let from = match (mine.is_empty(), other.kept.is_empty()) {
                (true, _) => &mut other.kept,
                (_, true) => &mut mine,
                _ if from_mine => &mut mine,
                _ => &mut other.kept,
            };
            let at = dice.below(from.len() as u64) as usize;
            self.kept.push(from.swap_remove(at));
            let remaining = if from_mine { &mut left.0 } else { &mut left.1 };
            *remaining = remaining.saturating_sub(1);
        }
    }
}

/// Pseudo-random numbers (SplitMix64): the same chains give the same sample, run after run.
#[derive(Debug, Clone, Default)]
struct Dice(u64);

impl Dice {
    /// 0 … `n` − 1; 0 for `n` = 0. The bias of the remainder is below 2⁻³² here.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).checked_rem(n).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{Population, WAY, us};
    use super::*;

    fn ids(summary: &Summary) -> Vec<u64> {
        let kept = summary.echoed.values().flat_map(|s| &s.kept);
        kept.map(|c| c.id).collect()
    }

    #[test]
    fn a_hundred_thousand_chains_are_bounded_and_every_one_is_counted() {
        let mut summary = Summary::new(Some(us(300)));
        let mut population = Population::quiet(0);
        for i in 0..100_000u32 {
            let mut chain = population.next();
            chain.pty.index = i % 5000;
            for link in &mut chain.links {
                link.actor.place.cgroup = u64::from(i % 700);
            }
            summary.add(&chain);
        }
        assert_eq!(summary.length.count, 100_000);
        assert_eq!(
            summary.echoed.values().map(|s| s.count).sum::<u64>(),
            100_000
        );
        assert!(summary.echoed.values().all(|s| s.kept.len() <= KEPT));
        assert!(summary.panes.len() <= PANES + 1, "{}", summary.panes.len());
        assert!(
            summary.classes.len() <= CLASSES + 1,
            "{}",
            summary.classes.len()
        );
        let panes: u64 = summary.panes.values().map(|p| p.ends.echoed).sum();
        assert_eq!(panes, 100_000);
        let links: u64 = summary.classes.values().map(|c| c.links).sum();
        assert_eq!(links, 100_000 * WAY.len() as u64);
        assert_eq!(summary.slow.len(), SLOW);
        assert!(summary.slow_left_out > 0);
    }

    #[test]
    fn the_sample_is_uniform() {
        // 2,000 alike: of the first and of the second half about as many are kept, over many seeds.
        let mut first = 0;
        for seed in 0..200u64 {
            let mut stratum = Stratum::default();
            let mut dice = Dice(seed.wrapping_mul(0x1234_5678_9abc_def1));
            for id in 0..2000 {
                let chain = Chain {
                    id,
                    ..Population::quiet(1).next()
                };
                stratum.add(&chain, &mut dice);
            }
            first += stratum.kept.iter().filter(|c| c.id < 1000).count();
        }
        // 3,200 draws of a half: five standard deviations are 141.
        assert!((1459..1741).contains(&first), "{first} of 3200");
    }

    #[test]
    fn merging_keeps_shares_and_counts() {
        let part = |ids: std::ops::Range<u64>| {
            let mut summary = Summary::new(None);
            let template = Population::quiet(2).next();
            ids.for_each(|id| {
                summary.add(&Chain {
                    id,
                    ..template.clone()
                })
            });
            summary
        };
        let mut from_large = 0;
        for i in 0..100 {
            let mut all = part(0..900);
            all.dice = Dice(i * 77);
            all.merge(part(900..1000));
            assert_eq!((all.ends.echoed, all.length.count), (1000, 1000));
            assert_eq!(ids(&all).len(), KEPT);
            from_large += ids(&all).iter().filter(|id| **id < 900).count();
        }
        // 1,600 draws with 0.9: 1,440, five standard deviations are 60.
        assert!((1380..1500).contains(&from_large), "{from_large}");
    }

    #[test]
    fn the_same_chains_in_intervals_and_in_one_give_the_same_figures() {
        let chains: Vec<Chain> = {
            let mut population = Population::quiet(3);
            (0..3000).map(|_| population.next()).collect()
        };
        let mut one = Summary::new(Some(us(300)));
        chains.iter().for_each(|c| one.add(c));
        let mut merged = Summary::new(Some(us(300)));
        for part in chains.chunks(700) {
            let mut interval = Summary::new(Some(us(300)));
            part.iter().for_each(|c| interval.add(c));
            merged.merge(interval);
        }
        assert_eq!(one.length, merged.length);
        assert_eq!(one.ends, merged.ends);
        assert_eq!(one.slow, merged.slow);
        assert_eq!(one.slow_left_out, merged.slow_left_out);
        for kind in LinkKind::ALL {
            let total = |s: &Summary| s.links.get(&kind).map(|l| l.run_queue.clone());
            assert_eq!(total(&one), total(&merged), "{kind:?}");
        }
        let waits = |s: &Summary| -> Vec<u64> { s.classes.values().map(|c| c.wait.sum).collect() };
        assert_eq!(waits(&one), waits(&merged));
    }
}
