//! A run without the privileges to trace: what `/proc` shows every user of his own processes, and what
//! a phux server tells of itself. The same report, with less in it.

mod report;
mod sampled;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use self::sampled::Sampled;
use super::inside::{Inside, Patience};
use super::processes::Processes;
use super::signals::Signals;
use super::waits::{EndedBy, tick, until, wait};
use super::window::Start;
use super::wrapped::Wrapped;
use super::{Output, cost, exit_code};
use crate::cli::AttachArgs;
use crate::probes::blocked::Blocked;
use crate::report::model::Relation;
use crate::say;
use crate::source::live::monotonic_ns;
use crate::target::proc::{self, ProcDir};
use crate::target::{Survey, Target};

/// How often the account of every thread is read.
const SAMPLE: Duration = Duration::from_millis(100);
/// Between two samples at least so many times what one takes: 2 % of a CPU at most.
const PAUSE: u32 = 50;
/// How often new processes are looked for.
const FOLLOW: Duration = Duration::from_millis(500);
/// Processes that are followed; a fork bomb has more.
const MAX_PROCESSES: usize = 4096;

/// All that a run is made of.
pub(super) struct Run<'a> {
    pub(super) args: &'a AttachArgs,
    pub(super) output: Output,
    pub(super) signals: Signals,
    pub(super) wrapped: Option<Wrapped>,
    pub(super) target: Target,
    pub(super) survey: Survey,
}

impl Run<'_> {
    /// Says why it is less than it could be, and runs.
    pub(super) async fn until_end(mut self, why: &Blocked) -> Result<ExitCode> {
        if self.args.events {
            bail!("--events needs the kernel's events. {why}");
        }
        let limited = format!(
            "Not traced: {why}. What follows is from /proc and from the processes themselves: sums, \
             without who ran instead and without what went through the PTYs."
        );
        say::complain(&limited);
        let mut watch = Watch::begin(&self, limited);
        if let Some(w) = &mut self.wrapped {
            watch.processes.shim = Some(w.pid());
            w.go()?;
        }
        let mut status = None;
        let mut follow = interval_at(Instant::now() + FOLLOW, FOLLOW);
        follow.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut report = self
            .args
            .interval
            .map(|every| interval_at(Instant::now() + every, every));
        let deadline = self.args.duration.map(|d| Instant::now() + d);
        let mut next = Instant::now() + SAMPLE;
        let ended = loop {
            tokio::select! {
                () = self.signals.any() => break EndedBy::Signal,
                () = until(deadline) => break EndedBy::Duration,
                result = wait(&mut self.wrapped) => {
                    status = Some(result.context("waiting for the command")?);
                    break EndedBy::Target;
                }
                () = tokio::time::sleep_until(next) => {
                    next = Instant::now() + watch.sample();
                    if self.wrapped.is_none() && !watch.processes.target_lives() {
                        break EndedBy::Target;
                    }
                }
                _ = follow.tick() => {
                    watch.follow();
                    watch.sampled.describe(&mut watch.processes);
                }
                () = tick(&mut report) => self.output.report(&watch.interval())?,
            }
        };
        watch.sample();
        let last = watch.finish();
        if let (Some(w), None) = (&mut self.wrapped, &status) {
            watch.follow();
            watch.processes.terminate_target();
            status = Some(w.end().await.context("ending the command")?);
        }
        if let Some(status) = status.filter(|s| matches!(s.code(), Some(126 | 127)))
            && watch.is_still_the_shim()
        {
            // The shim has said why it could not become the command.
            return Ok(exit_code(status));
        }
        self.output.report(&last)?;
        Ok(ended.exit_code(status))
    }
}

/// What has been seen so far.
struct Watch {
    limited: String,
    target: Target,
    survey: Survey,
    processes: Processes,
    sampled: Sampled,
    inside: Vec<(u32, Result<Inside, String>)>,
    /// All that the target starts is the target.
    all_is_target: bool,
    start: Start,
    interval_began_ns: u64,
    cpu_at_start_ns: u64,
    cpu_at_interval_ns: u64,
    /// The longest pause between two samples.
    slowest: Duration,
    notes: Vec<String>,
}

impl Watch {
    fn begin(run: &Run<'_>, limited: String) -> Watch {
        let mut processes = Processes::default();
        for process in &run.target.processes {
            processes.add(process, Relation::Target, &run.survey);
        }
        for process in &run.target.peers {
            processes.add(process, Relation::Peer, &run.survey);
        }
        let patience = Patience::new();
        let inside = processes
            .phux_servers()
            .into_iter()
            .map(|pid| (pid, Inside::begin(pid, patience, Default::default)))
            .collect();
        let mut sampled = Sampled::default();
        sampled.look(&processes, 0);
        Watch {
            limited,
            target: run.target.clone(),
            survey: run.survey.clone(),
            processes,
            sampled,
            inside,
            all_is_target: run.wrapped.is_some(),
            start: Start::now(),
            interval_began_ns: 0,
            cpu_at_start_ns: cost::daemon_cpu_ns(),
            cpu_at_interval_ns: cost::daemon_cpu_ns(),
            slowest: SAMPLE,
            notes: run.target.notes.clone(),
        }
    }

    /// Since the run began, ns.
    fn now_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.start.monotonic_ns)
    }

    /// Reads every account; gives the pause until the next time.
    fn sample(&mut self) -> Duration {
        let began = Instant::now();
        let gone = self.sampled.look(&self.processes, self.now_ns());
        gone.into_iter()
            .for_each(|pid| self.processes.vanished(pid));
        let pause = SAMPLE.max(began.elapsed() * PAUSE);
        self.slowest = self.slowest.max(pause);
        pause
    }

    /// Finds what the processes have started.
    fn follow(&mut self) {
        let mut parents = self.processes.living();
        let mut room = MAX_PROCESSES.saturating_sub(parents.len());
        while let Some(parent) = parents.pop() {
            let Some(relation) = self.processes.relation(parent) else {
                continue;
            };
            for child in proc::children(parent) {
                let known = self.processes.relation(child).is_some() || child == std::process::id();
                if known || room == 0 {
                    continue;
                }
                let Ok(process) = proc::process(child) else {
                    continue;
                };
                let forked = || {
                    let parent = ProcDir::open(parent).and_then(|p| p.read_link("exe")).ok();
                    parent.is_some() && parent == process.exe
                };
                let same = self.all_is_target || forked();
                let relation = if same { relation } else { Relation::Peer };
                self.processes.came(&process, relation, &self.survey);
                parents.push(child);
                room -= 1;
            }
        }
    }

    /// The command never came to be.
    fn is_still_the_shim(&self) -> bool {
        self.processes
            .rows()
            .iter()
            .all(|p| p.name == "exe" || p.name == "phux-trace")
    }
}
