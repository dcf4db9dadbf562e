//! One run of `attach`: from what was typed to the report.
//!
//! [`session`] holds the run together; [`wrapped`] starts a command that is to be
//! traced from its first instruction; [`backends`] asks what the kernel allows; [`hops`] finds and attaches the target's USDT
//! probes; [`processes`] keeps who is who, [`clients`] finds who talks to the target by a socket;
//! [`assemble`] makes the report. Without the privileges to trace [`unprivileged`] makes one of what
//! `/proc` and the servers themselves tell.

mod assemble;
pub(crate) mod backends;
mod clients;
mod cost;
mod events;
mod hops;
mod inside;
pub(crate) mod limits;
pub(crate) mod processes;
pub(crate) mod session;
pub(crate) mod signals;
mod unprivileged;
pub mod wrapped;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli::AttachArgs;
use crate::report::model::Report;
use crate::report::{json, text};

pub use session::run;

/// How and where a run's output goes.
#[derive(Debug, Clone, Copy)]
struct Output {
    json: bool,
    /// Each event besides.
    events: bool,
}

impl Output {
    fn of(args: &AttachArgs) -> Output {
        Output {
            json: args.json || args.events,
            events: args.events,
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
