//! One run of `attach`: from what was typed to the report.
//!
//! [`session`] holds the run together; [`wrapped`] starts a command that is to be
//! traced from its first instruction; [`backends`] asks what the kernel allows; [`hops`] finds and attaches the target's USDT
//! probes; [`processes`] keeps who is who; [`assemble`] makes the report.

mod assemble;
mod backends;
mod cost;
mod echoes;
mod events;
mod hops;
mod inside;
mod names;
mod processes;
mod session;
pub mod wrapped;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli::{AttachArgs, EchoArgs};
use crate::echo::Counts;
use crate::report::model::Report;
use crate::report::{json, text};

use echoes::View;
pub use session::{run, run_echo};

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How and where a run's output goes.
#[derive(Debug, Clone, Copy)]
struct Output {
    json: bool,
    /// Each event besides.
    events: bool,
    /// Each echo, and no report.
    echoes: Option<View>,
}

impl Output {
    fn of(args: &AttachArgs) -> Output {
        Output {
            json: args.json || args.events,
            events: args.events,
            echoes: None,
        }
    }

    /// Of the live view of echoes.
    fn of_echo(args: &EchoArgs) -> Output {
        Output {
            json: args.json,
            events: false,
            echoes: Some(View {
                json: args.json,
                slow_from: args.slow.map(nanoseconds),
            }),
        }
    }

    /// A report, whole or of an interval.
    fn report(self, report: &Report) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            json::write_ndjson(report, &mut out)
        } else if report.last {
            let color = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let style = text::Style {
                color,
                ..text::Style::default()
            };
            out.write_all(text::render(report, &style).as_bytes())
        } else {
            out.write_all(text::render_interval(report).as_bytes())
        }
        .and_then(|()| out.flush())
        .context("writing the report")
    }

    /// How many echoes there were, and what became of them.
    fn counts(self, counts: &Counts) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            json::write_echo_counts(counts, &mut out)
        } else {
            writeln!(out, "{}", echoes::told(counts))
        }
        .and_then(|()| out.flush())
        .context("writing the counts")
    }

    /// A line for the person who waits; never into a pipe or a file.
    fn say(self, line: &str) {
        if io::stderr().is_terminal() {
            let _ = writeln!(io::stderr(), "{line}");
        }
    }
}

/// The exit status for a command that ended so (`128 + n` for a signal).
fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status
        .code()
        .or_else(|| status.signal().map(|n| 128 + n))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
