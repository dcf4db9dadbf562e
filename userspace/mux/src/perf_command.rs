//! `phux perf`: shows a server's telemetry.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use phux_perf::{PerfReport, Span};
use phux_wire::get_perf;

/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest interval of `--watch`.
const MIN_INTERVAL: f64 = 0.1;
/// The longest one.
const MAX_INTERVAL: f64 = 86_400.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// One JSON document per report
    #[arg(long)]
    json: bool,
    /// Show what happened in each interval of so many seconds, until interrupted
    #[arg(long, value_name = "SECS")]
    watch: Option<f64>,
    /// Zero the server's figures after reading them; everyone who reads them sees that
    #[arg(long)]
    reset: bool,
}

/// Shows the report, once or again and again.
///
/// # Errors
/// Where there is no server, or none with telemetry.
pub(crate) fn run(args: &Args, socket: &Path) -> anyhow::Result<ExitCode> {
    let Some(seconds) = args.watch else {
        print(&fetch(socket, args.reset)?, Span::SinceStart, args.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    ensure!(
        (MIN_INTERVAL..=MAX_INTERVAL).contains(&seconds),
        "the interval is {MIN_INTERVAL} s to {MAX_INTERVAL} s"
    );
    let interval = Duration::from_secs_f64(seconds);
    let mut before = fetch(socket, args.reset)?;
    loop {
        std::thread::sleep(interval);
        let report = fetch(socket, args.reset)?;
        // After a reset the figures begin anew, which the difference sees by itself.
        print(&report.delta(&before), Span::Interval, args.json)?;
        before = report;
    }
}

fn fetch(socket: &Path, reset: bool) -> anyhow::Result<PerfReport> {
    let json = get_perf(socket, "phux perf", reset, TIMEOUT)
        .with_context(|| format!("no telemetry from {}", socket.display()))?;
    PerfReport::from_json(&json).context("the server's answer is not a report")
}

fn print(report: &PerfReport, span: Span, json: bool) -> anyhow::Result<()> {
    use std::io::Write;
    let text = if json {
        report.to_json()?
    } else {
        report.text_table(span)
    };
    // Whoever reads may have seen enough: that is an error here, and not a panic.
    writeln!(std::io::stdout(), "{}", text.trim_end()).context("cannot write")
}
