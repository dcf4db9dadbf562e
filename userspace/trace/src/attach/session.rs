//! The run itself: set up, pull until something ends it, report.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::assemble::{self, Material, Now};
use super::backends::Features;
use super::budget::Budget;
use super::calls::Calls;
use super::clients::Clients;
use super::cost::Meter;
use super::echoes::Echoes;
use super::ends::Ends;
use super::entry::Besides;
use super::hops::Hops;
use super::inside::{self, Inside, Patience};
use super::limits;
use super::processes::Processes;
use super::recording::{About, Recording};
use super::screen::Screen;
use super::signals::Signals;
use super::waits::{EndedBy, tick, until, wait};
use super::who::{self, describe, find};
use super::window::{Start, window};
use super::wrapped::Wrapped;
use super::{Output, events, exit_code, nanoseconds, unprivileged};
use crate::cli::AttachArgs;
use crate::echo::Counts;
use crate::escape::visible;
use crate::privileges::{self, Filer, Need};
use crate::probes::system::System;
use crate::probes::trial::PidNamespace;
use crate::probes::{Options, Probes, blocked};
use crate::report::model::{Backend, ChainRow, InProcess, Relation, Report};
use crate::report::units::count;
use crate::say;
use crate::sched_class::{Placements, Since};
use crate::source::live::{self, monotonic_ns};
use crate::source::{Event, Live};
use crate::stats::{Ended, KernelState};
use crate::target::{Survey, Target, proc};
use crate::tui::Recorded;

/// How often the rings are emptied without being asked.
pub(crate) const PULL: Duration = Duration::from_millis(100);
/// How often we look whether the target still lives.
pub(crate) const LOOK: Duration = Duration::from_millis(500);
/// How often a view on the terminal gets new figures, if nothing else is asked for.
const SHOWN: Duration = Duration::from_secs(1);
/// How often it gets what is looked at of the calls: the frames that it draws.
const FRAME: Duration = Duration::from_millis(250);
/// Shares of the rings that are taken before anything else has its turn.
const SHARES: usize = 8;

