//! `phux-trace report`, and `phux-trace echo` of a recording.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::attach::{Output, echoes::told};
use crate::cli::{EchoArgs, ReportArgs};
use crate::echo::rows;
use crate::recording::replay::{open, replay};
use crate::recording::report::report;
use crate::report::json::{write_echo, write_echo_counts};
use crate::report::text::{ECHO_HEAD, echo_line};

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Says what the recording says.
///
/// # Errors
/// The recording cannot be read, or the output not written.
pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let recording = open(&args.dir)?;
    let done = replay(&recording, args.slow.map(nanoseconds), |_, _| Ok(()))?;
    let report = report(&recording.2, &done.analysis, done.losses, done.end_ns);
    Output::of_report(args.json).report(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows each echo of a recording as `echo` would have.
///
/// # Errors
/// Those of [`run`].
pub fn run_echo(dir: &Path, args: &EchoArgs) -> anyhow::Result<ExitCode> {
    let recording = open(dir)?;
    let mut out = io::stdout().lock();
    if !args.json {
        writeln!(out, "{ECHO_HEAD}").context("writing the head")?;
    }
    let slow_from = args.slow.map(nanoseconds);
    let done = replay(&recording, None, |chain, analysis| {
        if slow_from.is_some_and(|from| chain.length_ns() < from) {
            return Ok(());
        }
        let row = rows::chain(chain, &analysis.known);
        if args.json {
            write_echo(&row, &mut out)
        } else {
            writeln!(out, "{}", echo_line(&row))
        }
        .context("writing an echo")
    })?;
    let counts = done.analysis.counts();
    if args.json {
        write_echo_counts(counts, &mut out)
    } else {
        writeln!(out, "{}", told(counts))
    }
    .and_then(|()| out.flush())
    .context("writing the counts")?;
    Ok(ExitCode::SUCCESS)
}
