//! From what was measured to the report.

use std::collections::{BTreeMap, BTreeSet};

use phux_perf::Snapshot;
use probe_ebpf::events;

use super::hops::Hops;
use super::processes::{Processes, relation};
use crate::probes::Probes;
use crate::report::agreement;
use crate::report::model::Cause;
use crate::report::model::{
    Backend, ChainRow, Cost, Culprit, CulpritKind, Dist, Echoes, End, Flush, HopRow, InProcess, Io,
    Loss, PlacementInfo, Process, PtyRow, Report, SCHEMA_VERSION, SchedClass, Target, ThreadRow,
    Verdict, Waker, Window,
};
use crate::report::verdict::verdict;
use crate::sched_class::{Placements, Since};
use crate::source::event::ShortBlame;
use crate::stats::{
    Blame, FlushStat, Holder, IoKey, IoStat, KernelState, PtyId, Side, ThreadStat, Wakers,
};
use crate::target::role::client_unit;

/// Culprits and wakers told by name in one row; the rest is summed.
const NAMED: usize = 10;

/// What is known of threads and cgroups besides their sums: of those that are looked at now, or of a recording.
pub(crate) trait Known {
    /// What a thread does.
    fn role(&self, thread: &ThreadStat) -> Option<String>;
    /// All that decides when it gets a CPU.
    fn placement(&mut self, thread: &ThreadStat) -> Option<PlacementInfo>;
    /// The same of the kworker that flushed a PTY last.
    fn flusher(&mut self, pty: PtyId, towards: Side) -> Option<PlacementInfo>;
    /// Path of a cgroup.
    fn cgroup(&mut self, id: u64) -> Option<String>;
}

/// As it is now.
pub(crate) struct Now<'a> {
    pub(crate) processes: &'a Processes,
    pub(crate) placements: &'a mut Placements,
    pub(crate) since: Since,
}

impl Known for Now<'_> {
    fn role(&self, t: &ThreadStat) -> Option<String> {
        self.processes.role(t.pid, &t.comm, t.pid == t.tid)
    }

    fn placement(&mut self, t: &ThreadStat) -> Option<PlacementInfo> {
        let place = self.placements.of_thread(t.tid)?;
        let living = (!t.exited).then_some(t.tid);
        Some(self.placements.info(&place, living, self.since))
    }

    fn flusher(&mut self, pty: PtyId, towards: Side) -> Option<PlacementInfo> {
        let place = self.placements.of_flusher(pty, towards)?;
        Some(self.placements.info(&place, None, self.since))
    }

    fn cgroup(&mut self, id: u64) -> Option<String> {
        self.placements.cgroup_name(id)
    }
}

/// Values of hops by process and probe, with the number of sites.
pub(crate) type HopSums = BTreeMap<(u32, String), (u32, Snapshot)>;

/// Everything that a report is made of.
pub(crate) struct Material<'a> {
    pub(crate) last: bool,
    pub(crate) window: Window,
    pub(crate) asked: &'a str,
    pub(crate) state: &'a KernelState,
    pub(crate) known: &'a mut dyn Known,
    pub(crate) processes: Vec<Process>,
    pub(crate) holders: &'a [Holder],
    pub(crate) hops: HopSums,
    pub(crate) backends: &'a [Backend],
    pub(crate) losses: Vec<Loss>,
    pub(crate) in_process: Vec<InProcess>,
    pub(crate) cost: Cost,
    pub(crate) echoes: Option<Echoes>,
    pub(crate) slow_echoes: Vec<ChainRow>,
    pub(crate) notes: Vec<String>,
}

