//! The sentence: who waited for what, how long, and who ran instead.

use std::cmp::Reverse;

use super::felt::Waits;
use super::quota::used_up;
use super::{Finding, Subject, Way};
use crate::escape;
use crate::report::model::{Culprit, CulpritKind, End, PtyRow, Report, ThreadRow};
use crate::report::units::{count, duration, percent};
use crate::report::words::{class_in_full, culprit};

/// Who waited for what, how long, and who ran instead.
pub(super) fn sentence(f: &Finding<'_>, report: &Report) -> String {
    let window = report.window.duration_ns;
    let subject = begin(&subject(f, report), &f.who);
    let share = |ns| {
        let (ns, share) = (duration(ns), percent(ns, window));
        format!("{ns} of {} ({share}%)", duration(window))
    };
    let (waited, waits) = match &f.who {
        // Time of many threads is no part of the window: each has the whole of it.
        Subject::Threads(worst, others) if shared(worst, &f.waits) => {
            let (total, n) = (f.waits.total(), lives(worst, others));
            let each = share(total / n);
            let waited = format!("{} in all, {each} each on average,", duration(total));
            (waited, figures(&f.waits))
        }
        // The process is judged as one; what is told here is of the thread that is named.
        Subject::Threads(worst, _) => {
            let own = Waits::of_thread(worst);
            (share(own.total()), figures(&own))
        }
        _ => (share(f.waits.total()), figures(&f.waits)),
    };
    format!("{subject}: {waited} in {waits}{}.", instead(f))
}

/// Threads that a finding is about, those summed in one row counted one by one; at least 1.
pub(super) fn lives(worst: &ThreadRow, others: &[&ThreadRow]) -> u64 {
    let all = std::iter::once(&worst).chain(others);
    all.fold(0u64, |n, t| n.saturating_add(t.threads.max(1)))
}

/// A sentence's capital, unless it begins with a name.
fn begin(subject: &str, who: &Subject<'_>) -> String {
    let named = match who {
        Subject::Threads(t, _) => t.tid == t.pid,
        Subject::Worker(..) => false,
        Subject::Reader(pty, way) => !readers(pty, *way).is_empty(),
    };
    match subject.split_at_checked(1) {
        Some((first, rest)) if !named => first.to_uppercase() + rest,
        _ => subject.to_owned(),
    }
}

/// `thread server(14410) of zellij(14407), SCHED_OTHER nice 0, waits for a CPU`.
pub(super) fn subject(f: &Finding<'_>, report: &Report) -> String {
    match &f.who {
        Subject::Threads(worst, others) if shared(worst, &f.waits) => {
            let n = count(lives(worst, others));
            format!(
                "{n} threads of {} wait for a CPU",
                process(report, worst.pid)
            )
        }
        Subject::Threads(t, _) => {
            format!(
                "{}, {}, waits for a CPU",
                thread(report, t),
                class_in_full(&t.sched)
            )
        }
        Subject::Worker(pty, _, way) => {
            let what = match way {
                Way::Output => "output of",
                Way::Input => "input to",
            };
            format!(
                "{what} {} waits for the kernel's flush worker (kworker)",
                name(pty, report)
            )
        }
        Subject::Reader(pty, way) => {
            let what = match way {
                Way::Output => "output of",
                Way::Input => "input to",
            };
            format!(
                "{}, once woken to read the {what} {}, waits for a CPU",
                reader(readers(pty, *way)),
                name(pty, report)
            )
        }
    }
}

/// Whether no single thread of the group lost most of the time.
pub(super) fn shared(worst: &ThreadRow, group: &Waits) -> bool {
    worst.threads > 1 || Waits::of_thread(worst).total().saturating_mul(2) < group.total()
}

pub(super) fn thread(report: &Report, t: &ThreadRow) -> String {
    let name = format!("{}({})", escape::name(&t.comm), t.tid);
    if t.tid == t.pid {
        name
    } else {
        format!("thread {name} of {}", process(report, t.pid))
    }
}

fn process(report: &Report, pid: u32) -> String {
    match report.target.processes.iter().find(|p| p.pid == pid) {
        Some(p) => format!("{}({pid})", escape::name(&p.name)),
        None => format!("process {pid}"),
    }
}

/// The PTY's path, with its instance where two have the same.
pub(super) fn name(pty: &PtyRow, report: &Report) -> String {
    let twin = report
        .ptys
        .iter()
        .any(|p| p.index == pty.index && p.devpts != pty.devpts);
    let instance = if twin {
        format!(" (devpts {})", pty.devpts)
    } else {
        String::new()
    };
    format!("/dev/pts/{}{instance}", pty.index)
}

