//! `phux-trace schema`.

use std::process::ExitCode;

use crate::cli::SchemaArgs;

/// Not built yet.
///
/// # Errors
/// Always.
pub fn run(_args: SchemaArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("schema is not built yet")
}