/// The report, its verdict included.
pub(crate) fn report(m: Material<'_>) -> Report {
    let mut report = Report {
        schema_version: SCHEMA_VERSION,
        last: m.last,
        limited: None,
        window: m.window,
        verdict: Verdict {
            cause: Cause::NoData,
            sentence: String::new(),
            evidence: Vec::new(),
            advice: Vec::new(),
        },
        target: Target {
            asked: m.asked.to_owned(),
            processes: m.processes,
        },
        backends: m.backends.to_vec(),
        losses: m.losses,
        cost: m.cost,
        threads: threads(m.state, m.known),
        ptys: ptys(m.state, m.holders, m.known),
        hops: hop_rows(m.hops, &m.in_process),
        in_process: m.in_process,
        echoes: m.echoes,
        slow_echoes: m.slow_echoes,
        notes: m.notes,
    };
    if report.ptys.is_empty() {
        report.notes.push("the target holds no PTY".into());
    }
    agreement::mark(&mut report.in_process, &report.losses);
    report.verdict = verdict(&report);
    report
}

fn threads(state: &KernelState, known: &mut dyn Known) -> Vec<ThreadRow> {
    let traced = state.threads.values().chain(state.summed.values());
    traced
        .filter(|t| !t.is_quiet())
        .map(|t| thread(t, state.at_ns, known))
        .collect()
}

fn thread(t: &ThreadStat, now: u64, known: &mut dyn Known) -> ThreadRow {
    ThreadRow {
        pid: t.pid,
        tid: t.tid,
        comm: t.comm.clone(),
        role: known.role(t),
        relation: relation(t.relation),
        sched: SchedClass::from(t.sched),
        placement: known.placement(t),
        on_cpu_ns: t.on_cpu_ns,
        blocked_ns: t.blocked_ns,
        voluntary: t.voluntary,
        involuntary: t.involuntary,
        migrations: t.migrations,
        wait: Dist::from(&t.wait),
        account: None,
        waiting_ns: t.waiting_ns(now),
        ran_instead: culprits(&t.blame, known),
        wakers: wakers(&t.wakers),
        exited: t.exited,
        threads: t.threads.max(1),
    }
}

/// Most time first; what has no name, and the names beyond [`NAMED`], as rows of their own.
fn culprits(blame: &Blame, known: &mut dyn Known) -> Vec<Culprit> {
    let nameless = |kind, ns, slices| Culprit {
        kind,
        name: String::new(),
        pids: Vec::new(),
        more_pids: false,
        ns,
        slices,
        sched: None,
        cgroup: None,
    };
    let mut rows: Vec<Culprit> = blame
        .culprits
        .iter()
        .map(|c| Culprit {
            kind: CulpritKind::Task,
            name: c.name.clone(),
            pids: c.pids.clone(),
            more_pids: c.more_pids,
            ns: c.ns,
            slices: c.slices,
            sched: Some(SchedClass::from(c.sched)),
            cgroup: known.cgroup(c.cgroup),
        })
        .collect();
    rows.sort_by_key(|c| std::cmp::Reverse(c.ns));
    let beyond = rows.split_off(rows.len().min(NAMED));
    let (ns, slices) = beyond.iter().fold(
        (blame.unknown_ns + blame.other_ns, blame.other_slices),
        |(ns, n), c| (ns + c.ns, n + c.slices),
    );
    if blame.idle_ns != 0 {
        rows.push(nameless(CulpritKind::Idle, blame.idle_ns, 0));
    }
    if ns != 0 {
        rows.push(nameless(CulpritKind::Unknown, ns, slices));
    }
    rows.sort_by_key(|c| std::cmp::Reverse(c.ns));
    rows
}

/// The same of one single wait; there are no more than three names.
pub(super) fn short_culprits(blame: &ShortBlame, placements: &mut Placements) -> Vec<Culprit> {
    let nameless = |kind, ns| Culprit {
        kind,
        name: String::new(),
        pids: Vec::new(),
        more_pids: false,
        ns,
        slices: 0,
        sched: None,
        cgroup: None,
    };
    let named = blame.culprits.iter().map(|c| Culprit {
        kind: CulpritKind::Task,
        name: c.name.clone(),
        pids: vec![c.pid],
        more_pids: false,
        ns: c.ns,
        slices: 0,
        sched: Some(SchedClass::from(c.class)),
        cgroup: placements.cgroup_name(c.cgroup),
    });
    let rest = [
        nameless(CulpritKind::Idle, blame.idle_ns),
        nameless(CulpritKind::Unknown, blame.other_ns + blame.unknown_ns),
    ];
    named
        .chain(rest.into_iter().filter(|c| c.ns != 0))
        .collect()
}

