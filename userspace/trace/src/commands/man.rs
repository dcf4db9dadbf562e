//! `phux-trace man`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;

use crate::cli::{Cli, EXAMPLES, EXIT_CODES, ManArgs};
use crate::privileges::AsInvoker;

/// Prints the man page, or writes one for each command.
///
/// # Errors
/// The output or a page cannot be written.
pub fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    match &args.dir {
        Some(dir) => {
            let _files_are_the_callers = AsInvoker::begin();
            let cannot = || format!("cannot write man pages to {}", dir.display());
            clap_mangen::generate_to(Cli::command(), dir).with_context(cannot)?;
            std::fs::write(dir.join("phux-trace.1"), page()?).with_context(cannot)?;
        }
        None => io::stdout().lock().write_all(&page()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The main page: what clap_mangen makes of the definition, with the sections that readers of man
/// pages look for.
fn page() -> io::Result<Vec<u8>> {
    let man = Man::new(Cli::command());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_subcommands_section(&mut page)?;
    man.render_options_section(&mut page)?;
    section(&mut page, "EXIT STATUS", EXIT_CODES)?;
    section(&mut page, "EXAMPLES", EXAMPLES)?;
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// A section whose lines stay as they are; its first line, a heading for `--help`, is left out.
fn section(page: &mut Vec<u8>, title: &str, text: &str) -> io::Result<()> {
    writeln!(page, ".SH \"{title}\"\n.nf")?;
    for line in text.lines().skip(1) {
        // roff reads a leading dot or quote as a request, and a hyphen as a typographic one.
        writeln!(page, "\\&{}", line.replace('\\', "\\e").replace('-', "\\-"))?;
    }
    writeln!(page, ".fi")
}
