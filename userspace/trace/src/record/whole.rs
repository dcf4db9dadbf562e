//! With `-o`: everything else that is recorded besides system calls, and where to.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use phux_recording::{Mode, Options, Ring, Run};

use crate::attach::clients::Clients;
use crate::attach::hops::Hops;
use crate::attach::processes::Processes;
use crate::attach::when::{Start, window};
use crate::cli::RecordArgs;
use crate::privileges::Files;
use crate::probes::Probes;
use crate::recording::replay;
use crate::recording::sink::Sink;
use crate::report::json::write_ndjson;
use crate::report::model::{Backend, Loss, Relation};
use crate::report::units::count;
use crate::say;
use crate::source::Event;
use crate::source::held::SETTLED_NS;
use crate::stats::{Ended, KernelState};
use crate::target::{Survey, Target, proc};

/// What a run with `-o` has besides.
pub(super) struct Whole {
    pub(super) sink: Sink,
    pub(super) hops: Hops,
    clients: Clients,
    ended: Ended,
    /// As told last.
    drained_ns: u64,
    dir: String,
}

impl Whole {
    pub(super) fn begin(
        dir: &Path,
        owner: Files,
        args: &RecordArgs,
        target: &Target,
        backends: &[Backend],
    ) -> Result<Whole> {
        let start = Start::now();
        let host = window(start.unix_ns, 0);
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
        let run = Run {
            hostname: host.host.as_str().into(),
            kernel: host.kernel.as_str().into(),
            version: env!("CARGO_PKG_VERSION").into(),
            cpus: host.cpus,
            ts: start.monotonic_ns,
            unix_ns: start.unix_ns,
            target: target.asked.as_str().into(),
            options: options.to_string().into(),
            backends: serde_json::to_string(backends).context("backends")?.into(),
            ..Run::default()
        };
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
            drained_ns: 0,
            dir: dir.display().to_string(),
        })
    }

    pub(super) fn event(&mut self, event: Event, processes: &Processes, probes: &mut Probes) {
        match &event {
            Event::Sock(s) => self.clients.saw(s, processes),
            Event::Exec(t) if processes.targets().contains(&t.at.pid) => {
                self.hops.follow(t.at.pid, probes);
            }
            Event::Exit { thread, .. } => self.ended.add((**thread).clone()),
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
        lost: u64,
        processes: &mut Processes,
        probes: &Probes,
    ) -> Result<()> {
        let new = self.clients.take_new();
        for pid in &new {
            if let Ok(process) = proc::process(*pid) {
                probes.add_client(*pid)?;
                processes.add(&process, Relation::Peer, &Survey::default());
            }
        }
        if !new.is_empty() {
            probes.seed()?;
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

    /// Tracing has ended then.
    pub(super) fn end(
        &mut self,
        ended_ns: u64,
        state: &KernelState,
        losses: &[Loss],
        processes: &Processes,
    ) -> Result<()> {
        let ring_full = state.losses.get(&probe_ebpf::events::LOSS_RING_FULL);
        let lost = ring_full.copied().unwrap_or(0);
        self.sink.drained(ended_ns.max(self.drained_ns), lost, true);
        let mut whole = state.clone();
        whole.complete(&self.ended);
        let threads = whole.threads.values().chain(whole.summed.values());
        let role = |t: &crate::stats::ThreadStat| processes.role(t.pid, &t.comm, t.pid == t.tid);
        self.sink
            .threads(threads.filter(|t| !t.is_quiet()), role, ended_ns);
        self.sink.losses(losses, ended_ns);
        Ok(())
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
        let mut report = replay::report(&run, &analysis, losses, end_ns);
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
