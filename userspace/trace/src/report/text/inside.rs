//! A process's own histograms, and the same as its probes gave them to the kernel.

use unicode_width::UnicodeWidthStr;

use super::hops::in_unit;
use super::page::{Page, Tone, glued, left, listed, right, who};
use crate::escape::visible;
use crate::report::agreement::differences;
use crate::report::model::{Dist, InProcess, InProcessRow, Report};
use crate::report::units::{NONE, count};

/// Width of the metric's name; a longer one has a line of its own.
const NAME: usize = 17;
/// Buckets told where the two disagree.
const BUCKETS: usize = 3;
/// Processes shown; the JSON has all.
const PROCESSES: usize = 4;

pub(super) fn inside(page: &mut Page<'_>, report: &Report) {
    if report.in_process.is_empty() {
        return;
    }
    page.section(
        "INSIDE AND OUTSIDE",
        "the process's own histograms, and ours of its probes",
    );
    let (shown, rest) = report
        .in_process
        .split_at(report.in_process.len().min(PROCESSES));
    for process in shown {
        let name = report
            .target
            .processes
            .iter()
            .find(|p| p.pid == process.pid);
        let who = who(name.map_or("", |p| &p.name), process.pid);
        match &process.missing {
            Some(why) => page.text(Tone::Plain, "  ", &format!("{who}: {}", visible(why))),
            None => table(page, &who, process),
        }
    }
    if !rest.is_empty() {
        page.line(
            Tone::Dim,
            &format!("… and {} more processes", count(rest.len() as u64)),
        );
    }
}

fn table(page: &mut Page<'_>, who: &str, process: &InProcess) {
    page.text(Tone::Bold, "", &format!("{who} {}", visible(&process.role)));
    page.line(
        Tone::Dim,
        "                     inside                        outside              only",
    );
    page.line(
        Tone::Dim,
        "metric              times     p50     p99     max   times     p50     p99 in one",
    );
    // A process can have hundreds that never moved; they are in the JSON.
    let moved = |r: &&InProcessRow| r.inside.count + r.outside.as_ref().map_or(0, |o| o.count) > 0;
    let most = page.rows().saturating_mul(4);
    let mut rows = process.rows.iter().filter(moved);
    rows.by_ref().take(most).for_each(|r| row(page, r));
    let rest = rows.count();
    if rest > 0 {
        page.line(Tone::Dim, &format!("… and {} more", count(rest as u64)));
    }
    if process.rows.iter().filter(moved).count() == 0 {
        page.line(Tone::Plain, "  nothing moved");
    }
}

fn row(page: &mut Page<'_>, row: &InProcessRow) {
    let name = visible(&row.metric);
    let mut start = left(&name, NAME);
    if start.width() > NAME {
        page.text(Tone::Plain, "", &name);
        start = " ".repeat(NAME);
    }
    let unit = |v| right(&in_unit(v, Some(&row.unit)), 8);
    let figures = |d: &Dist, max: bool| {
        let times = right(&count(d.count), 8);
        let max = if max { unit(d.max) } else { String::new() };
        format!("{times}{}{}{max}", unit(d.p50), unit(d.p99))
    };
    let outside = match (&row.outside, row.differing) {
        (Some(d), Some(n)) => format!("{}{}", figures(d, false), right(&count(n), 7)),
        _ => format!("{}  no probe", right(NONE, 8)),
    };
    page.line(
        Tone::Plain,
        &format!("{start}{}{outside}", figures(&row.inside, true)),
    );
    if let (Some(n), Some(outside)) = (row.unexplained.filter(|n| *n > 0), &row.outside) {
        let value = |v| in_unit(v, Some(&row.unit));
        let buckets = differences(&row.inside, outside)
            .into_iter()
            .map(|(idx, a, b)| {
                let (from, until) = phux_perf::bucket_bounds(usize::from(idx));
                glued(&format!(
                    "{} to {}: {} and {}",
                    value(from),
                    value(until),
                    count(a),
                    count(b)
                ))
            });
        let text = format!(
            "warning: {} samples more than losses explain are in one of the two only (inside and outside): {}",
            count(n),
            listed(buckets, BUCKETS)
        );
        page.text(Tone::Bold, "  ", &text);
    }
}
