//! With `-o`: everything else that is recorded besides system calls, and where to.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use phux_recording::{Mode, Options, Ring};

use crate::attach::assemble::{Now, hop_sums};
use crate::attach::clients::Clients;
use crate::attach::cost::{daemon_cpu_ns, rss_bytes};
use crate::attach::ends::Ends;
use crate::attach::hops::Hops;
use crate::attach::inside::{self, Inside, Looked, Patience};
use crate::attach::processes::Processes;
use crate::attach::window::Start;
use crate::cli::RecordArgs;
use crate::privileges::Files;
use crate::probes::Probes;
use crate::recording::describe;
use crate::recording::details::Details;
use crate::recording::report;
use crate::recording::sink::Sink;
use crate::report::json::write_ndjson;
use crate::report::model::{Backend, Cost, Loss, Relation};
use crate::report::units::count;
use crate::say;
use crate::sched_class::{Placements, Since};
use crate::source::held::SETTLED_NS;
use crate::source::live::{self, monotonic_ns};
use crate::source::{Event, Live};
use crate::stats::{Ended, Holder, KernelState, ThreadStat};
use crate::target::{Survey, Target, proc};

/// What a run with `-o` has besides.
pub(super) struct Whole {
    pub(super) sink: Sink,
    pub(super) hops: Hops,
    clients: Clients,
    ended: Ended,
    ends: Ends,
    placements: Placements,
    /// Servers that keep histograms of their own, or why one does not.
    inside: Vec<(u32, Result<Inside, String>)>,
    looked: Vec<Looked>,
    notes: Vec<String>,
    /// As told last.
    drained_ns: u64,
    began_ns: u64,
    /// CPU time of phux-trace before.
    cpu_ns: u64,
    /// When the kernel's sums are read next, ns.
    sums_at_ns: u64,
    dir: String,
}

/// How often the kernel's sums are read: `kill -9` loses those since.
const SUMS_NS: u64 = 1_000_000_000;
/// And so many times as long as the reading took: of ten thousand threads it takes a while.
const SUMS_SHARE: u64 = 50;

impl Whole {
    pub(super) fn begin(
        dir: &Path,
        owner: Files,
        args: &RecordArgs,
        target: &Target,
        backends: &[Backend],
    ) -> Result<Whole> {
        let start = Start::now();
        let options = serde_json::json!({
            "families": args.families,
            "syscall": args.syscall,
            "aggregate": args.aggregate,
            "comm": args.comm,
            "tid": args.tid,
            "cgroup": args.cgroup,
            "duration_ns": args.duration.map(|d| d.as_nanos() as u64),
            "ring_ns": args.ring.map(|d| d.as_nanos() as u64),
        });
        let run = describe(start, &target.asked, &options, backends)?;
        let options = Options {
            mode: Mode::Block,
            ring: args.ring.map(Ring::of),
            ..Options::default()
        };
        Ok(Whole {
            sink: Sink::create(dir, owner, run, options, &args.on)?,
            hops: Hops::default(),
            clients: Clients::default(),
            ended: Ended::default(),
            ends: Ends::default(),
            placements: Placements::of_host(),
            inside: Vec::new(),
            looked: Vec::new(),
            notes: target.notes.clone(),
            drained_ns: 0,
            began_ns: start.monotonic_ns,
            cpu_ns: daemon_cpu_ns(),
            sums_at_ns: start.monotonic_ns + SUMS_NS,
            dir: dir.display().to_string(),
        })
    }

    /// Everything is attached, and these hold the target's PTYs.
    pub(super) fn seeded(
        &mut self,
        target: &Target,
        holders: Vec<Holder>,
        processes: &mut Processes,
        live: &Live,
    ) {
        for process in target.processes.iter().chain(&target.peers) {
            self.placements.watch(process.pid);
        }
        self.ends.hold(holders, processes);
        let patience = Patience::new();
        let servers = processes.phux_servers().into_iter();
        self.inside = servers
            .map(|pid| (pid, Inside::begin(pid, patience, || live.hops())))
            .collect();
    }

    pub(super) fn event(&mut self, event: Event, processes: &Processes, probes: &mut Probes) {
        match &event {
            Event::Sock(s) => self.clients.saw(s, processes),
            Event::Exec(t) if processes.targets().contains(&t.at.pid) => {
                self.hops.follow(t.at.pid, probes);
            }
            Event::Exit { thread, .. } => self.ended.add((**thread).clone()),
            Event::Off(o) => self.placements.saw(o.at.pid, o.at.tid, &o.place),
            Event::Flush(f) => {
                let (tid, place) = (f.at.tid, &f.place);
                self.placements.saw_flusher(f.pty, f.towards, tid, place);
            }
            _ => {}
        }
        let hop = match &event {
            Event::Hop(h) => self.hops.get(h.hop).map(|hop| hop.probe.clone()),
            _ => None,
        };
        self.sink.event(event, hop.as_deref().unwrap_or_default());
    }

