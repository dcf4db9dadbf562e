//! Processes: who is traced and why, what its threads come to, and its calls.

use super::super::app::App;
use super::super::table::{Cell, figure, sort, words};
use super::Page;
use crate::escape::name;
use crate::report::model::{Process, Relation, Report, ThreadRow};
use crate::syscalls::view::{Key, Kind, Row};

const COLUMNS: [super::super::table::Column; 12] = [
    figure("on CPU", 6),
    figure("waited", 6),
    figure("calls", 6),
    figure("time", 6),
    figure("blocked", 7),
    figure("bytes", 7),
    figure("failed", 6),
    figure("pid", 7),
    words("process", 15),
    words("why", 6),
    words("user", 8),
    words("ended", 0),
];

pub(super) fn page(app: &App, report: &Report) -> Page {
    Page::table(
        app,
        vec![],
        &COLUMNS,
        rows(app, report),
        "no process is traced",
    )
}

/// The process of a row, as the view has them sorted.
pub(in super::super) fn selected(app: &App, report: &Report) -> Option<(u32, String)> {
    let mut rows = rows(app, report);
    rows.retain(|row| app.filters.iter().all(|f| super::passes(row, f)));
    sort(&COLUMNS, &mut rows, app.view());
    let row = rows.get(app.view().row)?;
    match (row.get(7)?, row.get(8)?) {
        (Cell::Figure(pid @ 1.., _), name) => {
            Some((u32::try_from(*pid).ok()?, name.text().to_owned()))
        }
        _ => None,
    }
}

fn rows(app: &App, report: &Report) -> Vec<Vec<Cell>> {
    let rows = report.target.processes.iter();
    let rows = rows.filter(|p| super::of(app, p.pid, None));
    let mut rows: Vec<_> = rows.map(|p| row(p, report, calls(app, p.pid))).collect();
    // What came and went is in no report by its pid; its calls are all there.
    let known = |pid: u32| report.target.processes.iter().any(|p| p.pid == pid);
    if let Some((Kind::Processes, all)) = &app.seen.rows {
        rows.extend(all.iter().filter_map(|r| match r.key {
            Key::Process(pid) if !known(pid) => Some(gone(pid, r)),
            Key::Rest => Some(gone(0, r)),
            _ => None,
        }));
    }
    rows
}

/// One of which there are only calls; 0: all the others.
fn gone(pid: u32, r: &Row) -> Vec<Cell> {
    let none = || Cell::time(0).if_any(0);
    vec![
        none(),
        none(),
        Cell::count(r.count),
        Cell::time(r.time_ns),
        Cell::time(r.blocked_ns),
        Cell::bytes(r.bytes),
        Cell::count(r.errors),
        Cell::Figure(u64::from(pid), pid.to_string()),
        Cell::words(&name(&r.name)),
        Cell::words(""),
        Cell::words(""),
        Cell::words("ended"),
    ]
}

/// Its calls that pass the filters.
fn calls(app: &App, pid: u32) -> Option<&Row> {
    match &app.seen.rows {
        Some((Kind::Processes, rows)) => rows.iter().find(|r| r.key == Key::Process(pid)),
        _ => None,
    }
}

fn row(p: &Process, report: &Report, calls: Option<&Row>) -> Vec<Cell> {
    let threads = || report.threads.iter().filter(|t| t.pid == p.pid);
    let sum = |f: fn(&ThreadRow) -> u64| threads().fold(0u64, |s, t| s.saturating_add(f(t)));
    let of = |f: fn(&Row) -> u64| calls.map_or(0, f);
    let count = of(|r| r.count);
    vec![
        Cell::time(sum(|t| t.on_cpu_ns)),
        Cell::time(sum(|t| t.account.map_or(t.wait.sum, |a| a.sum))),
        Cell::count(count),
        Cell::time(of(|r| r.time_ns)).if_any(count),
        Cell::time(of(|r| r.blocked_ns)).if_any(count),
        Cell::bytes(of(|r| r.bytes)).if_any(count),
        Cell::count(of(|r| r.errors)).if_any(count),
        Cell::Figure(u64::from(p.pid), p.pid.to_string()),
        Cell::words(&name(&p.name)),
        Cell::words(match p.relation {
            Relation::Target => "target",
            Relation::Peer => "peer",
        }),
        Cell::words(&p.user),
        Cell::words(p.ended.as_deref().unwrap_or_default()),
    ]
}
