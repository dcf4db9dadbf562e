//! A run of the command line: set up, pull until something ends it, tell.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tokio::time::Instant;

use super::select;
use super::session::{Pulse, Session, Step};
use crate::attach::exit_code;
use crate::attach::limits;
use crate::attach::signals::Signals;
use crate::attach::waits::{EndedBy, until, wait};
use crate::attach::who::{describe, find};
use crate::attach::wrapped::Wrapped;
use crate::cli::RecordArgs;
use crate::escape::visible;
use crate::privileges::{self, Files, Need};
use crate::probes::system::System;
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
    let target = target(args, wrapped.as_ref(), &survey)?;
    let mut session = Session::begin(args, &target, &survey, Files::Callers)?;
    // Everything is loaded and attached: what is left to do needs less.
    privileges::keep(Need {
        kernel: System::look().version,
        end_command: wrapped.is_some(),
        ..Need::default()
    })
    .context("giving up privileges")?;
    if !session.target_lives() {
        bail!("{} ended before recording began", describe(&target));
    }
    if let Some(w) = &mut wrapped {
        session.starts_as(w.pid());
        w.go()?;
    }
    say(&match &wrapped {
        Some(_) => format!("recording {}", visible(&target.asked)),
        None => format!("recording {}", describe(&target)),
    });

    let mut pulse = Pulse::new(wrapped.is_none());
    let deadline = args.duration.map(|d| Instant::now() + d);
    let mut status = None;
    let mut progress = Progress::default();
    let ended = loop {
        tokio::select! {
            // What ends the run must not wait for rings that never empty.
            biased;
            () = signals.any() => break EndedBy::Signal,
            () = until(deadline) => break EndedBy::Duration,
            result = wait(&mut wrapped) => {
                status = Some(result.context("waiting for the command")?);
                break EndedBy::Target;
            }
            step = session.step(&mut pulse) => match step? {
                Step::Pulled => {}
                Step::Looked => if let Some(line) = session.progress()? {
                    progress.show(&line);
                },
                Step::TargetEnded => break EndedBy::Target,
                Step::RecorderEnded => break EndedBy::Signal,
            },
        }
    };
    progress.end();
    if let (Some(w), None) = (&mut wrapped, &status) {
        session.terminate_target();
        status = Some(w.end().await.context("ending the command")?);
    }
    if let (Some(w), Some(status)) = (&wrapped, status) {
        while session.pull(false)? {}
        if !session.has_execed(w.pid()) {
            // The shim has said why it could not become the command: there is nothing to tell.
            return Ok(exit_code(status));
        }
    }
    let mut out = io::stdout().lock();
    session.finish(args, &target, &mut out)?;
    Ok(ended.exit_code(status))
}

/// Who is to be recorded.
///
/// # Errors
/// Nobody is, or too many could be meant.
pub(crate) fn target(
    args: &RecordArgs,
    wrapped: Option<&Wrapped>,
    survey: &Survey,
) -> Result<Target> {
    let asked = (args.target.as_deref(), args.pid);
    match (&args.cgroup, asked, wrapped) {
        (Some(cgroup), (None, None), None) => {
            let members = select::members(cgroup)?;
            let asked = format!("cgroup {}", cgroup.display());
            let target = resolve::target(asked, &members, survey, Vec::new());
            if target.processes.is_empty() {
                bail!("no process is in cgroup {}", cgroup.display());
            }
            Ok(target)
        }
        _ => find(asked, &args.command, wrapped, survey),
    }
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
