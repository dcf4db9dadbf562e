//! `phux-trace export`.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use phux_recording::Table;
use phux_recording::export::{Stacks, Weight, csv, flamegraph, folded, perfetto, speedscope};

use crate::cli::ExportArgs;
use crate::privileges::AsInvoker;
use crate::recording::replay::open;

/// Writes a recording in the format that was asked for.
///
/// # Errors
/// The recording cannot be read, or the file not written.
pub fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let (dataset, id, _) = open(&args.dir)?;
    let _files_are_the_callers = AsInvoker::begin();
    let stacks = || Stacks::of(&dataset, id, Weight::Time);
    if let Some(file) = &args.perfetto {
        written(file, |out| perfetto(&dataset, id, out))?;
    } else if let Some(file) = &args.folded {
        written(file, |out| folded(&stacks()?, out))?;
    } else if let Some(file) = &args.flamegraph {
        written(file, |out| flamegraph(&stacks()?, out))?;
    } else if let Some(file) = &args.speedscope {
        written(file, |out| speedscope(&stacks()?, out))?;
    } else if let Some(name) = &args.csv {
        let Some(table) = Table::ALL.iter().find(|t| t.name() == name) else {
            let names: Vec<&str> = Table::ALL.iter().map(|t| t.name()).collect();
            bail!("no table is called {name}; there are {}", names.join(", "));
        };
        written(Path::new("-"), |out| csv(&dataset, id, *table, out))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// To standard output where the file is `-`. Keystroke timing is sensitive: a new file is the owner's alone.
fn written(
    file: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), phux_recording::Error>,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", file.display());
    let mut out: Box<dyn Write> = if file == Path::new("-") {
        Box::new(BufWriter::new(io::stdout().lock()))
    } else {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        Box::new(BufWriter::new(options.open(file).with_context(cannot)?))
    };
    write(&mut out).with_context(cannot)?;
    out.flush().with_context(cannot)
}