    /// The rings were emptied, from `drained_ns` on.
    pub(super) fn drained(
        &mut self,
        drained_ns: u64,
        live: &Live,
        processes: &mut Processes,
        probes: &Probes,
    ) -> Result<()> {
        let lost = live.lost_events()?;
        let new = self.clients.take_new();
        for pid in &new {
            if let Ok(process) = proc::process(*pid) {
                probes.add_client(*pid)?;
                processes.add(&process, Relation::Peer, &Survey::default());
                self.placements.watch(*pid);
            }
        }
        if !new.is_empty() {
            let holders = live::holders(&probes.seed()?);
            self.ends.hold(holders, processes);
        }
        if drained_ns >= self.sums_at_ns {
            let state = live.state(probes)?;
            self.sums(state, false, processes);
            let took = monotonic_ns().saturating_sub(drained_ns);
            let pause = SUMS_NS.max(took.saturating_mul(SUMS_SHARE));
            self.sums_at_ns = drained_ns.saturating_add(pause);
        }
        // What other rings may still have is held back so long.
        let at = drained_ns.saturating_sub(SETTLED_NS);
        if at > self.drained_ns && !self.sink.analysis.is_over() {
            self.drained_ns = at;
            self.sink.targets(processes.targets(), at);
            if self.sink.drained(at, lost, false) {
                say::complain("the condition holds: what the ring held is being written");
            }
        }
        Ok(())
    }

    /// What the kernel has summed up, and what has grown of it: those who live were read before.
    fn sums(&mut self, mut state: KernelState, last: bool, processes: &Processes) -> KernelState {
        state.complete(&self.ended);
        let role = |t: &ThreadStat| processes.role(t.pid, &t.comm, t.pid == t.tid);
        let hop = |id| self.hops.get(id).map(|hop| hop.probe.clone());
        self.sink.sums(state.clone(), last, role, hop);
        state
    }

    /// Tracing is about to end: what can be asked only of who is still looked at.
    pub(super) fn ending(&mut self, probes: &Probes, processes: &mut Processes, live: &Live) {
        self.sums_at_ns = u64::MAX;
        // Without this last look the first one still tells who held what.
        if let Ok(bytes) = probes.holders() {
            self.ends.hold(live::holders(&bytes), processes);
        }
        let patience = Patience::new();
        let looked = self.inside.iter().map(|(pid, inside)| match inside {
            Ok(inside) => inside.end(patience, || live.hops(), &self.hops),
            Err(why) => inside::missing(*pid, why.clone()),
        });
        self.looked = looked.collect();
    }

    /// Tracing has ended then.
    pub(super) fn end(
        &mut self,
        ended_ns: u64,
        mut state: KernelState,
        losses: &[Loss],
        processes: &Processes,
    ) -> Result<()> {
        let ring_full = state.losses.get(&probe_ebpf::events::LOSS_RING_FULL);
        let lost = ring_full.copied().unwrap_or(0);
        self.sink.drained(ended_ns.max(self.drained_ns), lost, true);
        state.at_ns = ended_ns;
        let state = self.sums(state, true, processes);
        self.sink.metrics(&self.looked, (self.began_ns, ended_ns));
        self.sink.losses(losses, ended_ns);
        let mut notes = std::mem::take(&mut self.notes);
        notes.append(&mut self.hops.notes);
        notes.extend(processes.passed_note());
        let mut now = Now {
            processes,
            placements: &mut self.placements,
            since: Since::Run,
        };
        let hops = hop_sums(&state, &self.hops);
        self.sink.describe(&Details {
            processes: processes.rows(),
            notes,
            cost: Cost {
                daemon_cpu_ns: daemon_cpu_ns().saturating_sub(self.cpu_ns),
                daemon_rss_bytes: rss_bytes(),
                // Counting the programs' time would make each system call dearer.
                ..Cost::default()
            },
            ..Details::of(&state, &mut now, &self.ends.all(), &hops, &self.looked)
        })
    }

    /// Closes the recording, and tells of its echoes.
    pub(super) fn finish(
        self,
        args: &RecordArgs,
        losses: Vec<Loss>,
        out: &mut impl Write,
    ) -> Result<u64> {
        let (run, analysis) = self.sink.finish()?;
        let end_ns = run.end.unwrap_or(run.ts);
        let mut report = report::report(&run, &analysis, losses, end_ns);
        if args.json || args.events {
            // They are told already.
            report.losses.clear();
            write_ndjson(&report, out)
        } else {
            writeln!(out, "{}", crate::attach::echoes::told(analysis.counts()))
        }
        .and_then(|()| out.flush())
        .context("writing the figures")?;
        say::remark(&format!("{} rows in {}", count(run.rows), self.dir));
        Ok(run.rows)
    }

    /// Threads that have ended.
    pub(super) fn ended(&self) -> &Ended {
        &self.ended
    }

    /// For who waits.
    pub(super) fn progress(&self, lost: u64) -> String {
        let stats = self.sink.stats();
        let ring = match stats.ring_bytes {
            0 => String::new(),
            bytes => format!(
                ", {} in the ring",
                crate::report::units::bytes(bytes as u64)
            ),
        };
        let dumps = match stats.dumps {
            0 => String::new(),
            n => format!(", written out {n} times"),
        };
        format!(
            "{} rows, {} lost{ring}{dumps}",
            count(stats.rows),
            count(lost)
        )
    }
}
