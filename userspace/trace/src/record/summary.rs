//! What a person reads at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::escape::visible;
use crate::report::model::Loss;
use crate::report::units::{bytes, count, duration};
use crate::syscalls::Name;
use crate::syscalls::stats::{Figures, Stats};
use crate::syscalls::table::table;

/// Rows of each table; the rest is summed in one more.
const ROWS: usize = 15;
/// Columns of a row's name, so that a line has 80.
const NAME: usize = 24;

/// What there is to tell.
pub(super) struct Told<'a> {
    /// The target, as it was named.
    pub(super) asked: &'a str,
    /// How long it was recorded.
    pub(super) duration_ns: u64,
    pub(super) stats: &'a Stats,
    /// io_uring requests that have not completed.
    pub(super) requests_under_way: usize,
    pub(super) losses: Vec<Loss>,
}

/// The summary, 80 columns wide.
pub(super) fn render(told: &Told<'_>) -> String {
    let (stats, mut out) = (told.stats, String::new());
    let total = &stats.total;
    line(
        &mut out,
        &format!(
            "{}: {} calls in {}, {} failed, {} moved",
            visible(told.asked),
            count(total.count()),
            duration(told.duration_ns),
            count(total.errors),
            bytes(total.bytes),
        ),
    );
    line(
        &mut out,
        &format!(
            "{} in calls: {} waited for a CPU, {} blocked",
            duration(total.time_ns()),
            duration(total.wait_ns),
            duration(total.blocked_ns),
        ),
    );
    let peak = stats.rates.seconds().map(|(_, families)| {
        let calls: u64 = families.iter().map(|r| r.count).sum();
        let moved: u64 = families.iter().map(|r| r.bytes).sum();
        (calls, moved)
    });
    if let Some((calls, moved)) = peak.max() {
        let (calls, moved) = (count(calls), bytes(moved));
        line(&mut out, &format!("busiest second: {calls} calls, {moved}"));
    }

    let named = |nr: &u32| table().get(*nr).name.to_owned();
    section(&mut out, "SYSTEM CALLS", stats.syscalls.iter(), named, None);
    let file = |name: &Name| shortened(name);
    let rest = Some(&stats.files.rest);
    section(&mut out, "FILES", stats.files.iter(), file, rest);
    let process = |pid: &u32| format!("{} {pid}", stats.process_name(*pid));
    let rest = Some(&stats.processes.rest);
    section(&mut out, "PROCESSES", stats.processes.iter(), process, rest);
    if stats.threads.iter().count() > stats.processes.iter().count() {
        let rest = Some(&stats.threads.rest);
        let thread = |t: &crate::syscalls::stats::ThreadKey| {
            format!("{} {}", stats.process_name(t.pid), t.tid)
        };
        section(&mut out, "THREADS", stats.threads.iter(), thread, rest);
    }
    pipes(&mut out, stats);
    under_way(&mut out, told);
    if !told.losses.is_empty() {
        line(&mut out, "\nLOST");
        for loss in &told.losses {
            line(
                &mut out,
                &format!("  {} {}", count(loss.count), loss.meaning),
            );
        }
    }
    out
}

fn line(out: &mut String, text: &str) {
    // Names are escaped where they enter; this is the net below. A String takes everything.
    for part in text.split('\n') {
        let _ = writeln!(out, "{}", visible(part.trim_end()));
    }
}

/// A table of the largest by time.
fn section<'a, K: 'a>(
    out: &mut String,
    title: &str,
    rows: impl Iterator<Item = (&'a K, &'a Figures)>,
    name: impl Fn(&K) -> String,
    let_go: Option<&Figures>,
) {
    let mut rows: Vec<(String, &Figures)> = rows.map(|(k, f)| (name(k), f)).collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by(|(a, f), (b, g)| (g.time_ns(), g.count(), a).cmp(&(f.time_ns(), f.count(), b)));
    line(
        out,
        &format!(
            "\n{title:<NAME$}  calls errors   bytes   time blocked  cpuw    p50    p99    max"
        ),
    );
    let mut rest = let_go.cloned().unwrap_or_default();
    let more = rows.len().saturating_sub(ROWS);
    rows.iter().skip(ROWS).for_each(|(_, f)| rest.merge(f));
    for (name, figures) in rows.iter().take(ROWS) {
        row(out, name, figures);
    }
    if rest.count() != 0 {
        let name = match more {
            0 => "(the rest)".to_owned(),
            more => format!("({more} more, summed)"),
        };
        row(out, &name, &rest);
    }
}

