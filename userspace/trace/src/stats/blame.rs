//! Who ran instead, and who woke.

use probe_ebpf::events;

use super::{SchedClass, comm};

/// Who had the CPU that was waited for. All parts sum to the waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blame {
    /// By name, unordered.
    pub culprits: Vec<Culprit>,
    /// The CPU was idle and on its way out of it.
    pub idle_ns: u64,
    /// Names that found no room.
    pub other_ns: u64,
    /// Their slices.
    pub other_slices: u64,
    /// Older than the kernel side's record of slices.
    pub unknown_ns: u64,
}

/// One name that had the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culprit {
    /// Process name; of the victim's own process the thread's.
    pub name: String,
    /// Of the victim's own process: `pids` are threads.
    pub own: bool,
    /// Some of its pids.
    pub pids: Vec<u32>,
    /// There were more.
    pub more_pids: bool,
    /// Time on the CPU meanwhile.
    pub ns: u64,
    /// In how many slices.
    pub slices: u64,
    /// Scheduling class when last seen.
    pub sched: SchedClass,
    /// Its cgroup then; 0: not known.
    pub cgroup: u64,
}

impl From<&events::blame> for Blame {
    fn from(b: &events::blame) -> Self {
        Blame {
            culprits: b
                .culprits
                .iter()
                .filter(|c| c.slices != 0)
                .map(|c| Culprit {
                    name: comm(&c.comm),
                    own: c.own != 0,
                    pids: c.pids.iter().copied().filter(|p| *p != 0).collect(),
                    more_pids: c.more_pids != 0,
                    ns: c.ns,
                    slices: c.slices,
                    sched: SchedClass::from(&c.sched),
                    cgroup: c.cgroup,
                })
                .collect(),
            idle_ns: b.idle_ns,
            other_ns: b.other_ns,
            other_slices: b.other_slices,
            unknown_ns: b.unknown_ns,
        }
    }
}

impl Blame {
    /// All parts together: what was waited.
    pub fn total_ns(&self) -> u64 {
        let named: u64 = self.culprits.iter().map(|c| c.ns).sum();
        named + self.idle_ns + self.other_ns + self.unknown_ns
    }

    /// Adds another thread's.
    pub fn merge(&mut self, more: &Blame) {
        for c in &more.culprits {
            match self
                .culprits
                .iter_mut()
                .find(|d| d.own == c.own && d.name == c.name)
            {
                Some(d) => {
                    d.ns += c.ns;
                    d.slices += c.slices;
                    d.more_pids |= c.more_pids;
                    for pid in &c.pids {
                        if d.pids.contains(pid) {
                        } else if d.pids.len() < events::CULPRIT_PIDS as usize {
                            d.pids.push(*pid);
                        } else {
                            d.more_pids = true;
                        }
                    }
                }
                None => self.culprits.push(c.clone()),
            }
        }
        self.idle_ns += more.idle_ns;
        self.other_ns += more.other_ns;
        self.other_slices += more.other_slices;
        self.unknown_ns += more.unknown_ns;
    }

    /// What came since; all parts still sum to the waits. A name that lost its place in the kernel's table
    /// meanwhile and came back shows what it has now, and what it had before is in `other_ns`.
    pub fn since(&self, earlier: &Blame) -> Blame {
        let mut now = self.clone();
        now.idle_ns = now.idle_ns.saturating_sub(earlier.idle_ns);
        now.unknown_ns = now.unknown_ns.saturating_sub(earlier.unknown_ns);
        // Of what was waited since, as much as is not told yet.
        let waited = self.total_ns().saturating_sub(earlier.total_ns());
        let mut left = waited.saturating_sub(now.idle_ns + now.unknown_ns);
        let mut slices_left = self.slices().saturating_sub(earlier.slices());
        let mut came_back = Vec::new();
        for (i, c) in now.culprits.iter_mut().enumerate() {
            let before = earlier
                .culprits
                .iter()
                .find(|e| e.own == c.own && e.name == c.name);
            match before {
                Some(e) if e.ns > c.ns || e.slices > c.slices => {
                    came_back.push(i);
                    continue;
                }
                Some(e) => {
                    c.ns -= e.ns;
                    c.slices -= e.slices;
                }
                None => {}
            }
            left = left.saturating_sub(c.ns);
            slices_left = slices_left.saturating_sub(c.slices);
        }
        for i in came_back {
            let Some(c) = now.culprits.get_mut(i) else {
                continue;
            };
            // Where it did not begin from nothing, no more than that can be its.
            (c.ns, c.slices) = (c.ns.min(left), c.slices.min(slices_left));
            (left, slices_left) = (left - c.ns, slices_left - c.slices);
        }
        now.culprits.retain(|c| (c.ns, c.slices) != (0, 0));
        // Not by its own growth: it has also what names that lost their place had before, told as theirs.
        (now.other_ns, now.other_slices) = (left, slices_left);
        now
    }

