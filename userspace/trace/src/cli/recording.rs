//! What reads a recording: `report`, `query`, `diff`, `export`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::duration;

/// Arguments of `report`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  phux-trace report rec
  phux-trace report rec --json | jq 'select(.type == \"verdict\")'

The echoes and the verdict are made by the code that attach runs, of what was recorded.
The tables of threads, PTYs and hops are not: phux-trace query has their events.")]
pub struct ReportArgs {
    /// Directory of the recording
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Print JSON lines, as attach --json does
    #[arg(long)]
    pub json: bool,
    /// List single echoes that took at least this long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub slow: Option<Duration>,
}

/// Arguments of `query`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  phux-trace query rec                    the tables and their columns
  phux-trace query rec 'SELECT name, count(*), sum(bytes) FROM syscalls GROUP BY name'
  phux-trace query rec 'SELECT * FROM echoes ORDER BY dur DESC LIMIT 5' --format csv

Runs phux-trace-query, which has to lie beside phux-trace. It only reads.")]
pub struct QueryArgs {
    /// Directory of the recording
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The query
    #[arg(value_name = "SQL")]
    pub sql: Option<String>,
    /// How the answer is written
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// With a header
    Csv,
    /// One object a row
    Json,
}

/// Arguments of `diff`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  phux-trace diff before after
  phux-trace diff before after --json | jq .regressions

Percentiles of calls, waits for a CPU, PTYs, flushes, hops and echoes. A change is one
whose 99 % confidence intervals do not overlap. Exit status 1 when something has become
slower.")]
pub struct DiffArgs {
    /// Directory of the older recording
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// Directory of the newer one
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// Show what did not change as well
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `export`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("what").required(true))]
#[command(override_usage = "phux-trace export <DIR> <WHAT>")]
#[command(after_help = "\
Examples:
  phux-trace export rec --perfetto rec.pftrace    for ui.perfetto.dev
  phux-trace export rec --flamegraph calls.svg    time by thread, call and file
  phux-trace export rec --folded | flamegraph.pl > calls.svg
  phux-trace export rec --csv syscalls > syscalls.csv

FILE - is standard output.")]
pub struct ExportArgs {
    /// Directory of the recording
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// A trace for Perfetto
    #[arg(long, value_name = "FILE", group = "what")]
    pub perfetto: Option<PathBuf>,
    /// Collapsed stacks
    #[arg(long, value_name = "FILE", group = "what", num_args = 0..=1, default_missing_value = "-")]
    pub folded: Option<PathBuf>,
    /// A flame graph, SVG
    #[arg(long, value_name = "FILE", group = "what")]
    pub flamegraph: Option<PathBuf>,
    /// A profile for speedscope
    #[arg(long, value_name = "FILE", group = "what")]
    pub speedscope: Option<PathBuf>,
    /// A table as CSV, to standard output
    #[arg(long, value_name = "TABLE", group = "what")]
    pub csv: Option<String>,
}
