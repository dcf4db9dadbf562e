//! Processes: who is traced and why, and what its threads come to.

use super::super::app::App;
use super::super::table::{Cell, figure, words};
use super::Page;
use crate::escape::name;
use crate::report::model::{Process, Relation, Report, ThreadRow};

pub(super) fn page(app: &App, report: &Report) -> Page {
    let columns = [
        figure("on CPU", 7),
        figure("waited", 7),
        figure("longest", 7),
        figure("threads", 7),
        figure("pid", 7),
        words("process", 15),
        words("user", 8),
        words("why", 6),
        words("ended", 0),
    ];
    let rows = report.target.processes.iter();
    let rows = rows.map(|p| row(p, report)).collect();
    Page::table(app, vec![], &columns, rows, "no process is traced")
}

fn row(p: &Process, report: &Report) -> Vec<Cell> {
    let threads = || report.threads.iter().filter(|t| t.pid == p.pid);
    let sum = |f: fn(&ThreadRow) -> u64| threads().fold(0u64, |s, t| s.saturating_add(f(t)));
    vec![
        Cell::time(sum(|t| t.on_cpu_ns)),
        Cell::time(sum(|t| t.account.map_or(t.wait.sum, |a| a.sum))),
        Cell::time(threads().map(|t| t.wait.max).max().unwrap_or(0)),
        Cell::count(sum(|t| t.threads)),
        Cell::Figure(u64::from(p.pid), p.pid.to_string()),
        Cell::words(&name(&p.name)),
        Cell::words(&p.user),
        Cell::words(match p.relation {
            Relation::Target => "target",
            Relation::Peer => "peer",
        }),
        Cell::words(p.ended.as_deref().unwrap_or_default()),
    ]
}
