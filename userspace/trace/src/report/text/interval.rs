//! One line per interval, for `--interval`.

use super::Style;
use super::page::{Page, Tone, glued, right, who};
use crate::report::model::{CulpritKind, Dist, Relation, Report, ThreadRow};
use crate::report::units::{bytes, count, duration};
use crate::report::words;

/// Below this nobody needs to know whom the wait hit, ns.
const WORTH_NAMING_NS: u64 = 1_000_000;

/// What came since the last one: a line with the worst p99 of each kind of wait and what the PTYs
/// carried; and where something was lost or waited for 1 ms or more, a line that says so.
#[must_use]
pub fn render_interval(report: &Report) -> String {
    let style = Style::default();
    let mut page = Page::new(&style);
    let worst = |dists: &mut dyn Iterator<Item = &Dist>| {
        let p99 = dists.filter(|d| d.count > 0).map(|d| d.p99).max();
        right(&p99.map_or("-".to_owned(), duration), 6)
    };
    let flushes = || {
        report
            .ptys
            .iter()
            .flat_map(|p| [&p.flush_output, &p.flush_input])
    };
    let sum = |values: &mut dyn Iterator<Item = u64>| bytes(values.fold(0, u64::saturating_add));
    let mut threads: Vec<&ThreadRow> = report
        .threads
        .iter()
        .filter(|t| t.relation == Relation::Target)
        .collect();
    threads.sort_by_key(|t| std::cmp::Reverse(longest(t)));

    let end = report
        .window
        .start_unix_ms
        .saturating_add(report.window.duration_ns / 1_000_000);
    let line = format!(
        "{} p99: wait {} kworker {} reader {} out {} in {}",
        time_of_day(end),
        worst(&mut threads.iter().map(|t| &t.wait)),
        worst(&mut flushes().map(|f| &f.wait)),
        worst(&mut flushes().map(|f| &f.reader_wait)),
        right(
            &sum(&mut report.ptys.iter().map(|p| p.master_reads.size.sum)),
            7
        ),
        right(
            &sum(&mut report.ptys.iter().map(|p| p.slave_reads.size.sum)),
            7
        ),
    );
    page.line(Tone::Plain, &line);

    let mut remarks = Vec::new();
    if let Some(t) = threads.first().filter(|t| longest(t) >= WORTH_NAMING_NS) {
        let tasks = t.ran_instead.iter().filter(|c| c.kind == CulpritKind::Task);
        let behind = tasks.max_by_key(|c| c.ns).map_or_else(String::new, |c| {
            format!(" behind {}", glued(&words::culprit(c)))
        });
        remarks.push(format!(
            "{} waited {}{behind}",
            who(&t.comm, t.tid),
            duration(longest(t))
        ));
    }
    let lost = report
        .losses
        .iter()
        .fold(0u64, |s, l| s.saturating_add(l.count));
    if lost > 0 {
        remarks.push(glued(&format!("{} events lost", count(lost))));
    }
    if !remarks.is_empty() {
        page.text(Tone::Plain, "         ", &remarks.join("; "));
    }
    page.finish()
}

/// The longest wait of a thread, ended or not, ns.
fn longest(t: &ThreadRow) -> u64 {
    let ended = t.account.map_or(t.wait.max, |a| a.longest);
    t.waiting_ns.unwrap_or(0).max(ended)
}

/// `14:23:05`, UTC.
fn time_of_day(unix_ms: u64) -> String {
    let s = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}
