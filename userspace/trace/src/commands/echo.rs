//! `phux-trace echo`.

use std::path::Path;
use std::process::ExitCode;

use super::report;
use crate::attach;
use crate::cli::EchoArgs;

/// Shows each echo as it happens, or as it was recorded.
///
/// # Errors
/// Unknown target, missing privileges, a kernel that refuses, output that cannot be written.
pub fn run(args: &EchoArgs) -> anyhow::Result<ExitCode> {
    // As with probes: what has a slash in it is a file, and no process is called so.
    match args.target.as_ref().map(Path::new) {
        Some(dir) if dir.is_dir() && dir.as_os_str().as_encoded_bytes().contains(&b'/') => {
            report::run_echo(dir, args)
        }
        _ => attach::run_echo(args),
    }
}
