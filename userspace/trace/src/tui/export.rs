//! The report that is looked at, as a file.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::privileges::AsInvoker;
use crate::report::json;
use crate::report::model::Report;

/// Writes it as `attach --json` would, to a new file in `folder` that is its owner's alone; gives
/// the file's name.
pub(super) fn export(report: &Report, folder: &Path) -> Result<PathBuf> {
    let _as_invoker = AsInvoker::begin();
    let ended_ms = report.window.start_unix_ms + report.window.duration_ns / 1_000_000;
    let path = folder.join(format!("phux-trace-{ended_ms}.json"));
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    let mut out = BufWriter::new(file);
    json::write_ndjson(report, &mut out)
        .and_then(|()| out.flush())
        .with_context(|| path.display().to_string())?;
    Ok(path)
}
