//! `phux-trace schema`: the JSON schema of the lines that `--json` writes.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli::SchemaArgs;
use crate::report::schema::schema;

/// Prints the schema to standard output.
///
/// # Errors
/// If standard output cannot be written to.
pub fn run(_args: SchemaArgs) -> Result<ExitCode> {
    let text = serde_json::to_string_pretty(&schema()).context("writing the schema as JSON")?;
    writeln!(io::stdout().lock(), "{text}").context("writing to standard output")?;
    Ok(ExitCode::SUCCESS)
}