pub(super) async fn attach(
    args: &AttachArgs,
    output: Output,
    besides: Besides,
) -> Result<ExitCode> {
    Screen::check(output)?;
    // Before anything is started or loaded: a Ctrl-C from here on ends with the report.
    let mut signals = Signals::new()?;
    let mut wrapped = match args.command.as_slice() {
        [] => None,
        command => Some(Wrapped::prepare(command)?),
    };
    // After the shim, which keeps the limit as it was.
    limits::raise_open_files()?;
    let survey = Survey::take().context("reading /proc")?;
    let asked = (args.target.as_deref(), args.pid);
    let files = output.tui.then(Filer::begin).transpose()?;
    let target = match (
        find(asked, &args.command, wrapped.as_ref(), &survey),
        &files,
    ) {
        (Err(error), Some(files)) => who::choose(error, files, &survey)?,
        (found, _) => found?,
    };

    let namespace = match blocked::required() {
        Ok(namespace) => namespace,
        Err(why) if why.is_ours_to_have() && !output.tui => {
            let run = unprivileged::Run {
                args,
                output,
                signals,
                wrapped,
                target,
                survey,
            };
            return run.until_end(&why).await;
        }
        Err(why) => return Err(why.into()),
    };
    let mut session = Session::begin(args, output, &target, &survey, namespace, besides)?;
    // Everything is loaded and attached: what is left to do needs less.
    privileges::keep(Need {
        kernel: System::look().version,
        others_sockets: session.asks_others(),
        end_command: wrapped.is_some(),
        load: false,
    })
    .context("giving up privileges")?;
    if !session.processes.target_lives() {
        bail!("{} ended before tracing began", describe(&target));
    }
    if let Some(w) = &mut wrapped {
        session.processes.shim = Some(w.pid());
        w.go()?;
    }
    if let Some(echoes) = &session.echoes {
        echoes.begin()?;
    }
    say::remark(&format!(
        "tracing {}; {}",
        if wrapped.is_some() {
            visible(&target.asked).into_owned()
        } else {
            describe(&target)
        },
        match args.duration {
            _ if output.echoes.is_some() => "Ctrl-C ends with the counts".into(),
            Some(d) => format!("the report comes in {}", humantime::format_duration(d)),
            None => "Ctrl-C ends with the report".into(),
        }
    ));

    let mut screen = Screen::start(files.as_ref())?;
    session.files = files;
    screen.echoes(&mut session);

    let mut pull = interval_at(Instant::now() + PULL, PULL);
    pull.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look = interval_at(Instant::now() + LOOK, LOOK);
    let every = args.interval.or(output.tui.then_some(SHOWN));
    let mut report = every.map(|every| {
        let mut report = interval_at(Instant::now() + every, every);
        // One that comes late is not made up for by short ones, in which there is little to see.
        report.set_missed_tick_behavior(MissedTickBehavior::Delay);
        report
    });
    let mut frames = output
        .tui
        .then(|| interval_at(Instant::now() + FRAME, FRAME));
    let deadline = args.duration.map(|d| Instant::now() + d);
    let mut status = None;

    let ended = loop {
        tokio::select! {
            () = signals.any() => break EndedBy::Signal,
            () = until(deadline) => break EndedBy::Duration,
            result = wait(&mut wrapped) => {
                status = Some(result.context("waiting for the command")?);
                break EndedBy::Target;
            }
            () = session.live.filling() => session.pull(output)?,
            _ = pull.tick() => {
                session.pull(output)?;
                screen.echoes(&mut session);
                if wrapped.is_none() && session.processes.target_ended() {
                    break EndedBy::Target;
                }
            }
            _ = look.tick() => {
                // Besides: the event that tells of it could be lost.
                if wrapped.is_none() && !session.processes.target_lives() {
                    break EndedBy::Target;
                }
                session.watch_cost(output)?;
            }
            () = until(session.budget.turns_at()) => session.budget.turn(&mut session.probes),
            () = tick(&mut report) => screen.interval(&mut session, output)?,
            () = tick(&mut frames) => {
                session.pull(output)?;
                screen.calls(&mut session);
                if session.recorded().is_some() {
                    screen.recorded(&mut session, output);
                }
            }
            request = screen.request() => if screen.answer(request, &mut session, output)? {
                break EndedBy::Signal;
            },
        }
    };
    screen.end(&mut session, output)?;
    if let (Some(w), None) = (&mut wrapped, &status) {
        // Not the command alone: what it started would go on, and hold our output open.
        session.processes.terminate_target();
        let mut end = std::pin::pin!(w.end());
        status = Some(loop {
            tokio::select! {
                status = &mut end => break status.context("ending the command")?,
                // Its last moments are as full of events as any.
                () = session.live.filling() => session.pull(output)?,
                _ = pull.tick() => session.pull(output)?,
            }
        });
    }
    if ended == EndedBy::Target && wrapped.is_none() {
        session
            .notes
            .push("the target ended; the figures are of the time until then".into());
    }
    if let (Some(w), Some(status)) = (&wrapped, status) {
        session.pull(output)?;
        if !session.processes.has_execed(w.pid()) {
            // The shim has said why it could not become the command: there is nothing to report.
            return Ok(exit_code(status));
        }
    }
    if output.echoes.is_some() {
        output.counts(&session.finish_echoes(output)?)?;
    } else {
        let report = session.finish(output)?;
        if !output.quiet {
            output.report(&report)?;
        }
    }
    Ok(ended.exit_code(status))
}

pub(super) struct Session {
    probes: Probes,
    live: Live,
    meter: Meter,
    budget: Budget,
    hops: Hops,
    processes: Processes,
    ended: Ended,
    ends: Ends,
    backends: Vec<Backend>,
    notes: Vec<String>,
    /// Servers that keep histograms of their own, or why one does not.
    inside: Vec<(u32, Result<Inside, String>)>,
    asked: String,
    start: Start,
    /// Where the interval under way began.
    last: Option<KernelState>,
    /// Where the figures of the run so far begin, if not at its start.
    reset: Option<KernelState>,
    stream: events::Stream,
    placements: Placements,
    clients: Clients,
    /// `None` where they are not followed.
    echoes: Option<Echoes>,
    /// The same; only a live view looks at them.
    pub(super) calls: Option<Calls>,
    besides: Besides,
    files: Option<Filer>,
    recording: Option<Recording>,
}