    fn slices(&self) -> u64 {
        let named: u64 = self.culprits.iter().map(|c| c.slices).sum();
        named + self.other_slices
    }
}

/// Who woke a thread, or queued work, by process name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wakers {
    /// Name and count, unordered.
    pub by: Vec<(String, u64)>,
    /// From an interrupt: no task caused it.
    pub interrupt: u64,
    /// Names that found no room.
    pub other: u64,
}

impl From<&events::wakers> for Wakers {
    fn from(w: &events::wakers) -> Self {
        Wakers {
            by: w
                .by
                .iter()
                .filter(|b| b.count != 0)
                .map(|b| (comm(&b.comm), b.count))
                .collect(),
            interrupt: w.interrupt,
            other: w.other,
        }
    }
}

impl Wakers {
    /// Adds another thread's.
    pub fn merge(&mut self, more: &Wakers) {
        for (name, n) in &more.by {
            match self.by.iter_mut().find(|(have, _)| have == name) {
                Some((_, count)) => *count += n,
                None => self.by.push((name.clone(), *n)),
            }
        }
        self.interrupt += more.interrupt;
        self.other += more.other;
    }

    /// What came since.
    pub fn since(&self, earlier: &Wakers) -> Wakers {
        let mut now = self.clone();
        for (name, n) in &mut now.by {
            let before = earlier
                .by
                .iter()
                .find(|(e, _)| e == name)
                .map_or(0, |(_, n)| *n);
            *n = n.saturating_sub(before);
        }
        now.by.retain(|(_, n)| *n != 0);
        now.interrupt = now.interrupt.saturating_sub(earlier.interrupt);
        let all = self.named() + self.other;
        let since = all.saturating_sub(earlier.named() + earlier.other);
        now.other = since.saturating_sub(now.named());
        now
    }

    fn named(&self) -> u64 {
        self.by.iter().map(|(_, n)| n).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn culprit(name: &str, ns: u64) -> Culprit {
        Culprit {
            name: name.into(),
            own: false,
            pids: vec![1],
            more_pids: false,
            ns,
            slices: 1,
            sched: SchedClass::default(),
            cgroup: 0,
        }
    }

    #[test]
    fn an_interval_sums_up_though_names_lost_their_places_in_it() {
        let then = Blame {
            culprits: vec![
                culprit("gone", 100),
                culprit("back", 50),
                culprit("stays", 7),
            ],
            other_ns: 5,
            other_slices: 1,
            ..Blame::default()
        };
        // `gone` and `back` gave up their places: theirs is among the others, and `back` came again.
        let now = Blame {
            culprits: vec![culprit("back", 20), culprit("stays", 7), culprit("new", 1)],
            other_ns: 5 + 100 + 50 + 3,
            other_slices: 4,
            idle_ns: 9,
            ..Blame::default()
        };
        let since = now.since(&then);
        assert_eq!(since.total_ns(), now.total_ns() - then.total_ns());
        assert_eq!((since.other_ns, since.idle_ns), (3, 9));
        let named: Vec<_> = since.culprits.iter().map(|c| (&*c.name, c.ns)).collect();
        assert_eq!(named, [("back", 20), ("new", 1)]);
        let by = |n: &[(&str, u64)], other| Wakers {
            by: n.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect(),
            interrupt: 0,
            other,
        };
        let since = by(&[("b", 2)], 12).since(&by(&[("a", 10), ("b", 1)], 0));
        assert_eq!(since, by(&[("b", 1)], 2));
    }
}
