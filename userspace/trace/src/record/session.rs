//! The run itself: set up, pull until something ends it, tell.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::whole::Whole;
use super::{json, select, summary};
use crate::attach::backends::Features;
use crate::attach::ends::{EndedBy, until, wait};
use crate::attach::exit_code;
use crate::attach::limits;
use crate::attach::processes::Processes;
use crate::attach::session::{LOOK, PULL};
use crate::attach::signals::Signals;
use crate::attach::who::{describe, find};
use crate::attach::wrapped::Wrapped;
use crate::cli::RecordArgs;
use crate::escape::visible;
use crate::probes::{Options, Probes, blocked};
use crate::report::model::{Loss, Relation};
use crate::source::live::monotonic_ns;
use crate::source::{Event, Live};
use crate::syscalls::{Call, Consumer, Pipeline};
use crate::target::{Survey, Target, resolve};

/// Runs `record`.
///
/// # Errors
/// Unknown target, missing privileges, a kernel that refuses, output that cannot be written.
pub fn run(args: &RecordArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime")?;
    runtime.block_on(record(args))
}

async fn record(args: &RecordArgs) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let mut wrapped = match args.command.as_slice() {
        [] => None,
        command => Some(Wrapped::prepare(command)?),
    };
    // After the shim, which keeps the limit as it was.
    limits::raise_open_files()?;
    let survey = Survey::take().context("reading /proc")?;
    let asked = (args.target.as_deref(), args.pid);
    let target = match (&args.cgroup, asked, &wrapped) {
        (Some(cgroup), (None, None), None) => {
            let members = select::members(cgroup)?;
            let asked = format!("cgroup {}", cgroup.display());
            let target = resolve::target(asked, &members, &survey, Vec::new());
            if target.processes.is_empty() {
                bail!("no process is in cgroup {}", cgroup.display());
            }
            target
        }
        _ => find(asked, &args.command, wrapped.as_ref(), &survey)?,
    };
    let mut session = Session::begin(args, &target, &survey)?;
    if !session.processes.target_lives() {
        bail!("{} ended before recording began", describe(&target));
    }
    if let Some(w) = &mut wrapped {
        session.processes.shim = Some(w.pid());
        w.go()?;
    }
    say(&match &wrapped {
        Some(_) => format!("recording {}", visible(&target.asked)),
        None => format!("recording {}", describe(&target)),
    });

    let mut pull = interval_at(Instant::now() + PULL, PULL);
    pull.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look = interval_at(Instant::now() + LOOK, LOOK);
    let deadline = args.duration.map(|d| Instant::now() + d);
    let mut status = None;
    let mut more = false;
    let mut progress = Progress::default();
    let ended = loop {
        if session.recorder_ended() {
            break EndedBy::Signal;
        }
        tokio::select! {
            // What ends the run must not wait for rings that never empty.
            biased;
            () = signals.any() => break EndedBy::Signal,
            () = until(deadline) => break EndedBy::Duration,
            result = wait(&mut wrapped) => {
                status = Some(result.context("waiting for the command")?);
                break EndedBy::Target;
            }
            // Besides: the event that tells of it could be lost.
            _ = look.tick() => {
                if let Some(whole) = &session.whole {
                    progress.show(&whole.progress(session.live.lost_events()?));
                }
                if wrapped.is_none() && !session.processes.target_lives() {
                    break EndedBy::Target;
                }
            }
            () = std::future::ready(()), if more => more = session.pull(false)?,
            () = session.live.filling() => more = session.pull(false)?,
            _ = pull.tick() => {
                more = session.pull(false)?;
                if wrapped.is_none() && session.processes.target_ended() {
                    break EndedBy::Target;
                }
            }
        }
    };
    progress.end();
    if let (Some(w), None) = (&mut wrapped, &status) {
        session.processes.terminate_target();
        status = Some(w.end().await.context("ending the command")?);
    }
    if let (Some(w), Some(status)) = (&wrapped, status) {
        while session.pull(false)? {}
        if !session.processes.has_execed(w.pid()) {
            // The shim has said why it could not become the command: there is nothing to tell.
            return Ok(exit_code(status));
        }
    }
    session.finish(args, &target)?;
    Ok(ended.exit_code(status))
}

/// A line for the person who waits; never into a pipe or a file.
fn say(line: &str) {
    if io::stderr().is_terminal() {
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// One line that is written over and over, on a terminal only.
#[derive(Default)]
struct Progress {
    shown: bool,
}

impl Progress {
    fn show(&mut self, line: &str) {
        if io::stderr().is_terminal() {
            let _ = write!(io::stderr(), "\r{line}\x1b[K");
            self.shown = true;
        }
    }

    fn end(&self) {
        if self.shown {
            let _ = writeln!(io::stderr());
        }
    }
}

struct Session {
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
}

impl Session {
    fn begin(args: &RecordArgs, target: &Target, survey: &Survey) -> Result<Session> {
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
            Some(dir) => Some(Whole::begin(dir, args, target, &features.backends())?),
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
        probes.seed()?;
        if args.json || args.events {
            // For who waits until everything that comes is recorded.
            json::write_begin(&target.asked, &mut io::stdout().lock())
                .context("writing the first line")?;
        }
        Ok(Session {
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

    fn recorder_ended(&self) -> bool {
        self.whole.as_ref().is_some_and(|w| w.sink.ended())
    }

    /// Empties the rings, and follows what happened; whether there is more.
    fn pull(&mut self, end: bool) -> Result<bool> {
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
            whole.drained(drained_ns, live.lost_events()?, processes, probes)?;
        }
        std::mem::replace(&mut *self.written.borrow_mut(), Ok(())).context("writing calls")?;
        Ok(more)
    }

    /// Ends the window, reads everything out, and tells it.
    fn finish(mut self, args: &RecordArgs, target: &Target) -> Result<()> {
        self.probes.stop();
        let ended_ns = monotonic_ns();
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
        if let Some(whole) = &mut self.whole {
            let state = self.live.state(&self.probes)?;
            whole.end(ended_ns, &state, &losses, &self.processes)?;
        }
        let told = summary::Told {
            asked: &target.asked,
            duration_ns: ended_ns.saturating_sub(self.began_ns),
            stats: self.pipeline.stats(),
            requests_under_way: self.probes.requests_under_way(),
            losses: losses.clone(),
        };
        self.probes.detach();
        let mut out = io::stdout().lock();
        if args.json || args.events {
            json::write(&told, &mut out)
        } else {
            out.write_all(summary::render(&told).as_bytes())
        }
        .and_then(|()| out.flush())
        .context("writing the figures")?;
        match self.whole {
            Some(whole) => {
                // It shares the recorder with us.
                drop(self.pipeline);
                whole.finish(args, losses, &mut out)
            }
            None => Ok(()),
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