impl Session {
    fn begin(
        args: &AttachArgs,
        output: Output,
        target: &Target,
        survey: &Survey,
        namespace: PidNamespace,
        besides: Besides,
    ) -> Result<Session> {
        let calls = output
            .tui
            .then(|| crate::record::of_families(&besides.families));
        let features = Features::ask(namespace);
        let mut probes = Probes::load(&Options {
            namespace: features.namespace,
            fentry: features.fentry.is_ok(),
            tracefs: features.tracefs,
            flush: features.flush.is_ok(),
            uprobe: features.uprobe.is_ok(),
            follow_exec: !args.command.is_empty(),
            stream: args.events,
            follow_echoes: !args.no_echoes,
            sock_fentry: features.sock_fentry.is_ok(),
            cpus_per_ring: args.cpus_per_ring,
            calls: calls.transpose()?,
        })?;
        for process in &target.processes {
            probes.add_target(process.pid)?;
        }
        let mut processes = Processes::default();
        for process in &target.processes {
            processes.add(process, Relation::Target, survey);
        }
        for process in &target.peers {
            processes.add(process, Relation::Peer, survey);
        }
        let live = Live::open(&probes)?;
        probes.attach()?;
        let mut hops = Hops::default();
        if features.uprobe.is_ok() {
            for process in &target.processes {
                hops.follow(process.pid, &mut probes);
            }
        }
        let seeded = probes.seed()?;
        let servers = processes.phux_servers();
        let patience = Patience::new();
        let inside = servers
            .into_iter()
            .map(|pid| (pid, Inside::begin(pid, patience, || live.hops())))
            .collect();
        let start = Start::now();
        let slow_from = args.slow.map(nanoseconds);
        let echoes = || Echoes::new(output.echoes, slow_from, start.unix_offset_ns());
        let echoes = (!args.no_echoes).then(echoes);
        let mut session = Session {
            meter: Meter::start(&probes),
            budget: Budget::new(args.budget),
            live,
            hops,
            processes,
            ended: Ended::default(),
            ends: Ends::default(),
            backends: features.backends(),
            notes: target.notes.clone(),
            inside,
            asked: target.asked.clone(),
            start,
            last: None,
            reset: None,
            stream: events::Stream::default(),
            placements: Placements::of_host(),
            clients: Clients::default(),
            echoes,
            calls: output.tui.then(|| Calls::new(start.unix_offset_ns())),
            besides,
            files: None,
            recording: None,
            probes,
        };
        for process in target.processes.iter().chain(&target.peers) {
            session.placements.watch(process.pid);
        }
        let holders = live::holders(&seeded);
        session.ends.hold(holders, &mut session.processes);
        Ok(session)
    }

    /// Whether a server that is to be asked again belongs to another user.
    fn asks_others(&self) -> bool {
        let me = rustix::process::geteuid().as_raw();
        let others = |pid| proc::process(pid).is_ok_and(|p| p.uid != me);
        let mut asked = self.inside.iter().filter(|(_, inside)| inside.is_ok());
        asked.any(|(pid, _)| others(*pid))
    }

    /// Empties the rings and follows what happened.
    fn pull(&mut self, output: Output) -> Result<()> {
        self.meter.turn(&self.probes);
        for _ in 0..SHARES {
            if !self.pull_share(output)? {
                break;
            }
        }
        Ok(())
    }

    /// The same, not more than a share; whether there is more.
    fn pull_share(&mut self, output: Output) -> Result<bool> {
        let drained_ns = monotonic_ns();
        let calls = &mut self.calls;
        let (events, more) = self.live.drain(|record| {
            if let Some(calls) = calls {
                calls.take(record);
            }
        });
        if let Some(calls) = calls {
            calls.flush();
        }
        for event in events {
            if let Some(echoes) = &mut self.echoes {
                echoes.push(event.clone());
            }
            if let Some(recording) = &mut self.recording {
                recording.event(&event, &self.hops);
            }
            match event {
                Event::Exit { thread, last } => {
                    if last {
                        self.processes.exited(thread.pid, thread.exit_code);
                    }
                    self.ended.add(*thread);
                }
                Event::Fork(task) => self.processes.forked(&task),
                Event::Exec(task) => {
                    self.notes.extend(self.processes.execed(&task));
                    if self.processes.targets().contains(&task.at.pid) {
                        self.hops.follow(task.at.pid, &mut self.probes);
                    }
                }
                Event::Io(_) | Event::Flush(_) | Event::Hop(_) | Event::Off(_) | Event::Sock(_) => {
                    match &event {
                        Event::Sock(s) => self.clients.saw(s, &self.processes),
                        Event::Off(o) => self.placements.saw(o.at.pid, o.at.tid, &o.place),
                        Event::Flush(f) => {
                            let (pty, towards) = (f.pty, f.towards);
                            self.placements
                                .saw_flusher(pty, towards, f.at.tid, &f.place);
                        }
                        _ => {}
                    }
                    if output.events {
                        self.stream.push(event);
                    }
                }
            }
        }
        self.meet_clients()?;
        if more {
            return Ok(true);
        }
        let lost = self.live.lost_events()?;
        if let Some(echoes) = &mut self.echoes {
            let targets = self.processes.targets().into_iter().collect();
            echoes.settle(drained_ns, lost, &targets, &self.hops)?;
        }
        if let Some(recording) = &mut self.recording {
            recording.drained(drained_ns, lost, &self.processes);
        }
        self.write_events(Some(drained_ns))?;
        Ok(false)
    }

