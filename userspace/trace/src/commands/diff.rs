//! `phux-trace diff`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use phux_recording::diff;

use crate::cli::DiffArgs;
use crate::recording::replay::open;
use crate::report::json::write_value;

/// Compares; status 1 tells of a regression.
///
/// # Errors
/// A recording cannot be read, or the output not written.
pub fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let named = |dir: &std::path::Path| open(dir).with_context(|| dir.display().to_string());
    let (a, id_a, _) = named(&args.a)?;
    let (b, id_b, _) = named(&args.b)?;
    let found = diff::diff((&a, id_a), (&b, id_b), &diff::Options::default())?;
    let mut out = io::stdout().lock();
    if args.json {
        write_value(&found, &mut out)?;
    } else {
        out.write_all(diff::render(&found, args.all).as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::from(u8::from(found.regressions != 0)))
}