/// The processes that may read what comes this way.
pub(super) fn readers(pty: &PtyRow, way: Way) -> &[End] {
    match way {
        Way::Output => &pty.master,
        Way::Input => &pty.slave,
    }
}

/// Their names.
fn reader(ends: &[End]) -> String {
    match ends {
        [] => "the reader".to_owned(),
        [end] => format!("{}({})", escape::name(&end.name), end.pid),
        [end, more @ ..] => {
            format!(
                "{}({}) or {} more",
                escape::name(&end.name),
                end.pid,
                count(more.len() as u64)
            )
        }
    }
}

/// `1,284 waits (p50 312µs, p99 14.8ms, max 31.2ms)`.
pub(super) fn figures(w: &Waits) -> String {
    let mut parts = Vec::new();
    match w.all.count {
        0 => {}
        1 => parts.push(format!("1 wait ({})", duration(w.all.max))),
        n => parts.push(format!(
            "{} waits (p50 {}, p99 {}, max {})",
            count(n),
            duration(w.all.percentile(50.0)),
            duration(w.all.percentile(99.0)),
            duration(w.all.max)
        )),
    }
    if w.account.0 > 0 {
        parts.push(format!(
            "{} waits ({} on average, the longest {} or more)",
            count(w.account.0),
            duration(w.average()),
            duration(w.at_least_ns)
        ));
    }
    if w.pending_ns > 0 {
        parts.push(format!(
            "one that has not ended after {}",
            duration(w.pending_ns)
        ));
    }
    parts.join(" and ")
}

/// Time of one kind that somebody else had, summed over the threads of the finding.
pub(super) fn culprits(f: &Finding<'_>) -> Vec<Culprit> {
    let lists: Vec<&[Culprit]> = match &f.who {
        Subject::Threads(worst, others) if shared(worst, &f.waits) => std::iter::once(worst)
            .chain(others)
            .map(|t| t.ran_instead.as_slice())
            .collect(),
        Subject::Threads(worst, _) => vec![&worst.ran_instead],
        Subject::Worker(_, flush, _) => vec![&flush.ran_instead],
        Subject::Reader(..) => vec![],
    };
    let mut merged: Vec<Culprit> = Vec::new();
    for c in lists.into_iter().flatten() {
        match merged
            .iter_mut()
            .find(|m| m.kind == c.kind && m.name == c.name)
        {
            Some(m) => merge(m, c),
            None => merged.push(c.clone()),
        }
    }
    merged.sort_by_key(|c| Reverse(c.ns));
    merged
}

fn merge(into: &mut Culprit, c: &Culprit) {
    into.ns = into.ns.saturating_add(c.ns);
    into.slices = into.slices.saturating_add(c.slices);
    into.more_pids |= c.more_pids;
    for pid in &c.pids {
        // The model's bound on listed pids holds for sums as well.
        match into.pids.contains(pid) {
            true => {}
            false if into.pids.len() < 4 => into.pids.push(*pid),
            false => into.more_pids = true,
        }
    }
    if into.sched != c.sched {
        into.sched = None;
    }
}

/// `, while cc1plus ×3 and rustc(15102) ran`; waking an idle CPU is nobody's fault.
pub(super) fn instead(f: &Finding<'_>) -> String {
    if let Some(group) = used_up(f) {
        let us = |us: Option<u64>| duration(us.unwrap_or(0).saturating_mul(1000));
        return format!(
            ", while cgroup {} had used up its quota of {} in each {}",
            escape::name(&group.path),
            us(group.quota_us),
            us(group.period_us)
        );
    }
    let all = culprits(f);
    let sum = |kind| {
        all.iter()
            .filter(|c| c.kind == kind)
            .fold(0u64, |s, c| s.saturating_add(c.ns))
    };
    let (tasks, idle, unknown) = (
        sum(CulpritKind::Task),
        sum(CulpritKind::Idle),
        sum(CulpritKind::Unknown),
    );
    if tasks == 0 && idle == 0 && unknown == 0 {
        return String::new();
    }
    if idle > tasks && idle > unknown {
        return ", though its CPU was idle: waking it took the time".to_owned();
    }
    if unknown > tasks {
        return ", and who ran instead is not known".to_owned();
    }
    let names: Vec<String> = all
        .iter()
        .filter(|c| c.kind == CulpritKind::Task)
        .take(2)
        .map(culprit)
        .collect();
    format!(", while {} ran", names.join(" and "))
}
