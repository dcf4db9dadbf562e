//! `phux-trace doctor`.

use std::process::ExitCode;

use crate::cli::DoctorArgs;

/// Not built yet.
///
/// # Errors
/// Always.
pub fn run(_args: DoctorArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("doctor is not built yet")
}
