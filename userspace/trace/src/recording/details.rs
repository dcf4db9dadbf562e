//! What a report tells that is in no table of rows: column `details` of table `run`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::attach::assemble::{HopSums, Known};
use crate::attach::inside::Looked;
use crate::report::model::{Cost, PlacementInfo, Process};
use crate::stats::{Holder, KernelState, PtyId, Side};

/// A PTY and an end of it: devpts, number, whether it is the master's.
type End = (u32, u32, bool);

/// All of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// Who was traced.
    pub processes: Vec<Process>,
    /// Who held which end: process, its `REL_*`, its name.
    pub ends: Vec<(End, u32, u32, String)>,
    /// Placements that somebody has.
    pub places: Vec<PlacementInfo>,
    /// Which of them a thread has.
    pub threads: HashMap<u32, usize>,
    /// Which of them the kworker had that flushed a PTY last.
    pub flushers: Vec<(End, usize)>,
    /// How many sites a probe has in a process.
    pub sites: Vec<(u32, String, u32)>,
    /// What processes that keep histograms call themselves, and why some could not be asked.
    pub inside: Vec<(u32, String, Option<String>)>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
    /// What the looking cost.
    pub cost: Cost,
}

fn end(pty: PtyId, side: Side) -> End {
    (pty.devpts, pty.index, side == Side::Master)
}

fn pty((devpts, index, _): End) -> PtyId {
    PtyId { devpts, index }
}

fn side((_, _, master): End) -> Side {
    if master { Side::Master } else { Side::Slave }
}

impl Details {
    /// Of a run that ends.
    pub(crate) fn of(
        state: &KernelState,
        known: &mut dyn Known,
        holders: &[Holder],
        hops: &HopSums,
        looked: &[Looked],
    ) -> Details {
        let mut all = Details::default();
        let all_threads = state.threads.values().chain(state.summed.values());
        for thread in all_threads.filter(|t| !t.is_quiet()) {
            if let Some(info) = known.placement(thread) {
                let place = all.place(info);
                all.threads.insert(thread.tid, place);
            }
        }
        for (pty, side) in state.flush.keys() {
            if let Some(info) = known.flusher(*pty, *side) {
                let place = all.place(info);
                all.flushers.push((end(*pty, *side), place));
            }
        }
        let ends = holders.iter();
        let ends = ends.map(|h| (end(h.pty, h.side), h.pid, h.relation, h.name.clone()));
        all.ends = ends.collect();
        let sites = hops.iter();
        let sites = sites.map(|((pid, probe), (sites, _))| (*pid, probe.clone(), *sites));
        all.sites = sites.collect();
        let inside = looked.iter();
        let inside = inside.map(|l| (l.pid, l.role.clone(), l.missing.clone()));
        all.inside = inside.collect();
        all
    }

    /// Threads of one cgroup mostly share theirs.
    fn place(&mut self, info: PlacementInfo) -> usize {
        match self.places.iter().position(|p| *p == info) {
            Some(place) => place,
            None => {
                self.places.push(info);
                self.places.len() - 1
            }
        }
    }

    /// The placement of a thread.
    pub fn placement(&self, tid: u32) -> Option<PlacementInfo> {
        self.places.get(*self.threads.get(&tid)?).cloned()
    }

    /// The placement of who flushed a PTY last.
    pub fn flusher(&self, pty: PtyId, towards: Side) -> Option<PlacementInfo> {
        let wanted = end(pty, towards);
        let mut all = self.flushers.iter();
        let (_, place) = all.find(|(at, _)| *at == wanted)?;
        self.places.get(*place).cloned()
    }

    /// Who held which end.
    pub fn holders(&self) -> Vec<Holder> {
        let holder = |(at, pid, relation, name): &(End, u32, u32, String)| Holder {
            pty: pty(*at),
            side: side(*at),
            pid: *pid,
            relation: *relation,
            name: name.clone(),
        };
        self.ends.iter().map(holder).collect()
    }
}