fn row(out: &mut String, name: &str, f: &Figures) {
    let cells = [
        (count(f.count()), 6),
        (count(f.errors), 6),
        (bytes(f.bytes), 7),
        (duration(f.time_ns()), 6),
        (duration(f.blocked_ns), 7),
        (duration(f.wait_ns), 6),
        (duration(f.duration.percentile(50.0)), 6),
        (duration(f.duration.percentile(99.0)), 6),
        (duration(f.duration.max), 6),
    ];
    let name = visible(name);
    let mut text = name.to_string();
    if name.width() > NAME {
        line(out, &text);
        text.clear();
    }
    text.push_str(&" ".repeat(NAME.saturating_sub(text.width())));
    for (cell, width) in cells {
        let _ = write!(
            text,
            " {}{cell}",
            " ".repeat(width - cell.width().min(width))
        );
    }
    line(out, &text);
}

/// A path whose beginning is left out when it is longer than a line.
fn shortened(name: &str) -> String {
    const MOST: usize = 78;
    let name = visible(name);
    if name.width() <= MOST {
        return name.into_owned();
    }
    let mut left = MOST - 1;
    let end: Vec<char> = name
        .chars()
        .rev()
        .take_while(|c| {
            let width = c.width().unwrap_or(1);
            let fits = width <= left;
            left = left.saturating_sub(width);
            fits
        })
        .collect();
    std::iter::once('…').chain(end.into_iter().rev()).collect()
}

/// Who is at the ends of pipes and Unix sockets.
fn pipes(out: &mut String, stats: &Stats) {
    let mut ends: Vec<(&Name, &Figures)> = stats
        .files
        .iter()
        .filter(|(name, _)| name.starts_with("pipe:") || name.starts_with("unix:"))
        .collect();
    if ends.is_empty() {
        return;
    }
    ends.sort_by_key(|(_, f)| std::cmp::Reverse((f.time_ns(), f.count())));
    line(out, "\nPIPES AND SOCKETS");
    for (name, _) in ends.iter().take(ROWS) {
        let mut by_process: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
        for (pid, call) in stats.leaves.users(name) {
            by_process.entry(pid).or_default().insert(call);
        }
        let users: Vec<String> = by_process
            .iter()
            .map(|(pid, calls)| {
                let calls: Vec<&str> = calls.iter().copied().collect();
                format!("{} {pid} ({})", stats.process_name(*pid), calls.join(", "))
            })
            .collect();
        line(out, &format!("{}  {}", visible(name), users.join("; ")));
    }
    if ends.len() > ROWS {
        line(out, &format!("and {} more", ends.len() - ROWS));
    }
}

fn under_way(out: &mut String, told: &Told<'_>) {
    let calls = &told.stats.under_way;
    if calls.is_empty() && told.requests_under_way == 0 {
        return;
    }
    line(out, "\nUNDER WAY AT THE END, in no figure above");
    for call in calls.iter().take(ROWS) {
        let file = call.file.as_deref().unwrap_or_default();
        line(
            out,
            &format!(
                "{} {}: {} for {} {file}",
                call.comm.trim_end(),
                call.tid,
                call.name(),
                duration(call.dur)
            ),
        );
    }
    if calls.len() > ROWS {
        line(out, &format!("and {} more", calls.len() - ROWS));
    }
    if told.requests_under_way != 0 {
        let n = told.requests_under_way;
        line(out, &format!("{n} io_uring requests"));
    }
}
