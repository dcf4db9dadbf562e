//! `phux-trace attach`.

use std::process::ExitCode;

use crate::attach;
use crate::cli::AttachArgs;

/// Profiles a live process, and says where its time goes.
///
/// # Errors
/// Unknown target, missing privileges, a kernel that refuses, output that cannot be written.
pub fn run(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    attach::run(args)
}
