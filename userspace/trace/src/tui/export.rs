//! What is looked at, as a file: a report as JSON, rows as CSV, a flame graph as collapsed stacks.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::app::{App, Tab};
use super::tabs::stream::Item;
use crate::privileges::AsInvoker;
use crate::report::json;
use crate::report::model::Report;
use crate::syscalls::view::{Key, Row};

/// Writes what the open tab shows to a new file in `folder` that is its owner's alone; gives the
/// file's name.
pub(super) fn export(app: &App, folder: &Path) -> Result<PathBuf> {
    let report = app.report().context("there is no report yet")?;
    let (kind, bytes) = match app.tab {
        Tab::Syscalls | Tab::Files => {
            let rows = app.seen.rows.iter().flat_map(|(_, rows)| rows);
            ("csv", rows_as_csv(rows).into_bytes())
        }
        Tab::Stream => ("csv", stream_as_csv(app).into_bytes()),
        Tab::Flame => {
            let stacks = app.flame.folded(report, app.seen.tree.as_ref());
            ("folded", stacks.into_bytes())
        }
        _ => {
            let mut out = Vec::new();
            json::write_ndjson(report, &mut out).context("the report")?;
            ("json", out)
        }
    };
    write(report, folder, kind, &bytes)
}

fn write(report: &Report, folder: &Path, kind: &str, bytes: &[u8]) -> Result<PathBuf> {
    let _as_invoker = AsInvoker::begin();
    let ended_ms = report.window.start_unix_ms + report.window.duration_ns / 1_000_000;
    let path = folder.join(format!("phux-trace-{ended_ms}.{kind}"));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(bytes))
        .with_context(|| path.display().to_string())?;
    Ok(path)
}

/// As RFC 4180 has it.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn rows_as_csv<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut out = String::from(
        "name,pid,calls,failed,bytes,time_ns,blocked_ns,wait_ns,p50_ns,p95_ns,p99_ns,max_ns\n",
    );
    for r in rows {
        let pid = match r.key {
            Key::Process(pid) | Key::Thread { pid, .. } => pid.to_string(),
            _ => String::new(),
        };
        let figures = [
            r.count,
            r.errors,
            r.bytes,
            r.time_ns,
            r.blocked_ns,
            r.wait_ns,
            r.p50,
            r.p95,
            r.p99,
            r.max,
        ];
        let figures = figures.map(|n| n.to_string()).join(",");
        // A String takes everything.
        let _ = writeln!(out, "{},{pid},{figures}", quoted(&r.name));
    }
    out
}

fn stream_as_csv(app: &App) -> String {
    let mut out = String::from(
        "ended_ns,duration_ns,pid,tid,thread,call,result,errno,bytes,gap_ns,gap_off_cpu_ns,\
         blocked_ns,wait_ns,fd,file,file2\n",
    );
    for item in app.stream.items(&app.filters) {
        // Echoes are in the report, link by link.
        let Item::Call(c) = item else { continue };
        let file = |name: &Option<crate::syscalls::Name>| quoted(name.as_deref().unwrap_or(""));
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            c.start.saturating_add(c.dur),
            c.dur,
            c.pid,
            c.tid,
            quoted(&c.comm),
            c.name(),
            c.ret,
            c.errno(),
            c.bytes,
            c.gap,
            c.gap_off_ns,
            c.blocked_ns,
            c.wait_ns,
            c.fd,
            file(&c.file),
            file(&c.file2),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_comma_or_a_quote_is_in_is_quoted() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("a\"b\nc"), "\"a\"\"b\nc\"");
    }
}
