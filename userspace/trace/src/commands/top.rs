//! `phux-trace top`.

use std::process::ExitCode;

use crate::attach;
use crate::cli::TopArgs;

/// Shows a live process on the whole terminal.
///
/// # Errors
/// No terminal, unknown target, missing privileges, a kernel that refuses.
pub fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    attach::run_top(args)
}
