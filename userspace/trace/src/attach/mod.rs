//! One run of `attach`: from what was typed to the report.
//!
//! [`session`] holds the run together; [`wrapped`] starts a command that is to be
//! traced from its first instruction; [`backends`] asks what the kernel allows; [`hops`] finds and attaches the target's USDT
//! probes; [`processes`] keeps who is who; [`assemble`] makes the report.

mod assemble;
pub(crate) mod backends;
mod cost;
mod events;
mod hops;
mod inside;
pub(crate) mod processes;
pub(crate) mod session;
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
}

impl Output {
    fn of(args: &AttachArgs) -> Output {
        Output {
            json: args.json || args.events,
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

    /// A line for the person who waits; never into a pipe or a file.
    fn say(self, line: &str) {
        if io::stderr().is_terminal() {
            let _ = writeln!(io::stderr(), "{line}");
        }
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
