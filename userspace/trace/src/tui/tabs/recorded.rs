//! What this run does not look at: how to have it.

use ratatui::text::Line;

use super::Page;
use crate::report::model::{Relation, Report};

/// Processes named in the line to type.
const PIDS: usize = 1;

pub(super) fn page(report: &Report, what: &str) -> Page {
    let targets = report.target.processes.iter();
    let pids = targets.filter(|p| p.relation == Relation::Target && p.ended.is_none());
    let mut rows = vec![
        Line::from(format!("{what}: not followed in this view.")),
        Line::from("To have them, with those of all that it starts:"),
        Line::from(""),
    ];
    for process in pids.take(PIDS) {
        let pid = process.pid;
        rows.push(format!("  sudo phux-trace record -p {pid} -d 10s").into());
        rows.push(format!("  sudo phux-trace record -p {pid} --families all").into());
        rows.push(format!("  sudo phux-trace record -p {pid} --events").into());
    }
    Page::of(vec![], rows, false)
}
