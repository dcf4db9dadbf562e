//! Chains and their summary as the report tells them: names instead of numbers, means of groups.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use phux_perf::Snapshot;

use super::model::{Actor, BlockedOn, Chain, End, Link, LinkKind, Parts};
use super::summary::{ClassStat, LinkStat, PaneStat, Stratum, Summary};
use super::syscalls;
use crate::report::model::{
    ActorRow, Cgroup, ChainRow, ClassRow, Dist, Echoes, EndKind, Group, LinkDist, LinkRow, PaneRow,
    PlaceRow, Rival, SchedClass, Sleep, SleepKind, Unanswered,
};
use crate::source::event::{Placement, ShortCulprit};
use crate::stats::PtyId;

/// Echoes in the slow group: one in so many.
const SLOW_PART: u64 = 100;
/// But at least so many: one or two are chance.
const SLOW_LEAST: u64 = 5;
/// Who ran instead, and sleeps, told by name for each link of a group.
const NAMED: usize = 8;
/// Pids told for each name.
const PIDS: usize = 4;

/// What numbers of a chain are called.
pub trait Names {
    /// Name of a thread; empty where it is not known.
    fn thread(&self, pid: u32, tid: u32) -> String;
    /// The cgroup with this id; `None` where it is not known.
    fn cgroup(&self, id: u64) -> Option<Cgroup>;
    /// Nanoseconds to add to CLOCK_MONOTONIC for the time since the Unix epoch.
    fn unix_offset_ns(&self) -> i128;
}

/// The device number of a devpts instance as stat(2) gives it.
fn devpts(pty: PtyId) -> u64 {
    libc::makedev(pty.devpts >> 20, pty.devpts & 0xf_ffff)
}

/// One chain as a row.
pub fn chain(c: &Chain, names: &dyn Names) -> ChainRow {
    let unix = i128::from(c.begin) + names.unix_offset_ns();
    ChainRow {
        id: c.id,
        unix_ns: u64::try_from(unix).unwrap_or(0),
        devpts: devpts(c.pty),
        index: c.pty.index,
        bytes: c.bytes,
        length_ns: c.length_ns(),
        end: EndKind::from(c.end),
        echo_bytes: match c.end {
            End::Echoed { bytes } => Some(bytes),
            _ => None,
        },
        confirmed: c.confirmed,
        inexact: c.inexact,
        links: c.links.iter().map(|l| link(l, c.begin, names)).collect(),
    }
}

fn link(l: &Link, begin: u64, names: &dyn Names) -> LinkRow {
    LinkRow {
        link: l.kind,
        actor: actor(&l.actor, names),
        from_ns: l.from.saturating_sub(begin),
        length_ns: l.length_ns(),
        parts: l.parts,
        ran_instead: l.ran_instead.iter().map(|c| rival(c, names)).collect(),
        blocked_on: l
            .blocked_on
            .iter()
            .map(|(on, ns)| sleep(*on, *ns))
            .collect(),
        major_faults: u64::from(l.major_faults),
    }
}

fn actor(a: &Actor, names: &dyn Names) -> ActorRow {
    let mut name = names.thread(a.pid, a.tid);
    if name.is_empty() && a.kworker {
        name = "kworker".to_owned();
    }
    ActorRow {
        pid: a.pid,
        tid: a.tid,
        name,
        kworker: a.kworker,
        place: place(&a.place, names),
    }
}

/// A placement as a row.
pub fn place(p: &Placement, names: &dyn Names) -> PlaceRow {
    PlaceRow {
        sched: SchedClass::from(p.class),
        slice_us: (p.slice_us != 0).then_some(p.slice_us),
        uclamp_min: p.uclamp.0,
        uclamp_max: p.uclamp.1,
        autogroup_nice: p.autogroup_nice,
        cgroup: cgroup(p.cgroup, names),
    }
}

/// One that cannot be looked up any more keeps its id.
fn cgroup(id: u64, names: &dyn Names) -> Option<Cgroup> {
    (id != 0).then(|| {
        names.cgroup(id).unwrap_or_else(|| Cgroup {
            id,
            ..Cgroup::default()
        })
    })
}

fn rival(c: &ShortCulprit, names: &dyn Names) -> Rival {
    Rival {
        name: c.name.clone(),
        pids: vec![c.pid],
        more_pids: false,
        own: c.own,
        ns: c.ns,
        sched: SchedClass::from(c.class),
        cgroup: cgroup(c.cgroup, names),
    }
}

