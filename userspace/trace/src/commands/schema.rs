//! `phux-trace schema`: the JSON schema of the lines that `attach --json` writes.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::SchemaArgs;
use crate::report::schema::schema;

/// Prints the schema.
///
/// # Errors
/// The output cannot be written.
pub fn run(_args: SchemaArgs) -> anyhow::Result<ExitCode> {
    let text = serde_json::to_string_pretty(&schema()).context("writing the schema as JSON")?;
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}
