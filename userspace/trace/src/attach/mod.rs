//! One run of `attach`: from what was typed to the report.
//!
//! [`session`] holds the run together; [`wrapped`] starts a command that is to be
//! traced from its first instruction; [`backends`] asks what the kernel allows; [`hops`] finds and attaches the target's USDT
//! probes; [`processes`] keeps who is who, [`clients`] finds who talks to the target by a socket;
//! [`assemble`] makes the report. With a view on the terminal ([`screen`]) [`calls`] are followed too, and
//! [`recording`] writes it all down when asked. Without the privileges to trace [`unprivileged`] makes one of what
//! `/proc` and the servers themselves tell.

pub(crate) mod assemble;
pub(crate) mod backends;
mod calls;
pub(crate) mod clients;
pub(crate) mod cost;
pub(crate) mod echoes;
pub(crate) mod ends;
mod events;
pub(crate) mod hops;
pub(crate) mod inside;
pub(crate) mod limits;
pub(crate) mod names;
pub(crate) mod processes;
mod recording;
mod screen;
pub(crate) mod session;
pub(crate) mod signals;
mod unprivileged;
pub(crate) mod waits;
pub(crate) mod who;
pub(crate) mod window;
pub mod wrapped;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli::{AttachArgs, By, EchoArgs};
use crate::echo::Counts;
use crate::report::model::Report;
use crate::report::{clock, json, text};

use echoes::View;
pub use session::{run, run_echo, run_top};

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How and where a run's output goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
    by_class: bool,
    /// Each event besides.
    events: bool,
    /// Each echo, and no report.
    echoes: Option<View>,
    /// On the whole terminal while it runs.
    tui: bool,
    /// Nothing but that.
    quiet: bool,
}

impl Output {
    fn of(args: &AttachArgs) -> Output {
        Output {
            json: args.json || args.events,
            by_class: args.by == Some(By::Class),
            events: args.events,
            echoes: None,
            tui: args.tui,
            quiet: false,
        }
    }

    /// Of the live view of echoes.
    fn of_echo(args: &EchoArgs) -> Output {
        Output {
            json: args.json,
            by_class: false,
            events: false,
            echoes: Some(View {
                json: args.json,
                slow_from: args.slow.map(nanoseconds),
            }),
            tui: false,
            quiet: false,
        }
    }

    /// Of the report of a recording.
    pub(crate) fn of_report(json: bool) -> Output {
        Output {
            json,
            by_class: false,
            events: false,
            echoes: None,
            tui: false,
            quiet: false,
        }
    }

    /// A report, whole or of an interval.
    pub(crate) fn report(self, report: &Report) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            json::write_ndjson(report, &mut out)
        } else if report.last {
            let color = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let usual = text::Style::default();
            let style = text::Style {
                color,
                columns: columns().unwrap_or(usual.columns),
                by_class: self.by_class,
                offset: clock::local_offset,
                ..usual
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
}

/// Columns of the terminal that the report goes to; `None` where it is none, or does not know.
fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col != 0).then_some(usize::from(size.ws_col))
}

/// The exit status for a command that ended so (`128 + n` for a signal).
pub(crate) fn exit_code(status: std::process::ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status
        .code()
        .or_else(|| status.signal().map(|n| 128 + n))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