fn sleep(on: BlockedOn, ns: u64) -> Sleep {
    let (what, nr) = match on {
        BlockedOn::Syscall(nr) => (SleepKind::Syscall, Some(nr)),
        BlockedOn::Disk(nr) => (SleepKind::Disk, Some(nr)),
        BlockedOn::PageFault => (SleepKind::PageFault, None),
        BlockedOn::Unknown => (SleepKind::Unknown, None),
    };
    let syscall = nr.map(|nr| syscalls::name(nr).map_or_else(|| nr.to_string(), str::to_owned));
    Sleep { what, syscall, ns }
}

impl Summary {
    /// All of it as the report tells it.
    pub fn rows(&self, names: &dyn Names) -> Echoes {
        let kept = ranked(self.echoed.values());
        let total = self.length.count;
        let middle = |share: f64| (0.25..=0.75).contains(&share);
        let typical = part_of(&kept, |from, until| middle((from + until) / 2.0))
            .or_else(|| part_of(&kept, |from, until| from <= 0.5 && until >= 0.5));
        let slow_count = (total / SLOW_PART).max(SLOW_LEAST).min(total);
        let slow_from = 1.0 - ratio(slow_count, total);
        let slow = part_of(&kept, |_, until| until > slow_from + 1e-9);
        let p99 = self.length.percentile(99.0);
        Echoes {
            inputs: EndKind::ALL.iter().map(|e| self.ends.of(*e)).sum(),
            ends: self.ends,
            inexact: self.inexact,
            confirmed: self.confirmed,
            contradicted: self.contradicted,
            length: Dist::from(&self.length),
            links: self.links.iter().map(|(k, s)| link_dist(*k, s)).collect(),
            typical: typical.and_then(|kept| group(&kept, u64::MAX, names)),
            slow: slow.and_then(|kept| group(&kept, p99, names)),
            unanswered: self.unanswered(names),
            panes: self.panes.iter().map(|(p, s)| pane(*p, s)).collect(),
            classes: self.classes(names),
            slow_from_ns: self.slow_from,
            slow_left_out: self.slow_left_out,
        }
    }

    /// Those kept one by one, in order of time.
    pub fn slow_rows(&self, names: &dyn Names) -> Vec<ChainRow> {
        let mut rows: Vec<ChainRow> = self.slow.values().map(|c| chain(c, names)).collect();
        rows.sort_by_key(|r| (r.unix_ns, r.id));
        rows
    }

    fn unanswered(&self, names: &dyn Names) -> Vec<Unanswered> {
        let rows = self.unanswered.iter().filter_map(|(end, stratum)| {
            let group = group(&ranked([stratum].into_iter()), u64::MAX, names)?;
            Some(Unanswered { end: *end, group })
        });
        rows.collect()
    }

    fn classes(&self, names: &dyn Names) -> Vec<ClassRow> {
        let mut rows: Vec<ClassRow> = self
            .classes
            .iter()
            .map(|(class, stat)| class_row(class.as_ref(), stat, names))
            .collect();
        rows.sort_by_key(|r| (Reverse(r.wait.sum), Reverse(r.links)));
        rows
    }
}

fn class_row(class: Option<&(bool, Placement)>, stat: &ClassStat, names: &dyn Names) -> ClassRow {
    ClassRow {
        kworker: class.is_some_and(|(kworker, _)| *kworker),
        place: class.map(|(_, p)| place(p, names)),
        links: stat.links,
        wait: Dist::from(&stat.wait),
        throttled_ns: stat.parts.throttled_ns,
        on_cpu_ns: stat.parts.on_cpu_ns,
        blocked_ns: stat.parts.blocked_ns,
    }
}

fn pane(pty: Option<PtyId>, stat: &PaneStat) -> PaneRow {
    PaneRow {
        devpts: pty.map_or(0, devpts),
        index: pty.map(|p| p.index),
        ends: stat.ends,
        length: Dist::from(&stat.length),
    }
}

fn link_dist(link: LinkKind, s: &LinkStat) -> LinkDist {
    let dist = |s: &Snapshot| Dist::from(s);
    LinkDist {
        link,
        length: dist(&s.length),
        on_cpu: dist(&s.on_cpu),
        run_queue: dist(&s.run_queue),
        throttled: dist(&s.throttled),
        blocked: dist(&s.blocked),
        interrupt: dist(&s.interrupt),
        unknown: dist(&s.unknown),
    }
}

/// A chain that was kept, and how many it stands for.
#[derive(Clone, Copy)]
struct Kept<'a> {
    chain: &'a Chain,
    weight: f64,
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// All that were kept, the shortest first.
fn ranked<'a>(strata: impl Iterator<Item = &'a Stratum>) -> Vec<Kept<'a>> {
    let mut all: Vec<Kept<'a>> = strata
        .flat_map(|s| {
            let weight = ratio(s.count, s.kept.len() as u64);
            s.kept.iter().map(move |chain| Kept { chain, weight })
        })
        .collect();
    all.sort_by_key(|k| (k.chain.length_ns(), k.chain.id));
    all
}

