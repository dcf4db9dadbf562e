//! `phux-trace query`: becomes the program that has the SQL engine.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use crate::cli::{Format, QueryArgs};
use crate::recording::replay;

/// Its name. Found beside our own executable, and nowhere else: root would run whatever else is so called.
const PROGRAM: &str = "phux-trace-query";

/// Becomes `phux-trace-query`.
///
/// # Errors
/// There is no recording, or the program is not there.
pub fn run(args: &QueryArgs) -> anyhow::Result<ExitCode> {
    // As who may write there: what a killed recorder left is finished first.
    drop(replay::open(&args.dir)?);
    let program = program()?;
    let format = match args.format {
        Format::Table => "table",
        Format::Csv => "csv",
        Format::Json => "json",
    };
    let mut command = Command::new(&program);
    command.args(["--format", format, "--"]).arg(&args.dir);
    command.args(&args.sql);
    let refused = command.exec();
    Err(refused).with_context(|| format!("cannot run {}", program.display()))
}

fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("finding our own executable")?;
    let beside = own.with_file_name(PROGRAM);
    if !beside.is_file() {
        bail!(
            "{PROGRAM}, which has the SQL engine, is not beside {}. In phux-trace's sources \
             `cargo build --release --manifest-path userspace/query/Cargo.toml` makes it; copy it there. \
             DuckDB, and any other engine that reads Parquet, can ask the recording without it",
            own.display()
        );
    }
    Ok(beside)
}
