//! `phux-trace top`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::ensure;

use crate::attach;
use crate::cli::TopArgs;
use crate::tui;

/// Shows a live process, or a recording, on the whole terminal.
///
/// # Errors
/// No terminal, unknown target, missing privileges, a kernel that refuses, no recording.
pub fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    // As with echo: what has a slash in it is a directory, and no process is called so.
    match args.target.as_ref().map(Path::new) {
        Some(dir) if dir.is_dir() && dir.as_os_str().as_encoded_bytes().contains(&b'/') => {
            ensure!(
                tui::has_terminal(),
                "this needs a terminal for its input and output; report prints the same as text"
            );
            tui::replay::run(dir)
        }
        _ => attach::run_top(args),
    }
}
