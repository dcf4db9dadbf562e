//! `phux-trace completions SHELL`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};

/// Prints the completions.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    // Into memory first: clap_complete panics when its output breaks.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "phux-trace", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
