//! The report of a recording, made live at its end or of its replay.

use phux_recording::Run;

use super::analysis::Analysis;
use super::details::Details;
use crate::attach::assemble::{self, HopSums, Known, Material};
use crate::attach::inside::Looked;
use crate::attach::processes::relation;
use crate::echo::Names as _;
use crate::report::model::{Loss, PlacementInfo, Process, Relation, Report, Window};
use crate::stats::{KernelState, PtyId, Side, ThreadStat};

/// As it was recorded.
struct Recorded<'a> {
    analysis: &'a Analysis,
    details: &'a Details,
}

impl Known for Recorded<'_> {
    fn role(&self, thread: &ThreadStat) -> Option<String> {
        self.analysis.sums.role(thread)
    }

    fn placement(&mut self, thread: &ThreadStat) -> Option<PlacementInfo> {
        self.details.placement(thread.tid)
    }

    fn flusher(&mut self, pty: PtyId, towards: Side) -> Option<PlacementInfo> {
        self.details.flusher(pty, towards)
    }

    fn cgroup(&mut self, id: u64) -> Option<String> {
        self.analysis.known.cgroup(id).map(|c| c.path)
    }
}

/// What `attach` says of such a run: echoes, threads, PTYs, hops, the processes' own histograms, losses, verdict.
/// `end_ns` counts where the recording does not say when it ended.
pub fn report(run: &Run, analysis: &Analysis, losses: Vec<Loss>, end_ns: u64) -> Report {
    let details: Details = serde_json::from_str(&run.details).unwrap_or_default();
    let mut state = analysis.sums.state().clone();
    for (key, io) in &mut state.io {
        io.name = name_of(io.pid, key.pty, key.side, &details, analysis);
    }
    let sites = |pid: u32, probe: &str| {
        let mut all = details.sites.iter();
        let found = all.find(|(p, name, _)| *p == pid && name == probe);
        found.map_or(0, |(_, _, sites)| *sites)
    };
    let hops = analysis.sums.hops().iter();
    let hops: HopSums = hops
        .map(|(key, values)| (key.clone(), (sites(key.0, &key.1), values.clone())))
        .collect();
    let mut notes = details.notes.clone();
    if &*run.outcome != "finished" {
        notes.push(format!("how the recording ended: {}", run.outcome));
    }
    let processes = if details.processes.is_empty() {
        seen(&state)
    } else {
        details.processes.clone()
    };
    let material = Material {
        last: true,
        window: Window {
            start_unix_ms: run.unix_ns / 1_000_000,
            duration_ns: run.end.unwrap_or(end_ns).saturating_sub(run.ts),
            host: run.hostname.to_string(),
            kernel: run.kernel.to_string(),
            cpus: run.cpus,
        },
        asked: &run.target,
        state: &state,
        processes,
        holders: &details.holders(),
        hops,
        backends: &serde_json::from_str::<Vec<_>>(&run.backends).unwrap_or_default(),
        losses,
        in_process: looked(analysis, &details).iter().map(Looked::row).collect(),
        cost: details.cost.clone(),
        echoes: Some(analysis.echoes()),
        slow_echoes: analysis.slow(),
        notes,
        known: &mut Recorded {
            analysis,
            details: &details,
        },
    };
    assemble::report(material)
}

/// What the process is called that used an end of a PTY.
fn name_of(pid: u32, pty: PtyId, side: Side, details: &Details, analysis: &Analysis) -> String {
    let mut holders = details.holders().into_iter();
    let holder = holders.find(|h| h.pid == pid && h.pty == pty && h.side == side);
    holder.map_or_else(|| analysis.known.thread(pid, pid), |h| h.name)
}

/// The processes of a recording that was killed: those of its threads.
fn seen(state: &KernelState) -> Vec<Process> {
    let leaders = state.threads.values().filter(|t| t.pid == t.tid);
    let mut processes: Vec<Process> = leaders
        .map(|t| Process {
            pid: t.pid,
            name: t.comm.clone(),
            user: String::new(),
            relation: relation(t.relation),
            ended: None,
        })
        .collect();
    processes.sort_by_key(|p| (p.relation != Relation::Target, p.pid));
    processes
}

/// Both views of each process that keeps histograms, those that could not be asked among them.
fn looked(analysis: &Analysis, details: &Details) -> Vec<Looked> {
    let mut all = analysis.sums.looked();
    for (pid, role, missing) in &details.inside {
        match all.iter_mut().find(|l| l.pid == *pid) {
            Some(known) => {
                known.role.clone_from(role);
                known.missing.clone_from(missing);
            }
            None => all.push(Looked {
                pid: *pid,
                role: role.clone(),
                missing: missing.clone(),
                ..Looked::default()
            }),
        }
    }
    all.sort_by_key(|l| l.pid);
    all
}
