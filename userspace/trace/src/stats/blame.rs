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

    /// What came since. A name that lost its place in the kernel's table meanwhile and came back shows what it has now.
    pub fn since(&self, earlier: &Blame) -> Blame {
        let mut now = self.clone();
        for c in &mut now.culprits {
            let Some(e) = earlier
                .culprits
                .iter()
                .find(|e| e.own == c.own && e.name == c.name)
            else {
                continue;
            };
            if e.ns <= c.ns && e.slices <= c.slices {
                c.ns -= e.ns;
                c.slices -= e.slices;
            }
        }
        now.culprits.retain(|c| c.slices != 0);
        now.idle_ns = now.idle_ns.saturating_sub(earlier.idle_ns);
        now.other_ns = now.other_ns.saturating_sub(earlier.other_ns);
        now.other_slices = now.other_slices.saturating_sub(earlier.other_slices);
        now.unknown_ns = now.unknown_ns.saturating_sub(earlier.unknown_ns);
        now
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
        now.other = now.other.saturating_sub(earlier.other);
        now
    }
}
