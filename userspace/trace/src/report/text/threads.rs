//! Threads: how each is scheduled, how long it waited for a CPU, and who ran instead.

use std::cmp::Reverse;

use unicode_width::UnicodeWidthStr;

use super::page::{Page, Tone, glued, left, right, who};
use super::ran_instead;
use crate::escape::{name, visible};
use crate::report::model::{Dist, Relation, Report, SchedClass, ThreadRow};
use crate::report::units::{NONE, count, duration, percent};
use crate::report::words;

/// Widths of name, tid, class, CPU %, the two kinds of switch, and the four percentiles: 80 with the gaps.
const NAME: usize = 15;
const TID: usize = 7;
const CLASS: usize = 9;

/// Below this total nobody needs to know who ran instead, ns.
const WORTH_NAMING_NS: u64 = 1_000_000;

pub(super) fn threads(page: &mut Page<'_>, report: &Report) {
    page.section("THREADS", "who waited for a CPU");
    if report.threads.is_empty() {
        page.line(Tone::Plain, "  no thread ran or waited");
        return;
    }
    page.line(
        Tone::Dim,
        "                                          switches   waits for a CPU, each",
    );
    page.line(
        Tone::Dim,
        "thread              tid class     CPU%    vol  invol    p50    p90    p99    max",
    );
    let (target, peers): (Vec<&ThreadRow>, Vec<&ThreadRow>) = report
        .threads
        .iter()
        .partition(|t| t.relation == Relation::Target);
    group(page, report, target);
    if !peers.is_empty() {
        page.line(
            Tone::Dim,
            "and at the other end of its PTYs, or started by it:",
        );
        group(page, report, peers);
    }
    page.line(
        Tone::Dim,
        "vol: it went to sleep; invol: it was preempted; p99: 99 of 100 were no longer",
    );
}

/// The threads that waited longest, and the sum of the others.
fn group(page: &mut Page<'_>, report: &Report, mut rows: Vec<&ThreadRow>) {
    rows.sort_by_key(|t| (Reverse(waited(t)), Reverse(t.on_cpu_ns), t.tid));
    let several = rows
        .iter()
        .any(|t| Some(t.pid) != rows.first().map(|f| f.pid));
    let (shown, rest) = rows.split_at(rows.len().min(page.rows()));
    for t in shown {
        row(page, t, report.window.duration_ns);
        detail(page, t, report, several);
    }
    if !rest.is_empty() {
        let sum = |f: fn(&ThreadRow) -> u64| rest.iter().fold(0u64, |s, t| s.saturating_add(f(t)));
        let longest = |t: &&ThreadRow| t.account.map_or(t.wait.max, |a| a.longest);
        let max = rest.iter().map(longest).max().unwrap_or(0);
        let text = format!(
            "… and {} more: waited {} in all, {} at most; ran {}",
            count(rest.len() as u64),
            duration(sum(waited)),
            duration(max),
            duration(sum(|t| t.on_cpu_ns)),
        );
        page.text(Tone::Dim, "", &text);
    }
}

/// All its waits, the one that had not ended included.
fn waited(t: &ThreadRow) -> u64 {
    let ended = t.account.map_or(t.wait.sum, |a| a.sum);
    ended.saturating_add(t.waiting_ns.unwrap_or(0))
}

fn row(page: &mut Page<'_>, t: &ThreadRow, window: u64) {
    let name = name(&t.comm);
    let tid = if t.tid == 0 {
        format!("×{}", count(t.threads))
    } else {
        t.tid.to_string()
    };
    let mut start = format!("{} {}", left(&name, NAME), right(&tid, TID));
    if start.width() > NAME + 1 + TID {
        page.text(Tone::Plain, "", &format!("{} {tid}", glued(&name)));
        start = " ".repeat(NAME + 1 + TID);
    }
    let figures = if t.wait.count == 0 {
        [NONE; 4].map(|f| right(f, 7)).concat()
    } else {
        let Dist {
            p50, p90, p99, max, ..
        } = t.wait;
        [p50, p90, p99, max]
            .map(|ns| right(&duration(ns), 7))
            .concat()
    };
    let line = format!(
        "{start} {} {} {} {}{figures}",
        left(&class(&t.sched), CLASS),
        right(&percent(t.on_cpu_ns, window), 4),
        right(&count(t.voluntary), 6),
        right(&count(t.involuntary), 6),
    );
    page.line(Tone::Plain, &line);
}

/// The class, if it fits. No kernel has one that does not; were one to appear, JSON has it in full.
fn class(sched: &SchedClass) -> String {
    let text = words::class(sched);
    if text.width() > CLASS {
        "?".to_owned()
    } else {
        text
    }
}

/// What the columns have no room for.
fn detail(page: &mut Page<'_>, t: &ThreadRow, report: &Report, several: bool) {
    let mut parts = Vec::new();
    if let Some(role) = &t.role {
        parts.push(visible(role).into_owned());
    }
    if several && t.pid != 0 && t.tid != t.pid {
        let process = report.target.processes.iter().find(|p| p.pid == t.pid);
        parts.push(format!(
            "in {}",
            who(process.map_or("", |p| &p.name), t.pid)
        ));
    }
    if t.exited {
        parts.push(if t.tid == 0 {
            "ended; all together".to_owned()
        } else {
            "ended".to_owned()
        });
    }
    if let Some(ns) = t.waiting_ns {
        parts.push(format!("still waiting, for {} so far", duration(ns)));
    }
    if let Some(a) = t.account.filter(|a| a.count > 0) {
        let each = duration(a.sum / a.count);
        let (n, longest) = (count(a.count), duration(a.longest));
        let waits = format!("{n} waits, {each} on average");
        // Whether one of them was long the sums tell only if most were.
        parts.push(if a.longest > a.sum / a.count {
            format!("{waits}, the longest {longest} or more")
        } else {
            waits
        });
    }
    if waited(t) >= WORTH_NAMING_NS {
        let share = percent(waited(t), report.window.duration_ns);
        parts.push(glued(&format!("waited {} ({share}%)", duration(waited(t)))));
        let instead = ran_instead(&t.ran_instead);
        if !instead.is_empty() {
            parts.push(format!("meanwhile ran {instead}"));
        }
    }
    if !parts.is_empty() {
        page.text(Tone::Plain, "  ", &parts.join("; "));
    }
}
