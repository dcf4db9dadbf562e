//! What records: the kernel side, who is who, the figures, and with `-o` the files.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use phux_recording::Stats;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::figures::Figures;
use super::whole::Whole;
use super::{json, select, summary};
use crate::attach::backends::Features;
use crate::attach::cost::Meter;
use crate::attach::processes::Processes;
use crate::attach::session::{LOOK, PULL};
use crate::cli::RecordArgs;
use crate::privileges::Files;
use crate::probes::{Options, Probes, blocked};
use crate::report::model::{Loss, Relation};
use crate::source::live::{self, monotonic_ns};
use crate::source::{Event, Live};
use crate::syscalls::{Call, Consumer, Pipeline};
use crate::target::{Survey, Target};

/// What a run waits for, whoever drives it.
pub(crate) struct Pulse {
    pull: Interval,
    look: Interval,
    /// The rings have more than was taken.
    more: bool,
    /// The run ends with its target; else somebody waits for that himself.
    ends_with_target: bool,
}

impl Pulse {
    pub(crate) fn new(ends_with_target: bool) -> Pulse {
        let mut pull = interval_at(Instant::now() + PULL, PULL);
        pull.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Pulse {
            pull,
            look: interval_at(Instant::now() + LOOK, LOOK),
            more: false,
            ends_with_target,
        }
    }
}

/// What a step of a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The rings were emptied, or a share of them taken.
    Pulled,
    /// Half a second has passed.
    Looked,
    /// There is nobody left to record.
    TargetEnded,
    /// The recorder has given up: [`Session::finish`] says why.
    RecorderEnded,
}

pub(crate) struct Session {
    probes: Probes,
    live: Live,
    processes: Processes,
    pipeline: Pipeline,
    /// Records of others than system calls, by kind, that were not understood.
    undecodable: u64,
    written: Rc<RefCell<io::Result<()>>>,
    began_ns: u64,
    /// With `-o`: what is recorded besides the calls, and where to.
    whole: Option<Whole>,
    /// Only the last moments of it, until it is triggered.
    has_ring: bool,
    meter: Meter,
}

impl Session {
    pub(crate) fn begin(
        args: &RecordArgs,
        target: &Target,
        survey: &Survey,
        owner: Files,
    ) -> Result<Session> {
        let calls = select::select(args)?;
        let features = Features::ask(blocked::required()?);
        let mut probes = Probes::load(&Options {
            namespace: features.namespace,
            fentry: features.fentry.is_ok(),
            tracefs: features.tracefs,
            flush: features.flush.is_ok(),
            uprobe: args.output.is_some() && features.uprobe.is_ok(),
            // Who is recorded is the whole tree.
            follow_exec: true,
            stream: false,
            follow_echoes: args.output.is_some(),
            sock_fentry: args.output.is_some() && features.sock_fentry.is_ok(),
            cpus_per_ring: args.cpus_per_ring,
            calls: Some(calls),
        })?;
        let mut processes = Processes::default();
        for process in &target.processes {
            probes.add_target(process.pid)?;
            processes.add(process, Relation::Target, survey);
        }
        if args.output.is_some() {
            for process in &target.peers {
                processes.add(process, Relation::Peer, survey);
            }
        }
        let mut live = Live::open(&probes)?;
        live.open_calls(&probes)?;
        let mut pipeline = Pipeline::default();
        let written = Rc::new(RefCell::new(Ok(())));
        if args.events {
            let failed = written.clone();
            pipeline.add(Box::new(EventLines { failed }));
        }
        let mut whole = match &args.output {
            Some(dir) => Some(Whole::begin(
                dir,
                owner,
                args,
                target,
                &features.backends(),
            )?),
            None => None,
        };
        if let Some(whole) = &whole {
            pipeline.add(whole.sink.calls());
        }
        probes.attach()?;
        if let Some(whole) = &mut whole
            && features.uprobe.is_ok()
        {
            for process in &target.processes {
                whole.hops.follow(process.pid, &mut probes);
            }
        }
        let seeded = probes.seed()?;
        if let Some(whole) = &mut whole {
            let holders = live::holders(&seeded);
            whole.seeded(target, holders, &mut processes, &live);
        }
        if args.json || args.events {
            // For who waits until everything that comes is recorded.
            json::write_begin(&target.asked, &mut io::stdout().lock())
                .context("writing the first line")?;
        }
        Ok(Session {
            meter: Meter::start(&probes),
            has_ring: args.ring.is_some(),
            probes,
            live,
            processes,
            pipeline,
            undecodable: 0,
            written,
            began_ns: monotonic_ns(),
            whole,
        })
    }