fn wakers(w: &Wakers) -> Vec<Waker> {
    let mut rows: Vec<Waker> =
        w.by.iter()
            .map(|(name, count)| Waker {
                name: name.clone(),
                count: *count,
            })
            .collect();
    if w.interrupt != 0 {
        rows.push(Waker {
            name: "interrupt".into(),
            count: w.interrupt,
        });
    }
    if w.other != 0 {
        rows.push(Waker {
            name: "others".into(),
            count: w.other,
        });
    }
    rows.sort_by_key(|w| std::cmp::Reverse(w.count));
    rows
}

/// The devpts instance as stat(2) gives it, so that it joins with `phux-trace list --json`.
pub(super) fn devpts(pty: PtyId) -> u64 {
    libc::makedev(pty.devpts >> 20, pty.devpts & 0xf_ffff)
}

fn ptys(state: &KernelState, holders: &[Holder], known: &mut dyn Known) -> Vec<PtyRow> {
    let mut ids: BTreeSet<PtyId> = state.io.keys().map(|k| k.pty).collect();
    ids.extend(state.flush.keys().map(|(pty, _)| *pty));
    ids.extend(holders.iter().map(|h| h.pty));
    let ends = |pty, side| {
        let here = holders
            .iter()
            .filter(move |h| h.pty == pty && h.side == side);
        let mut ends: Vec<End> = here
            .map(|h| End {
                pid: h.pid,
                name: h.name.clone(),
            })
            .collect();
        if ends.is_empty() {
            ends = users(state, pty, side);
        }
        ends
    };
    let io = |pty, side, write| match state.io.get(&IoKey { pty, side, write }) {
        Some(stat) => io(stat),
        None => io(&IoStat::default()),
    };
    let mut flush = |pty, side| {
        let empty = FlushStat::default();
        let stat = state.flush.get(&(pty, side)).unwrap_or(&empty);
        Flush {
            placement: known.flusher(pty, side),
            ..flush(stat, known)
        }
    };
    ids.into_iter()
        .map(|pty| PtyRow {
            index: pty.index,
            devpts: devpts(pty),
            master: ends(pty, Side::Master),
            slave: ends(pty, Side::Slave),
            master_reads: io(pty, Side::Master, false),
            master_writes: io(pty, Side::Master, true),
            slave_reads: io(pty, Side::Slave, false),
            slave_writes: io(pty, Side::Slave, true),
            flush_output: flush(pty, Side::Master),
            flush_input: flush(pty, Side::Slave),
        })
        .collect()
}

/// Who read or wrote at an end that nobody was seen to hold: a PTY can come and go between two looks.
fn users(state: &KernelState, pty: PtyId, side: Side) -> Vec<End> {
    let mut users: Vec<End> = [false, true]
        .into_iter()
        .filter_map(|write| state.io.get(&IoKey { pty, side, write }))
        .filter(|io| io.pid != 0)
        .map(|io| End {
            pid: io.pid,
            name: io.name.clone(),
        })
        .collect();
    users.dedup();
    users
}

fn io(stat: &IoStat) -> Io {
    Io {
        size: Dist::from(&stat.size),
        duration: Dist::from(&stat.duration),
        empty: stat.empty,
    }
}

fn flush(stat: &FlushStat, known: &mut dyn Known) -> Flush {
    Flush {
        wait: Dist::from(&stat.wait),
        run: Dist::from(&stat.run),
        reader_wait: Dist::from(&stat.reader_wait),
        queued_by: wakers(&stat.queued_by),
        ran_instead: culprits(&stat.blame, known),
        placement: None,
    }
}

