//! Threads: how long each waited for a CPU, and who ran instead.

use ratatui::text::Line;

use super::super::app::App;
use super::super::table::{Cell, Column, figure, sort, words};
use super::Page;
use crate::escape::name;
use crate::report::model::{Report, ThreadRow};
use crate::report::{text, units, words};

const COLUMNS: [Column; 8] = [
    figure("waited", 7),
    words("thread", 15),
    figure("tid", 7),
    words("class", 8),
    figure("p50", 6),
    figure("p99", 6),
    figure("max", 6),
    words("who ran instead", 0),
];

pub(super) fn page(app: &App, report: &Report) -> Page {
    let rows = sorted(app, report);
    // On a narrow terminal the last column has no room: of the selected thread it is told in full.
    let selected = rows.get(app.view().window(rows.len(), 1).row);
    let detail = selected.and_then(|r| r.get(COLUMNS.len()));
    let head = detail.map(|d| Line::from(d.text().to_owned()));
    Page::table(
        app,
        head.into_iter().collect(),
        &COLUMNS,
        rows,
        "no thread ran or waited",
    )
}

/// The thread of the selected row.
pub(in super::super) fn selected(app: &App, report: &Report) -> Option<(u32, String)> {
    let rows = sorted(app, report);
    let row = rows.get(app.view().row)?;
    match (row.get(2)?, row.get(1)?) {
        (Cell::Figure(tid, _), name) => Some((u32::try_from(*tid).ok()?, name.text().to_owned())),
        _ => None,
    }
}

fn sorted(app: &App, report: &Report) -> Vec<Vec<Cell>> {
    let threads = report.threads.iter();
    let threads = threads.filter(|t| super::of(app, t.pid, Some(t.tid)));
    let mut rows: Vec<_> = threads.map(row).collect();
    rows.retain(|row| app.filters.iter().all(|f| super::passes(row, f)));
    sort(&COLUMNS, &mut rows, app.view());
    rows
}

fn row(t: &ThreadRow) -> Vec<Cell> {
    let (count, sum, max) = t
        .account
        .map_or((t.wait.count, t.wait.sum, t.wait.max), |a| {
            (a.count, a.sum, a.longest)
        });
    let max = max.max(t.waiting_ns.unwrap_or(0));
    // The text view keeps names and figures together with a space that is none.
    let instead = text::ran_instead(&t.ran_instead).replace('\u{a0}', " ");
    let detail = format!(
        "ran {}, {} waits: {instead}",
        units::duration(t.on_cpu_ns),
        units::count(count)
    );
    vec![
        Cell::time(sum.saturating_add(t.waiting_ns.unwrap_or(0))),
        Cell::words(&name(&t.comm)),
        Cell::Figure(u64::from(t.tid), t.tid.to_string()),
        Cell::words(&words::class(&t.sched)),
        Cell::time(t.wait.p50).if_any(t.wait.count),
        Cell::time(t.wait.p99).if_any(t.wait.count),
        Cell::time(max),
        Cell::words(&instead),
        Cell::words(&detail),
    ]
}