    /// Traces whoever has been found at the other end of a socket.
    fn meet_clients(&mut self) -> Result<()> {
        let new = self.clients.take_new();
        if new.is_empty() {
            return Ok(());
        }
        for pid in new {
            if let Ok(process) = proc::process(pid) {
                self.probes.add_client(pid)?;
                self.processes
                    .add(&process, Relation::Peer, &Survey::default());
                self.placements.watch(pid);
            }
        }
        let holders = live::holders(&self.probes.seed()?);
        self.ends.hold(holders, &mut self.processes);
        Ok(())
    }

    /// Makes the run cheaper where it costs more than it may.
    fn watch_cost(&mut self, output: Output) -> Result<()> {
        let Some(step) = self.budget.look(&mut self.probes, &self.meter) else {
            return Ok(());
        };
        self.pull(output)?;
        if let Some(echoes) = &mut self.echoes {
            echoes.finish(monotonic_ns())?;
        }
        output.thinned(&step)
    }

    /// Ends the window of the live view.
    fn finish_echoes(mut self, output: Output) -> Result<Counts> {
        self.probes.stop();
        let ended_ns = monotonic_ns();
        self.pull(output)?;
        self.probes.detach();
        let Some(echoes) = &mut self.echoes else {
            return Ok(Counts::default());
        };
        echoes.finish(ended_ns)?;
        Ok(echoes.counts.clone())
    }

    fn write_events(&mut self, drained_ns: Option<u64>) -> Result<()> {
        let offset = self.start.unix_offset_ns();
        let out = &mut io::stdout().lock();
        self.stream
            .write(drained_ns, &self.hops, &mut self.placements, offset, out)
    }

    /// Everything up to that moment, or now. The living are read out before the ended: who ends in between is in both, not in neither.
    fn state_at(&mut self, moment_ns: Option<u64>, output: Output) -> Result<KernelState> {
        let mut state = self.live.state(&self.probes)?;
        let moment = moment_ns.unwrap_or(state.at_ns);
        // What was under way when it was last looked at was so until then.
        state.at_ns = self.budget.paused_ns().unwrap_or(moment);
        self.pull(output)?;
        state.complete(&self.ended);
        state.at_ns = moment;
        Ok(state)
    }

    /// What came since the last interval.
    pub(super) fn interval(&mut self, output: Output) -> Result<Report> {
        let holders = live::holders(&self.probes.holders()?);
        self.ends.hold(holders, &mut self.processes);
        let state = self.state_at(None, output)?;
        let since = match &self.last {
            Some(last) => state.since(last),
            None => state.clone(),
        };
        let began = self
            .last
            .as_ref()
            .map_or(self.start.monotonic_ns, |l| l.at_ns);
        let report = self.report(&since, began, false, Vec::new());
        if let Some(recording) = &mut self.recording {
            recording.summed(&state, &self.processes, &self.hops);
        }
        self.last = Some(state);
        self.placements.interval_ended();
        Ok(report)
    }

    /// The run so far, until the end of the last interval.
    pub(super) fn so_far(&mut self) -> Report {
        let last = self.last.clone().unwrap_or_default();
        let (state, began_ns) = self.since_reset(last);
        let report = self.report(&state, began_ns, true, Vec::new());
        Report {
            last: false,
            ..report
        }
    }

    /// What came since the reset, if there was one, and when that was.
    fn since_reset(&self, state: KernelState) -> (KernelState, u64) {
        match &self.reset {
            Some(reset) => (state.since(reset), reset.at_ns),
            None => (state, self.start.monotonic_ns),
        }
    }

    /// Begins a recording; what to say of it.
    pub(super) fn record(&mut self, output: Output) -> Result<String> {
        let files = self.files.as_ref().context("no view asks for it")?;
        let dir = self.besides.record_to.clone().unwrap_or_else(|| {
            let seconds = Start::now().unix_ns / 1_000_000_000;
            format!("phux-trace-{seconds}").into()
        });
        let about = About {
            asked: &self.asked,
            families: &self.besides.families,
            backends: &self.backends,
        };
        let mut began = self.live.state(&self.probes)?;
        began.complete(&self.ended);
        let recording = Recording::begin(&dir, &about, files, began, self.live.lost_events()?)?;
        if let Some(calls) = &mut self.calls {
            calls.record(Some(recording.calls()));
        }
        self.recording = Some(recording);
        self.pull(output)?;
        Ok(format!("recording to {}; R ends it", dir.display()))
    }

