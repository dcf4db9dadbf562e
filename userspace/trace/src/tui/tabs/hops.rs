//! Hops: the target's own probe points.

use super::super::app::App;
use super::super::table::{Cell, figure, words};
use super::Page;
use crate::report::model::{HopRow, Report};

pub(super) fn page(app: &App, report: &Report) -> Page {
    let columns = [
        words("hop", 26),
        figure("pid", 7),
        figure("times", 6),
        figure("p50", 7),
        figure("p90", 7),
        figure("p99", 7),
        figure("max", 7),
    ];
    let rows = report.hops.iter();
    let rows = rows.filter(|h| super::of(app, h.pid, None));
    let rows = rows.map(row).collect();
    let none = "the target has no probes of provider phux, or they were not measured";
    Page::table(app, vec![], &columns, rows, none)
}

fn row(h: &HopRow) -> Vec<Cell> {
    let value = |n: u64| in_unit(n, h.unit.as_deref()).if_any(h.value.count);
    vec![
        Cell::words(&h.metric),
        Cell::Figure(u64::from(h.pid), h.pid.to_string()),
        Cell::count(h.value.count),
        value(h.value.p50),
        value(h.value.p90),
        value(h.value.p99),
        value(h.value.max),
    ]
}

/// A value of a hop, as its unit is read.
pub(super) fn in_unit(value: u64, unit: Option<&str>) -> Cell {
    match unit {
        Some("micros") => Cell::time(value.saturating_mul(1000)),
        Some("bytes") => Cell::bytes(value),
        _ => Cell::count(value),
    }
}
