//! `phux-trace echo`.

use std::process::ExitCode;

use crate::attach;
use crate::cli::EchoArgs;

/// Shows each echo as it happens.
///
/// # Errors
/// Unknown target, missing privileges, a kernel that refuses, output that cannot be written.
pub fn run(args: &EchoArgs) -> anyhow::Result<ExitCode> {
    attach::run_echo(args)
}