/// A metric recorded in several places of the program can have several attached files (a server and a library).
pub(crate) fn hop_sums(state: &KernelState, hops: &Hops) -> HopSums {
    let mut sums = HopSums::new();
    for ((pid, id), values) in &state.hops {
        let Some(hop) = hops.get(*id) else { continue };
        let sum = sums.entry((*pid, hop.probe.clone())).or_default();
        sum.0 += hop.sites;
        sum.1.merge(values);
    }
    sums
}

fn hop_rows(sums: HopSums, inside: &[InProcess]) -> Vec<HopRow> {
    // A probe carries no unit: the process tells it, if it can be asked.
    let unit = |pid, metric: &str| {
        let process = inside.iter().find(|p| p.pid == pid);
        let row = process.and_then(|p| p.rows.iter().find(|r| r.metric == metric));
        row.map(|r| r.unit.clone())
            .or_else(|| client_unit(metric).map(String::from))
    };
    sums.into_iter()
        .map(|((pid, probe), (sites, values))| HopRow {
            pid,
            unit: unit(pid, &probe.replace("__", ".")),
            metric: probe.replace("__", "."),
            probe,
            sites,
            value: Dist::from(&values),
        })
        .collect()
}

/// What each class of losses means for the figures.
///
/// With a live view `calls` are the records that its pipeline did not understand, and the calls whose file has no name.
pub(super) fn losses(state: &KernelState, calls: Option<[u64; 2]>) -> Vec<Loss> {
    const CLASSES: [(u32, &str, &str); 7] = [
        (
            events::LOSS_RING_FULL,
            "ring_full",
            "events of forks, execs, echoes or --events are missing; no figure of a thread, PTY or hop is",
        ),
        (
            events::LOSS_EXIT_RING,
            "exit_ring",
            "threads that ended are missing from the thread table",
        ),
        (
            events::LOSS_THREAD_STATE,
            "thread_state",
            "threads were not traced: no memory for their state",
        ),
        (
            events::LOSS_PTY_TABLE,
            "pty_table",
            "PTY reads, writes or flushes are missing: table full",
        ),
        (
            events::LOSS_HOP_TABLE,
            "hop_table",
            "hops are missing: table full",
        ),
        (
            events::LOSS_CLOCK_BACK,
            "clock_back",
            "times counted as 0: two CPUs' clocks disagreed",
        ),
        (
            events::LOSS_HOP_ARG,
            "hop_arg",
            "hops are missing: their argument could not be read",
        ),
    ];
    let mut rows: Vec<Loss> = CLASSES
        .iter()
        .filter_map(|(class, name, meaning)| {
            let count = *state.losses.get(class)?;
            (count != 0).then(|| Loss {
                class: (*name).into(),
                count,
                meaning: (*meaning).into(),
            })
        })
        .collect();
    if state.missed != 0 {
        rows.push(Loss {
            class: "missed".into(),
            count: state.missed,
            meaning: "times a program could not run; some of them concern the target".into(),
        });
    }
    let [not_understood, unnamed] = calls.unwrap_or_default();
    if calls.is_some() {
        let of_calls = Probes::call_losses();
        // What was under way when tracing began began before it.
        let of_calls = of_calls
            .iter()
            .filter(|(class, _, _)| *class != events::LOSS_CALL_START);
        rows.extend(of_calls.filter_map(|(class, name, meaning)| {
            let count = *state.losses.get(class)?;
            (count != 0).then(|| Loss {
                class: (*name).into(),
                count,
                meaning: (*meaning).into(),
            })
        }));
    }
    if unnamed != 0 {
        rows.push(Loss {
            class: "unnamed".into(),
            count: unnamed,
            meaning: "calls whose file has no name: the record that told it was lost".into(),
        });
    }
    let undecodable = state.undecodable + not_understood;
    if undecodable != 0 {
        rows.push(Loss {
            class: "undecodable".into(),
            count: undecodable,
            meaning: "records that phux-trace did not understand".into(),
        });
    }
    rows
}
