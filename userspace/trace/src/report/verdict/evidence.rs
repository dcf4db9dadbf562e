//! The figures that led to the sentence, and what they do not cover.

use super::felt::Waits;
use super::sentence::{culprits, figures, instead, readers, shared, subject, thread};
use super::{Finding, Subject};
use crate::report::escape::visible;
use crate::report::model::{Culprit, CulpritKind, Relation, Report, ThreadRow};
use crate::report::units::{count, duration, percent};
use crate::report::words::class_in_full;

/// Culprits named with their pids.
const CULPRITS: usize = 3;
/// Other delays named beside the largest.
const ALSO: usize = 3;

/// What led to the sentence, strongest first.
pub(super) fn evidence(
    worst: &Finding<'_>,
    others: &[Finding<'_>],
    report: &Report,
) -> Vec<String> {
    let mut lines = Vec::new();
    let culprits = culprits(worst);
    let total = worst.waits.total();
    for c in culprits.iter().filter(|c| c.ns > 0).take(CULPRITS) {
        lines.push(ran(c, total, report));
    }
    if let Subject::Threads(t, rest) = &worst.who {
        if shared(t, &worst.waits) {
            let mut own = Waits::default();
            own.add_thread(t);
            lines.push(format!(
                "the one that waited most: {}: {}",
                thread(report, t),
                figures(&own)
            ));
        } else if !rest.is_empty() && worst.waits.total() > 0 {
            lines.push(format!(
                "the figures include {} other threads of the process",
                count(rest.len() as u64)
            ));
        }
        lines.push(itself(t, report));
    }
    for f in others.iter().take(ALSO) {
        let also = if part_of(f, worst) {
            "among these"
        } else {
            "also"
        };
        lines.push(format!(
            "{also}: {}: {}{}",
            subject(f, report),
            figures(&f.waits),
            instead(f)
        ));
    }
    if others.len() > ALSO {
        lines.push(format!(
            "and {} more such delays",
            count((others.len() - ALSO) as u64)
        ));
    }
    lines.extend(limits(report));
    let pids: Vec<String> = culprits
        .iter()
        .filter(|c| c.kind == CulpritKind::Task)
        .take(CULPRITS)
        .flat_map(|c| c.pids.iter().map(u32::to_string))
        .collect();
    if !pids.is_empty() {
        lines.push(format!("what they are: ps -fp {}", pids.join(",")));
    }
    lines
}

/// Whether the waits of the reader `f` are some of the waits of its own thread.
fn part_of(f: &Finding<'_>, worst: &Finding<'_>) -> bool {
    let (Subject::Reader(pty, way), Subject::Threads(t, _)) = (&f.who, &worst.who) else {
        return false;
    };
    readers(pty, *way).iter().any(|e| e.pid == t.pid)
}

/// `cc1plus ran 1.62s (62.1% of the waits) in 812 slices; pids 15020, 15021; SCHED_OTHER nice 0`.
fn ran(c: &Culprit, total: u64, report: &Report) -> String {
    let what = match c.kind {
        CulpritKind::Task => format!("{} ran", visible(&c.name)),
        CulpritKind::Idle => "waking the idle CPU took".to_owned(),
        CulpritKind::Unknown => "who ran is not known for".to_owned(),
    };
    let mut text = format!(
        "{what} {} ({}% of the waits)",
        duration(c.ns),
        percent(c.ns, total)
    );
    if c.kind != CulpritKind::Task {
        return text;
    }
    text.push_str(&format!(" in {} slices", count(c.slices)));
    if !c.pids.is_empty() {
        let pids: Vec<String> = c.pids.iter().map(u32::to_string).collect();
        let more = if c.more_pids { " and more" } else { "" };
        text.push_str(&format!("; pid {}{more}", pids.join(", ")));
    }
    if let Some(sched) = &c.sched {
        text.push_str(&format!("; {}", class_in_full(sched)));
    }
    let relation = |r| {
        report
            .target
            .processes
            .iter()
            .any(|p| p.relation == r && c.pids.contains(&p.pid))
    };
    if relation(Relation::Target) {
        text.push_str("; part of the target");
    } else if relation(Relation::Peer) {
        text.push_str("; runs inside the target's terminals");
    }
    text
}

/// Whether the victim was busy itself.
fn itself(t: &ThreadRow, report: &Report) -> String {
    let window = report.window.duration_ns;
    let share = format!(
        "{} ({}% of one CPU)",
        duration(t.on_cpu_ns),
        percent(t.on_cpu_ns, window)
    );
    let waited = t.wait.sum.saturating_add(t.waiting_ns.unwrap_or(0));
    let name = visible(&t.comm);
    if t.on_cpu_ns >= window / 2 {
        format!("{name} ran {share} itself: it is busy as well")
    } else if t.on_cpu_ns < waited / 2 {
        format!("{name} ran only {share} itself: it is starved, not busy")
    } else {
        format!("{name} ran {share} itself")
    }
}

/// What the figures do not cover.
pub(super) fn limits(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for l in report.losses.iter().filter(|l| l.count > 0) {
        let (class, meaning) = (visible(&l.class), visible(&l.meaning));
        lines.push(format!("lost: {} {class}: {meaning}", count(l.count)));
    }
    for b in report.backends.iter().filter(|b| b.used.is_none()) {
        lines.push(format!("not measured: {}", visible(&b.capability)));
    }
    lines
}