    /// How far the recording is, if there is one.
    pub(super) fn recorded(&self) -> Option<Recorded> {
        self.recording.as_ref().map(Recording::so_far)
    }

    pub(super) fn recording_has_ended(&self) -> bool {
        self.recording.as_ref().is_some_and(Recording::ended)
    }

    /// Ends the recording; what to say of it.
    pub(super) fn end_recording(&mut self, output: Output) -> Result<String> {
        let state = self.state_at(None, output)?;
        let recording = self.recording.take().context("nothing is recorded")?;
        if let Some(calls) = &mut self.calls {
            calls.record(None);
        }
        let by_pipeline = self.calls.as_ref().map(Calls::losses);
        let losses = |since: &KernelState| assemble::losses(since, by_pipeline);
        let mut known = Now {
            processes: &self.processes,
            placements: &mut self.placements,
            since: Since::Run,
        };
        let holders = self.ends.all();
        let notes = self.notes.clone();
        let done = recording.finish(&state, losses, &holders, &mut known, &self.hops, notes)?;
        Ok(format!("{} rows in {}", count(done.rows), done.dir))
    }

    /// The run so far begins here.
    pub(super) fn reset(&mut self, output: Output) -> Result<()> {
        let state = self.state_at(None, output)?;
        if let Some(calls) = &mut self.calls {
            calls.reset();
        }
        if let Some(echoes) = &mut self.echoes {
            echoes.reset();
        }
        self.last = Some(state.clone());
        self.reset = Some(state);
        Ok(())
    }

    /// Echoes that ended since they were last asked for.
    pub(super) fn fresh_echoes(&mut self) -> Vec<ChainRow> {
        self.echoes.as_mut().map_or_else(Vec::new, Echoes::fresh)
    }

    /// Ends the window, reads everything out, and reports the whole run.
    fn finish(mut self, output: Output) -> Result<Report> {
        let holders = self.probes.holders().map(|bytes| live::holders(&bytes));
        let patience = Patience::new();
        let in_process = self.inside.iter().map(|(pid, inside)| match inside {
            Ok(inside) => inside.end(patience, || self.live.hops(), &self.hops),
            Err(why) => inside::missing(*pid, why.clone()),
        });
        let in_process = in_process.map(|looked| looked.row()).collect();
        self.probes.stop();
        let ended_ns = monotonic_ns();
        // Without the last look the first one still tells who held what.
        self.ends
            .hold(holders.unwrap_or_default(), &mut self.processes);
        let state = self.state_at(Some(ended_ns), output)?;
        self.probes.detach();
        if let Some(echoes) = &mut self.echoes {
            echoes.finish(ended_ns)?;
        }
        self.write_events(None)?;
        let (state, began_ns) = self.since_reset(state);
        Ok(self.report(&state, began_ns, true, in_process))
    }

    fn report(
        &mut self,
        state: &KernelState,
        began_ns: u64,
        last: bool,
        in_process: Vec<InProcess>,
    ) -> Report {
        let mut notes = self.notes.clone();
        notes.extend(self.hops.notes.iter().cloned());
        notes.extend(self.budget.notes());
        notes.extend(self.processes.passed_note());
        let since_start = began_ns.saturating_sub(self.start.monotonic_ns);
        let echoes = self.echoes.as_mut().map(|e| e.rows(last));
        let (echoes, slow_echoes) = echoes.map_or((None, Vec::new()), |(e, slow)| (Some(e), slow));
        assemble::report(Material {
            last,
            window: window(
                self.start.unix_ns + since_start,
                state.at_ns.saturating_sub(began_ns),
            ),
            asked: &self.asked,
            state,
            known: &mut Now {
                processes: &self.processes,
                placements: &mut self.placements,
                since: if last { Since::Run } else { Since::Interval },
            },
            processes: self.processes.rows(),
            holders: &self.ends.all(),
            hops: assemble::hop_sums(state, &self.hops),
            backends: &self.backends,
            losses: assemble::losses(state, self.calls.as_ref().map(Calls::losses)),
            in_process,
            cost: self.meter.read(&self.probes, last),
            echoes,
            slow_echoes,
            notes,
        })
    }
}
