//! The run itself: set up, pull until something ends it, report.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use super::assemble::{self, Material};
use super::backends::Features;
use super::budget::Budget;
use super::clients::Clients;
use super::cost::Meter;
use super::echoes::Echoes;
use super::hops::Hops;
use super::inside::{self, Inside, Patience};
use super::limits;
use super::processes::Processes;
use super::screen::Screen;
use super::signals::Signals;
use super::when::{Start, window};
use super::wrapped::Wrapped;
use super::{Output, events, exit_code, nanoseconds, unprivileged};
use crate::cli::{AttachArgs, EchoArgs, TopArgs};
use crate::echo::Counts;
use crate::escape::visible;
use crate::privileges::{self, Need};
use crate::probes::system::System;
use crate::probes::trial::PidNamespace;
use crate::probes::{Options, Probes, blocked};
use crate::report::model::{Backend, ChainRow, InProcess, Relation, Report};
use crate::say;
use crate::sched_class::{Placements, Since};
use crate::source::live::{self, monotonic_ns};
use crate::source::{Event, Live};
use crate::stats::{Ended, Holder, KernelState, PtyId, Side};
use crate::target::{Ask, Invoker, Survey, Target, proc, resolve};
use crate::tui::Request;

/// How often the rings are emptied without being asked.
pub(crate) const PULL: Duration = Duration::from_millis(100);
/// How often we look whether the target still lives.
pub(crate) const LOOK: Duration = Duration::from_millis(500);
/// How often a view on the terminal gets new figures, if nothing else is asked for.
const SHOWN: Duration = Duration::from_secs(1);
/// Status of a run that its duration ended, as timeout(1) has it.
pub(crate) const TIMED_OUT: u8 = 124;

/// Runs `attach`.
///
/// # Errors
/// Unknown target, missing privileges, a kernel that refuses, output that cannot be written.
pub fn run(args: &AttachArgs) -> Result<ExitCode> {
    in_runtime(args, Output::of(args))
}

/// Runs `echo`: the same, but each echo is shown instead of a report.
///
/// # Errors
/// Those of [`run`].
pub fn run_echo(args: &EchoArgs) -> Result<ExitCode> {
    in_runtime(&args.attach(), Output::of_echo(args))
}

/// Runs `top`: the same on the whole terminal, and no report.
///
/// # Errors
/// Those of [`run`], and no terminal.
pub fn run_top(args: &TopArgs) -> Result<ExitCode> {
    let args = args.attach();
    let output = Output {
        quiet: true,
        ..Output::of(&args)
    };
    in_runtime(&args, output)
}

fn in_runtime(args: &AttachArgs, output: Output) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime")?;
    runtime.block_on(attach(args, output))
}

async fn attach(args: &AttachArgs, output: Output) -> Result<ExitCode> {
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
    let target = find(asked, &args.command, wrapped.as_ref(), &survey)?;

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
    let mut session = Session::begin(args, output, &target, &survey, namespace)?;
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

    let mut screen = Screen::start(output)?;
    screen.echoes(&mut session);

    let mut pull = interval_at(Instant::now() + PULL, PULL);
    pull.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look = interval_at(Instant::now() + LOOK, LOOK);
    let every = args.interval.or(output.tui.then_some(SHOWN));
    let mut report = every.map(|every| interval_at(Instant::now() + every, every));
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
            request = screen.request() => match request {
                Request::Quit => break EndedBy::Signal,
                Request::Reset => session.reset(output)?,
            },
        }
    };
    screen.end()?;
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

/// Who is meant by a name or a pid, or is about to become the command.
pub(crate) fn find(
    (name, pid): (Option<&OsStr>, Option<u32>),
    command: &[OsString],
    wrapped: Option<&Wrapped>,
    survey: &Survey,
) -> Result<Target> {
    let ask = match (wrapped, pid) {
        (Some(w), _) => Ask::Pid(w.pid().into()),
        (None, Some(pid)) => Ask::Pid(pid.into()),
        (None, None) => Ask::parse(name),
    };
    let mut target = resolve(&ask, survey, Invoker::current())?;
    if wrapped.is_some() {
        let words: Vec<_> = command.iter().map(|a| a.to_string_lossy()).collect();
        target.asked = words.join(" ");
    }
    Ok(target)
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    Signal,
    Duration,
    Target,
}

impl EndedBy {
    /// Our own status, given that of the wrapped command.
    pub(crate) fn exit_code(self, command: Option<ExitStatus>) -> ExitCode {
        match (self, command) {
            (EndedBy::Duration, Some(_)) => ExitCode::from(TIMED_OUT),
            (_, Some(status)) => exit_code(status),
            (_, None) => ExitCode::SUCCESS,
        }
    }
}

