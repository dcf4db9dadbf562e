//! Who looks on: keeps the figures behind each filter, and answers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::rows::rows;
use super::{Filter, Gaps, Look, Seen, Sums};
use crate::syscalls::stats::{Level, Metric, Node, Stats};
use crate::syscalls::table::table;
use crate::syscalls::{Call, Consumer};

/// Answers are not made more often: four frames a second, and a timer that is a little early.
const OFTEN: Duration = Duration::from_millis(240);
/// What took so long to make is not made again for so many times as long: it costs at most 2 % of a
/// core, however much there is to sort.
const REST: u32 = 50;

/// Figures of the calls that pass a filter and those below it.
#[derive(Debug)]
struct Narrowed {
    filter: Filter,
    stats: Stats,
}

/// One who looks on. The figures without any filter are somebody else's, and lent.
#[derive(Debug)]
pub struct Watch {
    narrowed: Vec<Narrowed>,
    look: Look,
    /// Calls of the figures that were looked at when the last answer was given.
    told: u64,
    anew: bool,
    due: Instant,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            narrowed: Vec::new(),
            look: Look::default(),
            told: 0,
            anew: true,
            due: Instant::now(),
        }
    }
}

impl Consumer for Watch {
    fn calls(&mut self, calls: &[Call]) {
        if self.narrowed.is_empty() {
            return;
        }
        for call in calls {
            for n in &mut self.narrowed {
                if !n.filter.passes(call) {
                    break;
                }
                n.stats.add(call);
            }
        }
    }
}

impl Watch {
    /// Something else is looked at; it is made at once.
    pub fn look(&mut self, look: Look) {
        self.look = look;
        self.due = Instant::now();
    }

    /// These filters now, the last one on top. One that is new looks back over the last calls that
    /// its predecessor has, and counts from there on.
    pub fn filters(&mut self, filters: &[Filter], all: &Stats) {
        let same = self.narrowed.iter().zip(filters);
        let same = same.take_while(|(n, f)| n.filter == **f).count();
        self.narrowed.truncate(same);
        for filter in filters.iter().skip(same) {
            let before = self.narrowed.last().map_or(all, |n| &n.stats);
            let mut stats = Stats::default();
            let passing = before.recent.iter().filter(|c| filter.passes(c));
            passing.for_each(|call| stats.add(call));
            let filter = filter.clone();
            self.narrowed.push(Narrowed { filter, stats });
        }
        self.anew();
    }

    /// All count from here.
    pub fn reset(&mut self) {
        for n in &mut self.narrowed {
            n.stats = Stats::default();
        }
        self.anew();
    }

    /// The last answer did not arrive: the next one has all of it.
    pub fn not_taken(&mut self) {
        self.anew = true;
    }

    fn anew(&mut self) {
        self.anew = true;
        self.due = Instant::now();
    }

    /// The answer, when it is time for one.
    pub fn seen(&mut self, all: &Stats, unix_offset_ns: i128) -> Option<Seen> {
        let began = Instant::now();
        if began < self.due || self.look.held {
            return None;
        }
        let stats = self.narrowed.last().map_or(all, |n| &n.stats);
        let count = stats.total.count();
        // What the kernel summed up itself is counted and not among them.
        let new = if self.anew {
            count
        } else {
            count.saturating_sub(self.told)
        };
        let new = usize::try_from(new)
            .unwrap_or(usize::MAX)
            .min(stats.recent.len());
        let recent = match self.look.recent {
            true => stats.recent.last(new).cloned().collect(),
            false => Vec::new(),
        };
        let seen = Seen {
            sums: sums(stats),
            rows: self
                .look
                .rows
                .map(|(kind, by)| (kind, rows(stats, kind, by))),
            tree: self
                .look
                .tree
                .map(|(metric, order)| tree(stats, metric, order)),
            series: self.look.series.then(|| series(stats)),
            recent,
            anew: self.anew,
            unix_offset_ns,
        };
        if self.look.recent {
            (self.told, self.anew) = (count, false);
        }
        let ended = Instant::now();
        self.due = began + OFTEN.max(REST * ended.saturating_duration_since(began));
        Some(seen)
    }
}

fn sums(stats: &Stats) -> Sums {
    let t = &stats.total;
    let seconds: Vec<u64> = stats
        .rates
        .seconds()
        .map(|(_, families)| families.iter().map(|r| r.count).sum())
        .collect();
    // The newest has not ended.
    let per_second = seconds.iter().rev().nth(1).copied().unwrap_or(0);
    Sums {
        count: t.count(),
        errors: t.errors,
        bytes: t.bytes,
        time_ns: t.time_ns(),
        wait_ns: t.wait_ns,
        blocked_ns: t.blocked_ns,
        per_second,
    }
}

