//! The verdict, who was traced, how it was measured, and what to know besides.

use std::time::{Duration, UNIX_EPOCH};

use super::page::{Page, Tone, glued, left, listed, who};
use crate::escape::visible;
use crate::report::model::{Cost, Process, Relation, Report, Verdict, Window};
use crate::report::units::{bytes, count, duration, percent};

/// Processes listed by name; a program that starts thousands is ordinary.
const PROCESSES: usize = 8;
/// Costliest BPF programs listed by name.
const PROGRAMS: usize = 3;

/// What a reader must know before the verdict.
pub(super) fn limited(page: &mut Page<'_>, report: &Report) {
    if let Some(why) = &report.limited {
        page.text(Tone::Plain, "", &visible(why));
        page.line(Tone::Plain, "");
    }
}

pub(super) fn verdict(page: &mut Page<'_>, verdict: &Verdict) {
    sentence(page, verdict);
    evidence(page, verdict);
    advice(page, verdict);
}

pub(super) fn sentence(page: &mut Page<'_>, verdict: &Verdict) {
    page.text(Tone::Bold, "", &visible(&verdict.sentence));
}

pub(super) fn evidence(page: &mut Page<'_>, verdict: &Verdict) {
    for evidence in &verdict.evidence {
        page.text(Tone::Plain, "  · ", &visible(evidence));
    }
}

pub(super) fn advice(page: &mut Page<'_>, verdict: &Verdict) {
    for advice in &verdict.advice {
        let saves = duration(advice.saves_ns);
        let text = format!("{} (saves up to {saves})", visible(&advice.text));
        page.text(Tone::Plain, "  → ", &text);
        if let Some(command) = &advice.command {
            page.text(Tone::Bold, "      ", &visible(command));
        }
    }
}

pub(super) fn target(page: &mut Page<'_>, report: &Report) {
    page.section("TARGET", "what was watched, and when");
    field(page, "asked", &visible(&report.target.asked));
    field(page, "window", &window(&report.window));
    for (label, relation) in [("target", Relation::Target), ("peers", Relation::Peer)] {
        let text = processes(&report.target.processes, relation);
        if !text.is_empty() {
            field(page, label, &text);
        }
    }
}

fn window(w: &Window) -> String {
    // Beyond the year 9999 humantime refuses to print; such a time is nonsense anyway.
    let start = w.start_unix_ms.min(253_402_300_799_000);
    format!(
        "{} from {}, {} on {}, Linux {}",
        duration(w.duration_ns),
        humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(start)),
        if w.cpus == 1 {
            "1 CPU".to_owned()
        } else {
            format!("{} CPUs", w.cpus)
        },
        visible(&w.host),
        visible(&w.kernel),
    )
}

fn processes(all: &[Process], relation: Relation) -> String {
    let mut user = "";
    let items = all.iter().filter(|p| p.relation == relation).map(|p| {
        let mut text = who(&p.name, p.pid);
        if !p.user.is_empty() && p.user != user {
            user = &p.user;
            text.push_str(&format!(" of {}", visible(user)));
        }
        if let Some(ended) = &p.ended {
            text.push_str(&format!(" [{}]", visible(ended)));
        }
        text
    });
    listed(items, PROCESSES)
}

pub(super) fn measured(page: &mut Page<'_>, report: &Report) {
    page.section("MEASURED", "how, and what it cost");
    for b in &report.backends {
        field(
            page,
            &visible(&b.capability),
            &visible(b.used.as_deref().unwrap_or("not measured")),
        );
        if let Some(missing) = &b.missing {
            page.text(
                Tone::Dim,
                "           ",
                &format!("missing: {}", visible(missing)),
            );
        }
    }
    if report.losses.is_empty() {
        field(page, "lost", "nothing");
    }
    for l in &report.losses {
        let text = format!(
            "{} {}: {}",
            count(l.count),
            glued(&l.class),
            visible(&l.meaning)
        );
        field(page, "lost", &text);
    }
    field(
        page,
        "spent",
        &cost(&report.cost, report.window.duration_ns),
    );
}

fn cost(cost: &Cost, window: u64) -> String {
    let mut text = format!(
        "phux-trace {} of CPU ({}% of one CPU), {} of memory",
        duration(cost.daemon_cpu_ns),
        percent(cost.daemon_cpu_ns, window),
        bytes(cost.daemon_rss_bytes),
    );
    if let Some(kernel) = cost.kernel_bytes {
        text.push_str(&format!(" and {} of the kernel's", bytes(kernel)));
    }
    text.push_str("; its BPF programs ");
    match cost.bpf_ns {
        None => text.push_str("were not timed"),
        Some(ns) => text.push_str(&format!("{} ({}%)", duration(ns), percent(ns, window))),
    }
    let mut programs: Vec<_> = cost.programs.iter().filter(|p| p.runs > 0).collect();
    programs.sort_by_key(|p| std::cmp::Reverse(p.ns));
    if !programs.is_empty() {
        let items = programs.iter().map(|p| {
            let each = duration(p.ns / p.runs.max(1));
            glued(&format!("{} {} × {each}", p.name, count(p.runs)))
        });
        text.push_str(&format!(": {}", listed(items, PROGRAMS)));
    }
    text
}

pub(super) fn notes(page: &mut Page<'_>, report: &Report) {
    if report.notes.is_empty() {
        return;
    }
    page.section("NOTES", "read this as well");
    for note in &report.notes {
        page.text(Tone::Plain, "  · ", &visible(note));
    }
}

/// A label and its text; a label too long for its column has a line of its own.
fn field(page: &mut Page<'_>, label: &str, text: &str) {
    let cell = left(label, 7);
    if cell.len() > 7 && unicode_width::UnicodeWidthStr::width(cell.as_str()) > 7 {
        page.text(Tone::Plain, "  ", label);
        page.text(Tone::Plain, "           ", text);
    } else {
        page.text(Tone::Plain, &format!("  {cell}  "), text);
    }
}
