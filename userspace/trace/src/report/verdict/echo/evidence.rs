//! The figures that led to the sentence.

use super::sentence::{pane, part, path, phrase, rivals, usual, who};
use super::{Found, Scene};
use crate::escape::visible;
use crate::report::model::{Cause, EndKind, Ends, Report};
use crate::report::units::{count, duration, percent};
use crate::report::words::{class_in_full, link};

/// Links named for the cause, culprits, and further causes.
const NAMED: usize = 3;
/// One that has less than one part in so many is not named.
const MINOR: u64 = 20;

pub(super) fn evidence(scene: &Scene<'_>, cause: Cause, found: &[Found<'_>]) -> Vec<String> {
    let mut lines = vec![figures(scene)];
    let group = scene.group;
    let minor = |ns: u64| ns.saturating_mul(MINOR) < group.length_ns;
    if let Some(f) = found.iter().find(|f| f.cause == cause) {
        let had: u64 = f.pieces.iter().map(|p| p.ns).sum();
        lines.push(format!(
            "of their mean, {}, this is {} ({}%); of a typical echo {}",
            duration(group.length_ns),
            duration(had),
            percent(had, group.length_ns),
            duration(usual(scene, cause))
        ));
        for p in f.pieces.iter().take(NAMED).filter(|p| !minor(p.ns)) {
            let (at, name) = (link(p.link.link), who(&p.link.actor));
            lines.push(format!(
                "{at}: {name}, {}: {}",
                part(p.what),
                duration(p.ns)
            ));
        }
        let all = rivals(&f.pieces);
        for (r, ns, pids) in all.iter().take(NAMED).filter(|(_, ns, _)| !minor(*ns)) {
            lines.push(ran(r, *ns, pids));
        }
    }
    let others = found
        .iter()
        .filter(|f| f.cause != cause && f.cause != Cause::SlowEcho);
    for f in others.take(NAMED).filter(|f| !minor(f.excess_ns)) {
        let had: u64 = f.pieces.iter().map(|p| p.ns).sum();
        lines.push(format!("also: {} {}", duration(had), phrase(scene, f)));
    }
    if let Some(f) = scene
        .flood
        .as_ref()
        .filter(|_| !matches!(cause, Cause::ServerBusy | Cause::SmallReads))
    {
        lines.push(format!(
            "meanwhile {} flooded: {} reads/s",
            pane(f.pty),
            count(f.reads_per_s)
        ));
    }
    lines.extend(unanswered(&scene.echoes.ends, scene.end));
    lines.extend(super::super::evidence::limits(scene.report));
    lines
}

/// `cc1plus(15020) ran 8.10ms of it, SCHED_OTHER nice 0, cgroup /build.slice`.
fn ran(r: &crate::report::model::Rival, ns: u64, pids: &[u32]) -> String {
    let mut text = format!("{} ran {} of it", visible(&r.name), duration(ns));
    let what = if r.own { "thread" } else { "pid" };
    let pids: Vec<String> = pids.iter().take(4).map(u32::to_string).collect();
    if !pids.is_empty() {
        text.push_str(&format!(", {what} {}", pids.join(", ")));
    }
    text.push_str(&format!(", {}", class_in_full(&r.sched)));
    let place = crate::report::model::PlaceRow {
        cgroup: r.cgroup.clone(),
        ..Default::default()
    };
    if let Some(path) = path(&place) {
        text.push_str(&format!(", cgroup {path}"));
    }
    text
}

/// How long echoes took.
fn figures(scene: &Scene<'_>) -> String {
    let (echoes, group) = (scene.echoes, scene.group);
    let all = echoed(echoes);
    match scene.end {
        EndKind::Echoed => format!(
            "{all}; the slowest {}: {} to {}",
            count(group.count),
            duration(group.from_ns),
            duration(group.until_ns)
        ),
        _ => all,
    }
}

/// `1,213 echoes: p50 412µs, p99 14.8ms, max 31.2ms`.
pub(super) fn echoed(echoes: &crate::report::model::Echoes) -> String {
    let l = &echoes.length;
    match l.count {
        0 => "no input was echoed".to_owned(),
        n => format!(
            "{} {}: p50 {}, p99 {}, max {}",
            count(n),
            if n == 1 { "echo" } else { "echoes" },
            duration(l.p50),
            duration(l.p99),
            duration(l.max)
        ),
    }
}

/// How many inputs had no echo, by what became of them.
pub(super) fn unanswered(ends: &Ends, told: EndKind) -> Option<String> {
    let kinds = [
        (EndKind::Silent, "taken in silence"),
        (EndKind::Unread, "not read"),
        (EndKind::Late, "read and not answered"),
        (EndKind::Undelivered, "answered and not delivered"),
        (
            EndKind::Lost,
            "not followed to the end, since records were lost",
        ),
    ];
    let parts: Vec<String> = kinds
        .iter()
        .filter(|(end, _)| *end != told && ends.of(*end) > 0)
        .map(|(end, what)| format!("{} {what}", count(ends.of(*end))))
        .collect();
    (!parts.is_empty()).then(|| format!("other inputs: {}", parts.join(", ")))
}

/// The figures of a window in which nothing is wrong need the report's limits as well.
pub(super) fn limits(report: &Report) -> Vec<String> {
    super::super::evidence::limits(report)
}
