//! The tabs, one a file: each makes lines of what the app holds.

pub(super) mod files;
pub(super) mod flame;
mod hops;
mod latency;
pub(super) mod processes;
mod ptys;
pub(super) mod ranked;
pub(super) mod sched;
pub(super) mod stream;
pub(super) mod syscalls;
mod verdict;

use ratatui::text::Line;

use super::app::{App, Tab};
use super::table::{Cell, Column, lines};
use crate::syscalls::view::{Filter, holds};

/// What a tab shows: lines that stay, and rows below that are moved through.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) head: Vec<Line<'static>>,
    /// Rows from number `first` on: all, or those that can be seen.
    pub(super) rows: Vec<Line<'static>>,
    pub(super) first: usize,
    /// Rows that there are.
    pub(super) total: usize,
    /// One of them is selected.
    pub(super) select: bool,
}

impl Page {
    /// Rows below a head.
    fn of(head: Vec<Line<'static>>, rows: Vec<Line<'static>>, select: bool) -> Page {
        Page {
            head,
            total: rows.len(),
            rows,
            first: 0,
            select,
        }
    }

    /// A table below some lines, sorted as the app's view has it.
    fn table(
        app: &App,
        mut head: Vec<Line<'static>>,
        columns: &[Column],
        rows: Vec<Vec<Cell>>,
        none: &'static str,
    ) -> Page {
        let mut rows = rows;
        rows.retain(|row| app.filters.iter().all(|f| passes(row, f)));
        if rows.is_empty() {
            return Page::of(head, vec![Line::from(none)], false);
        }
        let (titles, rows) = lines(columns, rows, app.view());
        head.push(titles);
        Page::of(head, rows, true)
    }
}

/// Of filters only words can be looked for in any row.
fn passes(row: &[Cell], filter: &Filter) -> bool {
    match filter {
        Filter::Words(words) => row.iter().any(|cell| holds(cell.text(), words)),
        _ => true,
    }
}

/// Whether a row of this process and thread is to be shown; a process has no single thread.
fn of(app: &App, pid: u32, tid: Option<u32>) -> bool {
    app.filters.iter().all(|f| match f {
        Filter::Process(only, _) => pid == *only,
        Filter::Thread(only, _) => tid.is_none_or(|tid| tid == *only),
        _ => true,
    })
}

/// The page of the open tab for an area of that size.
pub(super) fn page(app: &App, width: usize, height: usize) -> Page {
    let Some(report) = app.report() else {
        return Page::of(
            vec![],
            vec![Line::from("the first report is coming")],
            false,
        );
    };
    match app.tab {
        Tab::Verdict => verdict::page(app, report, width),
        Tab::Sched => sched::page(app, report),
        Tab::Ptys => ptys::page(app, report),
        Tab::Hops => hops::page(app, report),
        Tab::Syscalls => syscalls::page(app, (width, height)),
        Tab::Files => files::page(app, (width, height)),
        Tab::Processes => processes::page(app, report),
        Tab::Latency => latency::page(app, report, width, height),
        Tab::Flame => flame::page(app, report, width),
        Tab::Stream => stream::page(app, width, height),
    }
}