    /// Waits for what comes next, and does it. Can be given up at any moment.
    pub(crate) async fn step(&mut self, pulse: &mut Pulse) -> Result<Step> {
        if self.whole.as_ref().is_some_and(|w| w.sink.ended()) {
            return Ok(Step::RecorderEnded);
        }
        tokio::select! {
            biased;
            // Besides: the event that tells of it could be lost.
            _ = pulse.look.tick() => {
                if pulse.ends_with_target && !self.processes.target_lives() {
                    return Ok(Step::TargetEnded);
                }
                return Ok(Step::Looked);
            }
            // Not at once: clocks, signals and sockets are looked at in between only.
            () = tokio::task::yield_now(), if pulse.more => pulse.more = self.pull(false)?,
            () = self.live.filling() => pulse.more = self.pull(false)?,
            _ = pulse.pull.tick() => {
                pulse.more = self.pull(false)?;
                if pulse.ends_with_target && self.processes.target_ended() {
                    return Ok(Step::TargetEnded);
                }
            }
        }
        Ok(Step::Pulled)
    }

    pub(crate) fn target_lives(&mut self) -> bool {
        self.processes.target_lives()
    }

    /// A command that is about to begin has this pid.
    pub(super) fn starts_as(&mut self, pid: u32) {
        self.processes.shim = Some(pid);
    }

    pub(super) fn terminate_target(&mut self) {
        self.processes.terminate_target();
    }

    pub(super) fn has_execed(&self, pid: u32) -> bool {
        self.processes.has_execed(pid)
    }

    /// With `-o`: what was recorded, and the records that were lost on the way.
    pub(crate) fn recorded(&self) -> Result<(Stats, u64)> {
        let stats = self.whole.as_ref().map(|w| w.sink.stats());
        Ok((stats.unwrap_or_default(), self.live.lost_events()?))
    }

    /// Writes out what the ring holds.
    pub(crate) fn trigger(&mut self) -> Result<()> {
        match &mut self.whole {
            Some(whole) if self.has_ring => {
                whole.sink.trigger();
                Ok(())
            }
            _ => bail!("it is no flight recorder: all is written as it comes"),
        }
    }

    /// The figures so far. The kernel is asked, so it is to be called by a timer, or because somebody asks.
    pub(crate) fn figures(&mut self) -> Result<Figures> {
        let mut state = self.live.state(&self.probes)?;
        if let Some(whole) = &self.whole {
            state.complete(whole.ended());
        }
        let cost = self.meter.read(&self.probes, true);
        let mut figures = Figures {
            bpf_ns: cost.bpf_ns,
            losses: self.losses(false)?,
            ..Figures::default()
        };
        figures.add_state(&state);
        figures.add_calls(self.pipeline.stats(), &self.live.call_sums());
        if let Some(whole) = &self.whole {
            figures.add_echoes(&whole.sink.analysis);
        }
        Ok(figures)
    }

    /// With `-o`: for who waits.
    pub(super) fn progress(&self) -> Result<Option<String>> {
        let lost = self.live.lost_events()?;
        Ok(self.whole.as_ref().map(|w| w.progress(lost)))
    }

    /// Empties the rings, and follows what happened; whether there is more.
    pub(super) fn pull(&mut self, end: bool) -> Result<bool> {
        self.meter.turn(&self.probes);
        let Session {
            probes,
            live,
            pipeline,
            processes,
            undecodable,
            whole,
            ..
        } = self;
        let drained_ns = monotonic_ns();
        let more = live.records(end, |record| {
            if pipeline.take(record) {
                return;
            }
            let Some(event) = Event::decode(record) else {
                *undecodable += 1;
                return;
            };
            match &event {
                Event::Exit { thread, last: true } => {
                    processes.exited(thread.pid, thread.exit_code);
                }
                Event::Fork(task) => processes.forked(task),
                Event::Exec(task) => drop(processes.execed(task)),
                _ => (),
            }
            if let Some(whole) = whole {
                whole.event(event, processes, probes);
            }
        });
        pipeline.flush();
        if let Some(whole) = whole
            && !more
        {
            whole.drained(drained_ns, live, processes, probes)?;
        }
        std::mem::replace(&mut *self.written.borrow_mut(), Ok(())).context("writing calls")?;
        Ok(more)
    }