/// Those whose span of the whole, from 0 to 1, is wanted; `None` if there are none.
fn part_of<'a>(all: &[Kept<'a>], wanted: impl Fn(f64, f64) -> bool) -> Option<Vec<Kept<'a>>> {
    let total: f64 = all.iter().map(|k| k.weight).sum();
    let mut from = 0.0;
    let mut part = Vec::new();
    for kept in all {
        let until = from + kept.weight / total;
        if wanted(from, until) {
            part.push(*kept);
        }
        from = until;
    }
    (!part.is_empty()).then_some(part)
}

/// The means of `kept`, no chain taken for longer than `most` ns, and the chain nearest to them.
fn group(kept: &[Kept<'_>], most: u64, names: &dyn Names) -> Option<Group> {
    let total: f64 = kept.iter().map(|k| k.weight).sum();
    let mut sums: BTreeMap<LinkKind, LinkSum> = BTreeMap::new();
    for k in kept {
        let length = k.chain.length_ns();
        let clip = if length > most {
            ratio(most, length)
        } else {
            1.0
        };
        for l in &k.chain.links {
            sums.entry(l.kind)
                .or_default()
                .add(l, k.weight * clip / total);
        }
    }
    let mut links = Vec::new();
    let mut from_ns = 0;
    for (kind, sum) in sums {
        let row = sum.row(kind, from_ns, names);
        from_ns += row.length_ns;
        links.push(row);
    }
    let example = kept
        .iter()
        .min_by_key(|k| (distance(k.chain, &links), k.chain.id))?;
    let lengths = || kept.iter().map(|k| k.chain.length_ns());
    Some(Group {
        count: total.round() as u64,
        kept: kept.len() as u64,
        from_ns: lengths().min().unwrap_or(0),
        until_ns: lengths().max().unwrap_or(0),
        length_ns: from_ns,
        links,
        example: chain(example.chain, names),
    })
}

/// How far a chain's split is from the mean one, ns over all parts of all links.
fn distance(chain: &Chain, mean: &[LinkRow]) -> u64 {
    let mut own: BTreeMap<LinkKind, Parts> = BTreeMap::new();
    for l in &chain.links {
        own.entry(l.kind).or_default().add(&l.parts);
    }
    LinkKind::ALL
        .iter()
        .map(|kind| {
            let a = own.get(kind).copied().unwrap_or_default().as_array();
            let b = mean.iter().find(|l| l.link == *kind);
            let b = b.map_or_else(Parts::default, |l| l.parts).as_array();
            a.iter().zip(b).map(|(a, b)| a.abs_diff(b)).sum::<u64>()
        })
        .fold(0, u64::saturating_add)
}

/// One kind of link, summed over a group with weights that sum to 1.
#[derive(Default)]
struct LinkSum {
    parts: [f64; 6],
    actors: Vec<(Actor, f64)>,
    rivals: BTreeMap<RivalKey, (f64, Vec<u32>)>,
    sleeps: BTreeMap<BlockedOn, f64>,
    major_faults: u64,
}

/// Name, own, class, cgroup: what makes two who ran instead one row.
type RivalKey = (String, bool, crate::stats::SchedClass, u64);

impl LinkSum {
    #[allow(clippy::cast_precision_loss)]
    fn add(&mut self, l: &Link, weight: f64) {
        for (sum, part) in self.parts.iter_mut().zip(l.parts.as_array()) {
            *sum += part as f64 * weight;
        }
        let had = l.parts.total_ns() as f64 * weight;
        match self.actors.iter_mut().find(|(a, _)| *a == l.actor) {
            Some((_, sum)) => *sum += had,
            None => self.actors.push((l.actor.clone(), had)),
        }
        for c in &l.ran_instead {
            let key = (c.name.clone(), c.own, c.class, c.cgroup);
            let (ns, pids) = self.rivals.entry(key).or_default();
            *ns += c.ns as f64 * weight;
            if !pids.contains(&c.pid) {
                pids.push(c.pid);
            }
        }
        for (on, ns) in &l.blocked_on {
            *self.sleeps.entry(*on).or_default() += *ns as f64 * weight;
        }
        self.major_faults += u64::from(l.major_faults);
    }

    fn row(self, link: LinkKind, from_ns: u64, names: &dyn Names) -> LinkRow {
        let parts = Parts::from_array(self.parts.map(|p| p.round() as u64));
        let longest = self.actors.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let mut ran_instead: Vec<Rival> = self
            .rivals
            .into_iter()
            .map(|((name, own, class, group), (ns, mut pids))| {
                let more_pids = pids.len() > PIDS;
                pids.truncate(PIDS);
                Rival {
                    name,
                    pids,
                    more_pids,
                    own,
                    ns: ns.round() as u64,
                    sched: SchedClass::from(class),
                    cgroup: cgroup(group, names),
                }
            })
            .filter(|r| r.ns > 0)
            .collect();
        ran_instead.sort_by_key(|r| Reverse(r.ns));
        ran_instead.truncate(NAMED);
        let mut blocked_on: Vec<Sleep> = self
            .sleeps
            .into_iter()
            .map(|(on, ns)| sleep(on, ns.round() as u64))
            .filter(|s| s.ns > 0)
            .collect();
        blocked_on.sort_by_key(|s| Reverse(s.ns));
        blocked_on.truncate(NAMED);
        LinkRow {
            link,
            actor: longest.map_or_else(ActorRow::default, |(a, _)| actor(a, names)),
            from_ns,
            length_ns: parts.total_ns(),
            parts,
            ran_instead,
            blocked_on,
            major_faults: self.major_faults,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{Known, Population, ms, us};
    use super::*;

    fn summary(chains: impl IntoIterator<Item = Chain>) -> Summary {
        let mut summary = Summary::new(None);
        chains.into_iter().for_each(|c| summary.add(&c));
        summary
    }

    #[test]
    fn a_row_sums_to_its_chain() {
        let c = Population::quiet(4).next();
        let row = chain(&c, &Known);
        assert_eq!(row.length_ns, c.length_ns());
        assert_eq!(
            row.links.iter().map(|l| l.length_ns).sum::<u64>(),
            row.length_ns
        );
        for l in &row.links {
            assert_eq!(l.parts.total_ns(), l.length_ns, "{:?}", l.link);
        }
        assert_eq!(row.unix_ns, c.begin + 1_800_000_000_000_000_000);
    }

    #[test]
    fn the_slow_are_the_slowest_hundredth_and_the_typical_the_middle() {
        let mut population = Population::quiet(5);
        let chains = (0..2000).map(|i| {
            let mut c = population.next();
            if i % 100 == 0 {
                population.wait(&mut c, LinkKind::MasterRead, ms(12), &["rustc"]);
            }
            c
        });
        let rows = summary(chains).rows(&Known);
        let (slow, typical) = (rows.slow.unwrap(), rows.typical.unwrap());
        assert_eq!(slow.count, 20);
        assert!(slow.from_ns >= ms(12), "{slow:?}");
        assert!((900..=1100).contains(&typical.count), "{}", typical.count);
        assert!(typical.until_ns < ms(1));
        let read = |g: &Group| {
            let l = g.links.iter().find(|l| l.link == LinkKind::MasterRead);
            l.unwrap().parts.run_queue_ns
        };
        assert!(read(&slow) >= ms(11), "{}", read(&slow));
        assert!(read(&typical) < us(100), "{}", read(&typical));
        for g in [&slow, &typical] {
            assert_eq!(
                g.links.iter().map(|l| l.length_ns).sum::<u64>(),
                g.length_ns
            );
            let example: u64 = g.example.links.iter().map(|l| l.length_ns).sum();
            assert_eq!(example, g.example.length_ns);
            assert!((g.from_ns..=g.until_ns).contains(&g.example.length_ns));
        }
    }

    #[test]
    fn one_freeze_does_not_hide_the_other_slow_ones() {
        let mut population = Population::quiet(6);
        let chains = (0..2000).map(|i| {
            let mut c = population.next();
            match i {
                77 => population.block(&mut c, LinkKind::Child, BlockedOn::Unknown, ms(5000)),
                _ if i % 90 == 0 => {
                    population.wait(&mut c, LinkKind::MasterRead, ms(12), &["rustc"]);
                }
                _ => {}
            }
            c
        });
        let slow = summary(chains).rows(&Known).slow.unwrap();
        let longest = slow.links.iter().max_by_key(|l| l.length_ns).unwrap();
        assert_eq!(longest.link, LinkKind::MasterRead, "{slow:?}");
        assert!(
            slow.example.length_ns < ms(20),
            "{}",
            slow.example.length_ns
        );
        assert_eq!(slow.until_ns / ms(1000), 5);
    }

    #[test]
    fn few_and_none() {
        assert!(Summary::new(None).rows(&Known).slow.is_none());
        for n in 1..12 {
            let mut population = Population::quiet(7);
            let rows = summary((0..n).map(|_| population.next())).rows(&Known);
            let (slow, typical) = (rows.slow.unwrap(), rows.typical.unwrap());
            assert_eq!(slow.count, n.min(5));
            assert!(typical.count >= 1);
            assert!(slow.example.length_ns >= typical.example.length_ns || n < 10);
        }
    }
}