pub(crate) fn describe(target: &Target) -> String {
    let pids: Vec<String> = target
        .processes
        .iter()
        .take(4)
        .map(|p| p.pid.to_string())
        .collect();
    let more = target.processes.len().saturating_sub(4);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    let name = target.processes.first().map_or("", |p| p.comm.as_str());
    format!(
        "{} (pid {}{more})",
        crate::escape::name(name),
        pids.join(", ")
    )
}

pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn tick(interval: &mut Option<tokio::time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

pub(crate) async fn wait(wrapped: &mut Option<Wrapped>) -> io::Result<ExitStatus> {
    match wrapped {
        Some(w) => w.wait().await,
        None => std::future::pending().await,
    }
}

pub(super) struct Session {
    probes: Probes,
    live: Live,
    meter: Meter,
    budget: Budget,
    hops: Hops,
    processes: Processes,
    ended: Ended,
    holders: BTreeMap<(PtyId, Side, u32), Holder>,
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
}

impl Session {
    fn begin(
        args: &AttachArgs,
        output: Output,
        target: &Target,
        survey: &Survey,
        namespace: PidNamespace,
    ) -> Result<Session> {
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
            calls: None,
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
        let meter = Meter::start(&probes);
        let start = Start::now();
        let slow_from = args.slow.map(nanoseconds);
        let echoes = || Echoes::new(output.echoes, slow_from, start.unix_offset_ns());
        let echoes = (!args.no_echoes).then(echoes);
        let mut session = Session {
            meter,
            budget: Budget::new(args.budget),
            live,
            hops,
            processes,
            ended: Ended::default(),
            holders: BTreeMap::new(),
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
            probes,
        };
        for process in target.processes.iter().chain(&target.peers) {
            session.placements.watch(process.pid);
        }
        session.hold(live::holders(&seeded));
        Ok(session)
    }

    /// Whether a server that is to be asked again belongs to another user.
    fn asks_others(&self) -> bool {
        let me = rustix::process::geteuid().as_raw();
        let others = |pid| proc::process(pid).is_ok_and(|p| p.uid != me);
        let mut asked = self.inside.iter().filter(|(_, inside)| inside.is_ok());
        asked.any(|(pid, _)| others(*pid))
    }

    /// Who holds what now. A PTY that nobody holds any more keeps the ends that it had last.
    fn hold(&mut self, holders: Vec<Holder>) {
        self.holders
            .retain(|(pty, _, _), _| holders.iter().all(|h| h.pty != *pty));
        for holder in holders {
            self.processes.add_holder(&holder);
            self.holders
                .insert((holder.pty, holder.side, holder.pid), holder);
        }
    }

    /// Empties the rings and follows what happened.
    fn pull(&mut self, output: Output) -> Result<()> {
        let drained_ns = monotonic_ns();
        for event in self.live.drain() {
            if let Some(echoes) = &mut self.echoes {
                echoes.push(event.clone());
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
        if let Some(echoes) = &mut self.echoes {
            let targets = self.processes.targets().into_iter().collect();
            echoes.settle(drained_ns, self.live.lost_events()?, &targets, &self.hops)?;
        }
        self.write_events(Some(drained_ns))
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
        self.hold(holders);
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
        self.hold(holders);
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

    /// The run so far begins here.
    fn reset(&mut self, output: Output) -> Result<()> {
        let state = self.state_at(None, output)?;
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
        let in_process = in_process.collect();
        self.probes.stop();
        let ended_ns = monotonic_ns();
        // Without the last look the first one still tells who held what.
        self.hold(holders.unwrap_or_default());
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
        let holders: Vec<Holder> = self.holders.values().cloned().collect();
        let mut notes = self.notes.clone();
        notes.extend(self.hops.notes.iter().cloned());
        notes.extend(self.budget.notes());
        let passed = self.processes.passed();
        if passed != 0 {
            let processes = if passed == 1 { "process" } else { "processes" };
            notes.push(format!(
                "{passed} {processes} that the target started came and went; \
                 their threads are summed by name"
            ));
        }
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
            placements: &mut self.placements,
            since: if last { Since::Run } else { Since::Interval },
            processes: &self.processes,
            holders: &holders,
            hops: &self.hops,
            backends: &self.backends,
            in_process,
            cost: self.meter.read(&self.probes, last),
            echoes,
            slow_echoes,
            notes,
            no_pty_hint: "",
        })
    }
}
