//! `phux-trace attach`.

use std::process::ExitCode;

use crate::cli::AttachArgs;

/// Not built yet.
///
/// # Errors
/// Always.
pub fn run(_args: AttachArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("attach is not built yet")
}
