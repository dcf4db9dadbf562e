//! The figures that led to the sentence, and what they do not cover.

use super::echo::lift;
use super::felt::Waits;
use super::quota::used_up;
use super::sentence::{culprits, figures, instead, lives, name, readers, shared, subject, thread};
use super::{Finding, Subject};
use crate::escape::{name as name_of, visible};
use crate::report::model::{
    CgroupLevel, Culprit, CulpritKind, PtyRow, Relation, Report, ThreadRow,
};
use crate::report::units::{count, duration, percent};
use crate::report::words::class_in_full;

/// Culprits named with their pids.
const CULPRITS: usize = 3;
/// One that had less than one part in so many of the waits is not named.
const MINOR: u64 = 20;
/// Other delays named beside the largest.
const ALSO: usize = 3;

/// What led to the sentence, strongest first.
pub(super) fn evidence(
    worst: &Finding<'_>,
    others: &[Finding<'_>],
    report: &Report,
) -> Vec<String> {
    let mut lines = Vec::new();
    let total = match &worst.who {
        Subject::Threads(t, _) if !shared(t, &worst.waits) => Waits::of_thread(t).total(),
        _ => worst.waits.total(),
    };
    let mut culprits = culprits(worst);
    culprits.truncate(CULPRITS);
    culprits.retain(|c| c.ns > 0 && c.ns >= total / MINOR);
    if let Some(group) = used_up(worst) {
        culprits.retain(|c| c.kind != CulpritKind::Idle);
        lines.push(throttled(group));
    }
    lines.extend(culprits.iter().map(|c| ran(c, total, report)));
    if let Subject::Threads(t, rest) = &worst.who {
        if shared(t, &worst.waits) {
            let (t, own) = (thread(report, t), figures(&Waits::of_thread(t)));
            lines.push(format!("the one that waited most: {t}: {own}"));
        } else if let Some(others) = others_of(rest) {
            lines.push(others);
        }
        lines.push(itself(t, report));
    }
    for f in others.iter().take(ALSO) {
        lines.push(match reader_of(f, worst) {
            Some(pty) => format!(
                "among these, as reader of {}: {}",
                name(pty, report),
                figures(&f.waits)
            ),
            None => format!(
                "also: {}: {}{}",
                subject(f, report),
                figures(&f.waits),
                instead(f)
            ),
        });
    }
    if others.len() > ALSO {
        lines.push(format!(
            "and {} more like these",
            count((others.len() - ALSO) as u64)
        ));
    }
    lines.extend(limits(report));
    let pids: Vec<String> = culprits
        .iter()
        .filter(|c| c.kind == CulpritKind::Task)
        .flat_map(|c| c.pids.iter().map(u32::to_string))
        .collect();
    if !pids.is_empty() {
        lines.push(format!("what they are: ps -fp {}", pids.join(",")));
    }
    lines
}

/// How often, for how long, and what would end it.
fn throttled(group: &CgroupLevel) -> String {
    let (times, ns) = (group.nr_throttled, group.throttled_ns);
    let mut text = format!(
        "{} was throttled in {} periods, for {} on all CPUs together",
        name_of(&group.path),
        count(times.unwrap_or(0)),
        duration(ns.unwrap_or(0))
    );
    if let Some(command) = lift(&group.path) {
        text.push_str(&format!("; to lift its quota: {command}"));
    }
    text
}

/// What the other threads of the process waited, which is not in the sentence.
fn others_of(rest: &[&ThreadRow]) -> Option<String> {
    let mut waits = Waits::default();
    rest.iter().for_each(|t| waits.add_thread(t));
    let threads = match lives(rest.first()?, rest.get(1..)?) {
        1 => "another thread".to_owned(),
        n => format!("{} other threads", count(n)),
    };
    waits.any().then(|| {
        let figures = figures(&waits);
        format!("and {threads} of the process: {figures}")
    })
}

/// The PTY, if the waits of `f` are those of its reader and that is the thread of `worst`.
fn reader_of<'a>(f: &Finding<'a>, worst: &Finding<'_>) -> Option<&'a PtyRow> {
    match (&f.who, &worst.who) {
        (Subject::Reader(pty, way), Subject::Threads(t, _)) => {
            let is_it = readers(pty, *way).iter().any(|e| e.pid == t.pid);
            is_it.then_some(*pty)
        }
        _ => None,
    }
}

/// `cc1plus ran 1.62s (62.1% of the waits, 812 slices), pid 15020, 15021, OTHER nice 0`.
fn ran(c: &Culprit, total: u64, report: &Report) -> String {
    let what = match c.kind {
        CulpritKind::Task => format!("{} ran", name_of(&c.name)),
        CulpritKind::Idle => "waking the idle CPU took".to_owned(),
        CulpritKind::Unknown => "who ran is not known for".to_owned(),
    };
    let (time, share) = (duration(c.ns), percent(c.ns, total));
    if c.kind != CulpritKind::Task {
        return format!("{what} {time} ({share}% of the waits)");
    }
    let slices = count(c.slices);
    let mut text = format!("{what} {time} ({share}% of the waits, {slices} slices)");
    if !c.pids.is_empty() {
        let pids: Vec<String> = c.pids.iter().map(u32::to_string).collect();
        let more = if c.more_pids { " and more" } else { "" };
        text.push_str(&format!(", pid {}{more}", pids.join(", ")));
    }
    if let Some(sched) = &c.sched {
        let class = class_in_full(sched);
        let class = class.strip_prefix("SCHED_").unwrap_or(&class);
        text.push_str(&format!(", {class}"));
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
    let (time, share) = (duration(t.on_cpu_ns), percent(t.on_cpu_ns, window));
    let waited = Waits::of_thread(t).total();
    let (only, so) = if t.on_cpu_ns >= window / 2 {
        ("", ": busy as well")
    } else if t.on_cpu_ns < waited / 2 {
        ("only ", ": starved, not busy")
    } else {
        ("", "")
    };
    format!("it ran {only}{time} itself ({share}% of one CPU){so}")
}

/// What the figures do not cover.
pub(super) fn limits(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for l in report.losses.iter().filter(|l| l.count > 0) {
        lines.push(format!("lost: {} {}", count(l.count), visible(&l.class)));
    }
    for b in report.backends.iter().filter(|b| b.used.is_none()) {
        lines.push(format!("not measured: {}", visible(&b.capability)));
    }
    lines
}
