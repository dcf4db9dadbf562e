//! `phux-trace man`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};

/// Prints the man page, or writes one for each command.
///
/// # Errors
/// The output or a page cannot be written.
pub fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let command = Cli::command();
    match &args.dir {
        Some(dir) => clap_mangen::generate_to(command, dir)
            .with_context(|| format!("cannot write man pages to {}", dir.display()))?,
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            io::stdout().lock().write_all(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