/// Processes of one name are one node: a shell starts a thousand that live for a moment.
fn tree(stats: &Stats, metric: Metric, order: [Level; 3]) -> Node {
    let mut of_name: HashMap<&str, usize> = HashMap::new();
    for name in stats.process_names.values() {
        *of_name.entry(name).or_default() += 1;
    }
    let label = |pid: u32| {
        let name = stats.process_name(pid);
        match of_name.get(name) {
            Some(n @ 2..) => format!("{name} ×{n}"),
            _ => format!("{name}({pid})"),
        }
    };
    stats.leaves.tree(&order, metric, label)
}

fn series(stats: &Stats) -> (Vec<(&'static str, phux_perf::Snapshot)>, Gaps) {
    let of = |(nr, f): (&u32, &crate::syscalls::stats::Figures)| {
        (table().get(*nr).name, f.duration.clone())
    };
    let gaps = Gaps {
        length: stats.gaps.clone(),
        off_cpu_ns: stats.gap_off_ns,
    };
    (stats.syscalls.iter().map(of).collect(), gaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::stats::tests::call;
    use crate::syscalls::view::{Kind, Measure};

    fn seen(watch: &mut Watch, all: &Stats) -> Seen {
        watch.due = Instant::now();
        watch.seen(all, 0).expect("an answer")
    }

    #[test]
    fn filters_are_pushed_and_popped_and_count_on() {
        let (mut watch, mut all) = (Watch::default(), Stats::default());
        watch.look(Look {
            recent: true,
            rows: Some((Kind::Processes, Measure::Count)),
            ..Look::default()
        });
        let give = |watch: &mut Watch, all: &mut Stats, pid, nr| {
            let calls = [call(pid, None, nr, 1000, 10)];
            all.calls(&calls);
            watch.calls(&calls);
        };
        for pid in [1, 1, 2] {
            give(&mut watch, &mut all, pid, 0);
        }
        let first = seen(&mut watch, &all);
        assert_eq!(
            (first.sums.count, first.recent.len(), first.anew),
            (3, 3, true)
        );
        let one = Filter::Process(1, "x".into());
        watch.filters(std::slice::from_ref(&one), &all);
        let narrow = seen(&mut watch, &all);
        assert_eq!(
            (narrow.sums.count, narrow.recent.len(), narrow.anew),
            (2, 2, true)
        );
        give(&mut watch, &mut all, 1, 1);
        give(&mut watch, &mut all, 2, 1);
        let next = seen(&mut watch, &all);
        assert_eq!(
            (next.sums.count, next.recent.len(), next.anew),
            (3, 1, false)
        );
        watch.filters(&[one.clone(), Filter::Syscall(1)], &all);
        assert_eq!(seen(&mut watch, &all).sums.count, 1);
        watch.filters(std::slice::from_ref(&one), &all);
        assert_eq!(seen(&mut watch, &all).sums.count, 3, "it counted on below");
        watch.filters(&[], &all);
        let back = seen(&mut watch, &all);
        assert_eq!((back.sums.count, back.recent.len()), (5, 5));
        assert_eq!(back.rows.map(|(_, rows)| rows.len()), Some(2));
    }

    #[test]
    fn processes_of_one_name_are_one_node() {
        let (mut names, mut all) = (crate::syscalls::Names::default(), Stats::default());
        for pid in 1..=4 {
            let mut c = call(pid, None, 0, 1000, 10);
            c.process = names.get(if pid == 1 { "bash" } else { "dd" });
            all.calls(&[c]);
        }
        let order = [Level::Process, Level::Path, Level::Syscall];
        let tree = tree(&all, Metric::Count, order);
        let nodes: Vec<_> = tree
            .below
            .iter()
            .map(|(n, node)| (n.as_str(), node.size))
            .collect();
        assert_eq!(nodes, [("bash(1)", 1), ("dd ×3", 3)]);
    }

    #[test]
    fn an_answer_comes_when_it_is_due_and_not_while_it_is_held() {
        let (mut watch, all) = (Watch::default(), Stats::default());
        assert!(watch.seen(&all, 0).is_some());
        assert!(watch.seen(&all, 0).is_none(), "a quarter of a second later");
        watch.look(Look::default());
        assert!(watch.seen(&all, 0).is_some(), "at once");
        watch.look(Look {
            held: true,
            ..Look::default()
        });
        assert!(watch.seen(&all, 0).is_none());
    }
}
