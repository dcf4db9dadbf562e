//! PTYs: who holds each end, how much went through at a time, and where it waited on the way.

use std::cmp::Reverse;

use unicode_width::UnicodeWidthStr;

use super::page::{Page, Tone, left, listed, right, who};
use super::{measured, ran_instead};
use crate::report::model::{Dist, End, Flush, Io, PtyRow, Report};
use crate::report::units::{bytes, count, duration};

/// Holders of one end listed by name.
const ENDS: usize = 4;
/// Below this total nobody needs to know who ran instead, ns.
const WORTH_NAMING_NS: u64 = 1_000_000;

pub(super) fn ptys(page: &mut Page<'_>, report: &Report) {
    page.section("PTYS", "sizes and waits, each way");
    if report.ptys.is_empty() {
        page.line(Tone::Plain, "  the target holds none");
        return;
    }
    let mut rows: Vec<&PtyRow> = report.ptys.iter().collect();
    rows.sort_by_key(|p| (Reverse(waited(p)), Reverse(moved(p)), p.index, p.devpts));
    // Each takes some seven lines, so fewer of them fill a screen.
    let (shown, rest) = rows.split_at(rows.len().min(page.rows().div_ceil(2)));
    page.line(
        Tone::Dim,
        "                          times   total     p50     p90     p99     max",
    );
    for pty in shown {
        one(page, report, pty);
    }
    if !rest.is_empty() {
        let sum = |f: fn(&PtyRow) -> u64| rest.iter().fold(0u64, |s, p| s.saturating_add(f(p)));
        let text = format!(
            "… and {} more: {} read, {} of waits",
            count(rest.len() as u64),
            bytes(sum(moved)),
            duration(sum(waited)),
        );
        page.line(Tone::Dim, &text);
    }
    page.line(
        Tone::Dim,
        "kworker: the kernel's thread that takes bytes across; reader: who is woken by it",
    );
}

/// All waits of both directions, ns.
fn waited(p: &PtyRow) -> u64 {
    [&p.flush_output, &p.flush_input].iter().fold(0, |s, f| {
        s.saturating_add(f.wait.sum)
            .saturating_add(f.reader_wait.sum)
    })
}

/// Bytes read at both ends.
fn moved(p: &PtyRow) -> u64 {
    p.master_reads
        .size
        .sum
        .saturating_add(p.slave_reads.size.sum)
}

fn one(page: &mut Page<'_>, report: &Report, pty: &PtyRow) {
    let twin = report
        .ptys
        .iter()
        .any(|p| p.index == pty.index && p.devpts != pty.devpts);
    let instance = if twin {
        format!(" (devpts {})", pty.devpts)
    } else {
        String::new()
    };
    let text = format!(
        "/dev/pts/{}{instance}  master {}; slave {}",
        pty.index,
        ends(&pty.master),
        ends(&pty.slave)
    );
    page.text(Tone::Bold, "", &text);
    if ["tty", "flush"]
        .iter()
        .all(|c| !measured(&report.backends, c))
    {
        page.line(Tone::Plain, "  what passed was not measured");
        return;
    }
    direction(
        page,
        report,
        "output",
        &pty.master_reads,
        &pty.slave_writes,
        &pty.flush_output,
    );
    direction(
        page,
        report,
        "input",
        &pty.slave_reads,
        &pty.master_writes,
        &pty.flush_input,
    );
}

fn ends(ends: &[End]) -> String {
    if ends.is_empty() {
        return "not seen".to_owned();
    }
    listed(ends.iter().map(|e| who(&e.name, e.pid)), ENDS)
}

/// The rows of one direction. `reads` are at its end, `writes` at its start.
fn direction(
    page: &mut Page<'_>,
    report: &Report,
    way: &str,
    reads: &Io,
    writes: &Io,
    flush: &Flush,
) {
    let silent = [&reads.size, &writes.size, &flush.wait, &flush.reader_wait];
    let tty = measured(&report.backends, "tty");
    let seen = measured(&report.backends, "flush");
    if tty && seen && silent.iter().all(|d| d.count == 0) {
        page.line(Tone::Plain, &format!("  {} nothing passed", left(way, 6)));
        return;
    }
    // Reads may be out of sight (another container, a peer that is not traced): then writes tell the sizes.
    if reads.size.count == 0 && writes.size.count > 0 {
        figures(page, way, "write size", &writes.size, bytes, tty);
    } else {
        figures(page, way, "read size", &reads.size, bytes, tty);
    }
    let way = "";
    figures(page, way, "kworker wait", &flush.wait, duration, seen);
    if flush.wait.sum >= WORTH_NAMING_NS {
        let instead = ran_instead(&flush.ran_instead);
        if !instead.is_empty() {
            page.text(Tone::Plain, "            meanwhile ran ", &instead);
        }
    }
    figures(
        page,
        way,
        "reader's wait",
        &flush.reader_wait,
        duration,
        seen,
    );
}

fn figures(
    page: &mut Page<'_>,
    way: &str,
    what: &str,
    d: &Dist,
    unit: fn(u64) -> String,
    seen: bool,
) {
    let start = format!("  {} {}", left(way, 6), left(what, 14));
    let line = match (seen, d.count) {
        (false, 0) => format!("{start} not measured"),
        (_, 0) => format!("{start} {}", right("none", 7)),
        _ => {
            let columns = [d.sum, d.p50, d.p90, d.p99, d.max]
                .map(|v| right(&unit(v), 8))
                .concat();
            format!("{start} {}{columns}", right(&count(d.count), 7))
        }
    };
    debug_assert!(line.width() <= super::page::WIDTH);
    page.line(Tone::Plain, &line);
}
