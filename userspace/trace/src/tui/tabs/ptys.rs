//! PTYs: who is at each end, what went through, and how long it waited.

use super::super::app::App;
use super::super::table::{Cell, figure, words};
use super::Page;
use crate::escape::name;
use crate::report::model::{Dist, End, PtyRow, Report};

pub(super) fn page(app: &App, report: &Report) -> Page {
    let columns = [
        figure("pts", 5),
        figure("keys", 7),
        figure("output", 7),
        figure("key flush", 9),
        figure("reader", 6),
        figure("out flush", 9),
        figure("reader", 6),
        words("master", 20),
        words("slave", 0),
    ];
    let head = vec!["waits: p99, from queued to run and from woken to on a CPU".into()];
    let rows = report.ptys.iter().map(row).collect();
    Page::table(app, head, &columns, rows, "the target has no PTY")
}

fn row(p: &PtyRow) -> Vec<Cell> {
    let p99 = |d: &Dist| Cell::time(d.p99).if_any(d.count);
    // No reads by the multiplexer: an end of another kind writes or reads it.
    vec![
        Cell::Figure(u64::from(p.index), p.index.to_string()),
        Cell::bytes(p.master_writes.size.sum),
        Cell::bytes(p.master_reads.size.sum),
        p99(&p.flush_input.wait),
        p99(&p.flush_input.reader_wait),
        p99(&p.flush_output.wait),
        p99(&p.flush_output.reader_wait),
        ends(&p.master),
        ends(&p.slave),
    ]
}

fn ends(ends: &[End]) -> Cell {
    let first = ends
        .iter()
        .take(4)
        .map(|e| format!("{}({})", name(&e.name), e.pid));
    Cell::words(&first.collect::<Vec<_>>().join(", "))
}
