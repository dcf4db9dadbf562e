//! Hops: the USDT probes of the target, each with the values it gave.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr;

use super::measured;
use super::page::{Page, Tone, left, right, who};
use crate::escape::visible;
use crate::report::model::{HopRow, Report};
use crate::report::units::{bytes, count, duration};

/// Width of the metric's name; a longer one has a line of its own.
const NAME: usize = 26;

pub(super) fn hops(page: &mut Page<'_>, report: &Report) {
    page.section("HOPS", "the target's own probe points");
    if report.hops.is_empty() {
        let why = if measured(&report.backends, "hop") {
            "  the target has no probes of provider phux"
        } else {
            "  not measured"
        };
        page.line(Tone::Plain, why);
        return;
    }
    page.line(
        Tone::Dim,
        "hop                        sites  times   total     p50     p90     p99     max",
    );
    let mut processes: BTreeMap<u32, Vec<&HopRow>> = BTreeMap::new();
    for hop in &report.hops {
        processes.entry(hop.pid).or_default().push(hop);
    }
    let several = processes.len() > 1;
    let rest: usize = processes.values().skip(page.rows()).map(Vec::len).sum();
    for (pid, hops) in processes.into_iter().take(page.rows()) {
        if several {
            let process = report.target.processes.iter().find(|p| p.pid == pid);
            page.text(Tone::Bold, "", &who(process.map_or("", |p| &p.name), pid));
        }
        process(page, hops);
    }
    if rest > 0 {
        page.line(
            Tone::Dim,
            &format!("… and {} more in other processes", count(rest as u64)),
        );
    }
}

/// The hops of one process: those that fired, then those that did not.
fn process(page: &mut Page<'_>, mut hops: Vec<&HopRow>) {
    hops.sort_by_key(|h| (h.value.count == 0, h.metric.as_str()));
    // A process has tens of hops, a hostile binary may claim thousands.
    let most = page.rows().saturating_mul(4);
    hops.iter().take(most).for_each(|h| row(page, h));
    if let Some(rest) = hops.get(most..).filter(|r| !r.is_empty()) {
        let fired = rest
            .iter()
            .fold(0u64, |s, h| s.saturating_add(h.value.count));
        let text = format!(
            "… and {} more, fired {} times",
            count(rest.len() as u64),
            count(fired)
        );
        page.line(Tone::Dim, &text);
    }
}

fn row(page: &mut Page<'_>, hop: &HopRow) {
    let name = visible(&hop.metric);
    let mut start = left(&name, NAME);
    if start.width() > NAME {
        page.text(Tone::Plain, "", &name);
        start = " ".repeat(NAME);
    }
    let start = format!("{start} {}", right(&count(u64::from(hop.sites)), 5));
    if hop.value.count == 0 {
        page.line(Tone::Plain, &format!("{start} never fired"));
        return;
    }
    let unit = |v| in_unit(v, hop.unit.as_deref());
    let d = &hop.value;
    let columns = [d.sum, d.p50, d.p90, d.p99, d.max]
        .map(|v| right(&unit(v), 8))
        .concat();
    page.line(
        Tone::Plain,
        &format!("{start} {}{columns}", right(&count(d.count), 6)),
    );
}

/// A value in the unit of its metric; a bare number where that is not known.
pub(super) fn in_unit(value: u64, unit: Option<&str>) -> String {
    match unit {
        Some("micros") => duration(value.saturating_mul(1000)),
        Some("bytes") => bytes(value),
        _ => count(value),
    }
}
