//! `phux-trace list`: every process that holds PTYs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use super::style::{DIM, HEAD, NAME, WARN, wrap};
use crate::cli::ListArgs;
use crate::escape::{name, visible};
use crate::target::binary::Binaries;
use crate::target::pty::{Holder, Pty, Side};
use crate::target::{Process, Survey, owner};

/// Providers of the C and C++ run-time: nearly every program has them, so the table does not repeat
/// them.
const EVERYWHERE: [&str; 4] = ["libc", "rtld", "libstdcxx", "libgcc"];

/// Columns of the table.
const WIDTH: usize = 80;
/// Where the lines about PTYs are continued.
const INDENT: usize = 20;

/// A row, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Row<'a> {
    pid: u32,
    name: &'a str,
    user: &'a str,
    uid: u32,
    exe: Option<String>,
    /// `phux server`, `tmux client` …: what it is, where known.
    role: Option<String>,
    threads: u32,
    /// PTYs of which it holds the master.
    master_of: usize,
    ptys: Vec<PtyCell<'a>>,
    /// USDT providers of its executable and libraries; `null` where they could not be read.
    usdt_providers: Option<BTreeSet<String>>,
}

/// A PTY in a row: both ends.
#[derive(Debug, Serialize)]
struct PtyCell<'a> {
    index: u32,
    /// `st_dev` of the devpts instance.
    devpts: u64,
    holds_master: bool,
    holds_slave: bool,
    master: Vec<EndCell<'a>>,
    slave: Vec<EndCell<'a>>,
}

/// A process at an end of a PTY.
#[derive(Debug, Serialize)]
struct EndCell<'a> {
    pid: u32,
    name: &'a str,
    fds: &'a [u32],
}

/// Prints the list.
///
/// # Errors
/// `/proc` cannot be read, or the output not written.
pub fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let survey = Survey::take().context("cannot read /proc")?;
    let mut binaries = Binaries::default();
    let myself = std::process::id();
    let rows: Vec<Row<'_>> = survey
        .holders()
        .into_iter()
        .filter(|pid| *pid != myself)
        .filter_map(|pid| survey.processes.get(&pid))
        .map(|process| row(process, &survey, &mut binaries))
        .collect();
    if args.json {
        let mut out = io::BufWriter::new(io::stdout().lock());
        for row in &rows {
            serde_json::to_writer(&mut out, row)?;
            writeln!(out)?;
        }
        out.flush()?;
    } else {
        anstream::stdout()
            .lock()
            .write_all(table(&rows, &survey).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row<'a>(process: &'a Process, survey: &'a Survey, binaries: &mut Binaries) -> Row<'a> {
    let pid = process.pid;
    let ptys: Vec<PtyCell<'a>> = survey.ptys_of(pid).map(|pty| cell(pty, pid)).collect();
    Row {
        pid,
        name: &process.comm,
        user: &process.user,
        uid: process.uid,
        exe: process
            .exe
            .as_ref()
            .map(|e| e.to_string_lossy().into_owned()),
        role: owner(process, survey).map(|(mux, part)| format!("{} {}", mux.name(), part.name())),
        threads: process.threads,
        master_of: ptys.iter().filter(|p| p.holds_master).count(),
        ptys,
        usdt_providers: providers(pid, binaries),
    }
}

fn providers(pid: u32, binaries: &mut Binaries) -> Option<BTreeSet<String>> {
    let files = binaries.of_process(pid).ok()?;
    let notes = files.iter().filter_map(|f| f.notes.as_ref().ok());
    Some(
        notes
            .flat_map(|n| n.probes.iter().map(|p| p.provider.clone()))
            .collect(),
    )
}

fn cell(pty: &Pty, pid: u32) -> PtyCell<'_> {
    PtyCell {
        index: pty.index,
        devpts: pty.devpts,
        holds_master: pty.held_by(pid, Side::Master),
        holds_slave: pty.held_by(pid, Side::Slave),
        master: pty.master.iter().map(end).collect(),
        slave: pty.slave.iter().map(end).collect(),
    }
}

fn end(holder: &Holder) -> EndCell<'_> {
    EndCell {
        pid: holder.pid,
        name: &holder.name,
        fds: &holder.fds,
    }
}

fn table(rows: &[Row<'_>], survey: &Survey) -> String {
    let mut out = String::new();
    let mut hidden = false;
    if rows.is_empty() {
        out.push_str("No process holds a PTY.\n");
    } else {
        let head = format!(
            "{:>7}  {:<16} {:<12} {:>7}  USDT",
            "PID", "NAME", "USER", "THREADS"
        );
        let _ = writeln!(out, "{HEAD}{head}{HEAD:#}");
    }
    for row in rows {
        let usdt = match &row.usdt_providers {
            None => "not readable".to_owned(),
            Some(all) => {
                let own: Vec<String> = all
                    .iter()
                    .filter(|p| !EVERYWHERE.contains(&p.as_str()))
                    .map(|p| visible(p).into_owned())
                    .collect();
                hidden |= own.len() < all.len();
                if own.is_empty() {
                    "-".to_owned()
                } else {
                    wrap(own, 49, WIDTH)
                }
            }
        };
        let _ = writeln!(
            out,
            "{:>7}  {NAME}{:<16}{NAME:#} {:<12} {:>7}  {usdt}",
            row.pid,
            name(row.name),
            visible(row.user),
            row.threads
        );
        for pty in &row.ptys {
            out.push_str(&pty_line(pty, row.pid, survey.several_devpts()));
        }
    }
    if hidden {
        let names = EVERYWHERE.join(", ");
        let _ = writeln!(
            out,
            "{DIM}USDT providers left out, as most programs have them: {names}{DIM:#}"
        );
    }
    if survey.refused > 0 {
        let n = survey.refused;
        let _ = writeln!(
            out,
            "{WARN}{n} processes of other users could not be looked into; sudo shows all{WARN:#}"
        );
    }
    out
}

/// `pts/3 master      bash 1301, vim 1340`: who is at the other end, or shares this one.
fn pty_line(pty: &PtyCell<'_>, pid: u32, several_devpts: bool) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut ends = |label: &str, holders: &[EndCell<'_>]| {
        let mut label = Some(label);
        for holder in holders.iter().filter(|h| h.pid != pid) {
            if let Some(last) = words.last_mut() {
                last.push(if label.is_some() { ';' } else { ',' });
            }
            let label = label.take().map(|l| format!("{l} ")).unwrap_or_default();
            words.push(format!("{label}{} {}", name(holder.name), holder.pid));
        }
    };
    let own = match (pty.holds_master, pty.holds_slave) {
        (true, true) => "both ends",
        (true, false) => "master",
        _ => "slave",
    };
    if pty.holds_master {
        ends("slave:", &pty.slave);
        ends("master also:", &pty.master);
    } else {
        ends("master:", &pty.master);
        ends("slave also:", &pty.slave);
    }
    if words.is_empty() {
        words.push("nobody else".to_owned());
    }
    if several_devpts {
        let (major, minor) = (rustix::fs::major(pty.devpts), rustix::fs::minor(pty.devpts));
        words.push(format!("(devpts {major}:{minor})"));
    }
    let index = format!("pts/{}", pty.index);
    format!(
        "         {DIM}{index:<7} {own:<9}{DIM:#}  {}\n",
        wrap(words, INDENT + 8, WIDTH)
    )
}