    /// Ends the window, reads everything out, and tells it. How many rows were recorded.
    pub(crate) fn finish(
        mut self,
        args: &RecordArgs,
        target: &Target,
        out: &mut impl Write,
    ) -> Result<u64> {
        if let Some(whole) = &mut self.whole {
            whole.ending(&self.probes, &mut self.processes, &self.live);
        }
        self.probes.stop();
        let ended_ns = monotonic_ns();
        // Those who live before those who have ended: who ends in between is in both, not in neither.
        let state = match &self.whole {
            Some(_) => Some(self.live.state(&self.probes)?),
            None => None,
        };
        while self.pull(true)? {}
        let size = size_of::<probe_ebpf::events::ev_call>();
        for record in self.probes.calls_under_way()?.chunks_exact(size) {
            self.pipeline.take(record);
        }
        self.pull(true)?;
        for sums in self.live.call_sums() {
            self.pipeline.add_summed(&sums);
        }
        let losses = self.losses(!args.command.is_empty())?;
        if let (Some(whole), Some(state)) = (&mut self.whole, state) {
            whole.end(ended_ns, state, &losses, &self.processes)?;
        }
        let told = summary::Told {
            asked: &target.asked,
            duration_ns: ended_ns.saturating_sub(self.began_ns),
            stats: self.pipeline.stats(),
            requests_under_way: self.probes.requests_under_way(),
            losses: losses.clone(),
        };
        self.probes.detach();
        if args.json || args.events {
            json::write(&told, out)
        } else {
            out.write_all(summary::render(&told).as_bytes())
        }
        .and_then(|()| out.flush())
        .context("writing the figures")?;
        match self.whole {
            Some(whole) => {
                // It shares the recorder with us.
                drop(self.pipeline);
                whole.finish(args, losses, out)
            }
            None => Ok(0),
        }
    }

    fn losses(&self, wrapped: bool) -> Result<Vec<Loss>> {
        let mut by_class = self.live.losses()?;
        if let Some(starts) = by_class.get_mut(&probe_ebpf::events::LOSS_CALL_START) {
            // Our own shim's: it waited for the word to begin, and is not the command yet.
            *starts = starts.saturating_sub(u64::from(wrapped));
        }
        let of_kernel = Probes::call_losses()
            .into_iter()
            .map(|(class, name, meaning)| {
                let count = by_class.get(&class).copied().unwrap_or(0);
                (name, count, meaning)
            });
        let own = [
            (
                "missed",
                self.probes.missed(),
                "times a program could not run; some of them concern the target",
            ),
            (
                "undecodable",
                self.undecodable + self.pipeline.undecodable(),
                "records that phux-trace did not understand",
            ),
            (
                "unnamed",
                self.pipeline.unnamed(),
                "calls whose file has no name: the record that told it was lost",
            ),
        ];
        let all = of_kernel.chain(own).filter(|(_, count, _)| *count != 0);
        Ok(all
            .map(|(class, count, meaning)| Loss {
                class: class.into(),
                count,
                meaning: meaning.into(),
            })
            .collect())
    }
}

/// Writes each call as a line.
struct EventLines {
    failed: Rc<RefCell<io::Result<()>>>,
}

impl Consumer for EventLines {
    fn calls(&mut self, calls: &[Call]) {
        if self.failed.borrow().is_err() {
            return;
        }
        let mut out = io::BufWriter::new(io::stdout().lock());
        let result = calls
            .iter()
            .try_for_each(|call| json::write_call(call, &mut out))
            .and_then(|()| out.flush());
        *self.failed.borrow_mut() = result;
    }
}
