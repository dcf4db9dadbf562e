//! The sentence: how long a slow echo takes, and whose time most of it is.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::piece::{Piece, What, pieces};
use super::sleep::waits_for_flush;
use super::weight::{Because, branch, outranked};
use super::{Found, Scene};
use crate::echo::{LinkKind, Role};
use crate::escape::visible;
use crate::report::model::{
    ActorRow, Cause, EndKind, LinkRow, PlaceRow, PtyRow, Rival, Sleep, SleepKind,
};
use crate::report::units::{bytes, count, duration};
use crate::report::words;

/// A rest below one part in so many of the echo is not told.
const MINOR: u64 = 50;
/// Who had less than one part in so many of the wait is not told.
const RIVAL: u64 = 10;
/// Names told.
const NAMES: usize = 2;

pub(super) fn sentence(scene: &Scene<'_>, cause: Cause) -> String {
    let group = scene.group;
    let example = &group.example;
    let of_cause = |links| {
        let found = scene.rank(links);
        found.into_iter().find(|f| f.cause == cause)
    };
    // The real one, unless it is not like the others.
    let time = |f: &Option<Found<'_>>| f.as_ref().map_or(0, total);
    let (mean, real) = (of_cause(&group.links), of_cause(&example.links));
    let alike = time(&real).saturating_mul(2) >= time(&mean);
    let (links, length, found) = if alike {
        (&example.links, example.length_ns, real)
    } else {
        (&group.links, group.length_ns, mean)
    };
    let begin = match (scene.end, alike) {
        (EndKind::Echoed, true) => format!("{} is {}", slow_one(scene, length), duration(length)),
        (EndKind::Echoed, false) => format!(
            "The {} slowest echoes are {} on average",
            count(group.count),
            duration(length)
        ),
        (end, _) => {
            return format!(
                "{} of {} inputs {}: {}.",
                count(group.count),
                count(scene.echoes.inputs),
                without_answer(end),
                stayed(scene, cause, links, length, found.as_ref())
            );
        }
    };
    let Some(found) = found.filter(|_| cause != Cause::SlowEcho) else {
        let who = roles(scene, links, &[]);
        return format!("{begin}, and no single cause stands out: {who}.");
    };
    let rest = roles(scene, links, &found.pieces);
    let rest = if rest.is_empty() {
        rest
    } else {
        format!("; {rest}")
    };
    format!(
        "{begin}, of which {} {}{rest}.",
        duration(total(&found)),
        phrase(scene, &found)
    )
}

/// `The p99 echo`, if it is near enough to it to be called so.
fn slow_one(scene: &Scene<'_>, length: u64) -> &'static str {
    let p99 = scene.echoes.length.p99;
    let near = length.abs_diff(p99).saturating_mul(6) <= p99;
    match (near, scene.echoes.length.count) {
        (true, 100..) => "The p99 echo",
        (true, _) => "The slowest echo",
        (false, _) => "A slow echo",
    }
}

fn without_answer(end: EndKind) -> &'static str {
    match end {
        EndKind::Undelivered => "were answered, and the answer did not reach the client in time",
        EndKind::Unread => "were not read in time",
        _ => "were read and not answered in time",
    }
}

/// Where those without an answer stayed.
fn stayed(
    scene: &Scene<'_>,
    cause: Cause,
    links: &[LinkRow],
    length: u64,
    found: Option<&Found<'_>>,
) -> String {
    if let Some(found) = found.filter(|f| total(f).saturating_mul(4) >= length) {
        let of = format!("of {}, {}", duration(length), duration(total(found)));
        return format!("{of} {}", phrase(scene, found));
    }
    let last = |role| links.iter().rev().find(|l| l.link.role() == role);
    match cause {
        Cause::ClientNotReading => match last(Role::Client) {
            Some(l) => format!("{} does not read what is sent to it", who(&l.actor)),
            None => "the client does not read what is sent to it".to_owned(),
        },
        _ => match last(Role::Child) {
            Some(l) => format!("{} takes its time", who(&l.actor)),
            None => "the program inside takes its time".to_owned(),
        },
    }
}

fn total(found: &Found<'_>) -> u64 {
    found.pieces.iter().map(|p| p.ns).sum()
}

/// What the pieces of one cause are: `is run-queue wait of X (class, cgroup) while Y ran`.
pub(super) fn phrase(scene: &Scene<'_>, found: &Found<'_>) -> String {
    let Some(most) = found.pieces.first() else {
        return String::new();
    };
    let actor = &most.link.actor;
    let name = who(actor);
    match found.cause {
        Cause::HogOnServer | Cause::HogOnChild | Cause::HogOnClient => format!(
            "is run-queue wait of {name} ({}){}",
            scheduled(&actor.place),
            while_ran(&found.pieces)
        ),
        Cause::FlushWorker if matches!(most.what, What::Slept(_)) => {
            format!("is {name} {}", asleep(most.what))
        }
        Cause::FlushWorker => format!(
            "is run-queue wait of the kernel's flush worker {name} ({}){}",
            scheduled(&actor.place),
            while_ran(&found.pieces)
        ),
        Cause::LowPriority => format!(
            "is run-queue wait of {name}, which its own scheduling holds back ({}){}",
            held_back(found.pieces.iter().find(known).unwrap_or(most)),
            while_ran(&found.pieces)
        ),
        Cause::RunQueue => format!(
            "is run-queue wait of {name} ({}), and who ran instead is not known",
            scheduled(&actor.place)
        ),
        Cause::QuotaThrottling => format!("is throttling of {name}: {}", quota(&actor.place)),
        Cause::ServerBusy | Cause::SmallReads => {
            let flood = scene.flood.as_ref().map_or_else(String::new, |f| {
                let each = bytes(f.mean());
                let (reads, rate) = (count(f.reads_per_s), bytes(f.bytes_per_s));
                format!(
                    ", with {}: {rate}/s in {reads} reads/s of {each} on average",
                    pane(f.pty)
                )
            });
            match most.what {
                What::Waited(_) => format!(
                    "is run-queue wait of {name}{}{flood}",
                    while_ran(&found.pieces)
                ),
                What::Slept(_) => format!("is {name} waiting for the multiplexer to read{flood}"),
                _ => format!("is {name} at work{flood}"),
            }
        }
        Cause::ServerBlocked => format!("is {name} {}", asleep(most.what)),
        Cause::SlowChild | Cause::SlowClient => match most.what {
            What::Slept(_) => format!("is {name} itself, {}", asleep(most.what)),
            What::Waited(_) => format!("is run-queue wait of {name} while its own threads ran"),
            _ => format!("is {name} itself, on a CPU"),
        },
        Cause::ClientNotReading => match most.link.link {
            LinkKind::ServerOutput => {
                format!("is {name} {}: a client does not read", asleep(most.what))
            }
            _ => format!(
                "is {name} {}: its terminal does not read",
                asleep(most.what)
            ),
        },
        Cause::MajorFaults => {
            format!("is {name} fetching pages from a disk (major page faults)")
        }
        Cause::Interrupts => format!("is interrupts on the CPU of {name}"),
        _ => String::new(),
    }
}

/// `tmux: server(100)`, `kworker/u8:2(311)`.
pub(super) fn who(actor: &ActorRow) -> String {
    let id = if actor.tid == 0 { actor.pid } else { actor.tid };
    match (actor.name.as_str(), id) {
        ("", 0) => "a thread that is not known".to_owned(),
        ("", id) => format!("thread {id}"),
        (name, 0) => visible(name).into_owned(),
        (name, id) => format!("{}({id})", visible(name)),
    }
}

/// `SCHED_OTHER nice 0, cgroup /user.slice`.
pub(super) fn scheduled(place: &PlaceRow) -> String {
    let class = words::class_in_full(&place.sched);
    match path(place) {
        Some(path) => format!("{class}, cgroup {path}"),
        None => class,
    }
}

/// Path of the cgroup, harmless; `None` where it is not known or the root.
pub(super) fn path(place: &PlaceRow) -> Option<String> {
    let group = place.cgroup.as_ref()?;
    let known = !group.path.is_empty() && group.path != "/";
    known.then(|| visible(&group.path).into_owned())
}

/// Whether it is a wait for somebody who is known.
fn known(piece: &&Piece<'_>) -> bool {
    matches!(piece.what, What::Waited(Some(_)))
}

fn held_back(piece: &Piece<'_>) -> String {
    let place = &piece.link.actor.place;
    let because = match piece.what {
        What::Waited(Some(rival)) => outranked(place, rival),
        _ => None,
    };
    match because {
        Some(Because::Autogroup) => {
            let nice = place.autogroup_nice.unwrap_or(0);
            format!("its session's nice is {nice}")
        }
        Some(Because::Cgroup) => {
            let other = match piece.what {
                What::Waited(Some(rival)) => rival.cgroup.as_ref(),
                _ => None,
            };
            let between = place.cgroup.as_ref().zip(other);
            let light = between.and_then(|(own, other)| branch(own, other));
            let (path, weight) = light.map_or_else(Default::default, |c| (c.path, c.weight));
            format!(
                "cgroup {}, weight {}",
                visible(&path),
                weight.unwrap_or_default()
            )
        }
        _ => scheduled(place),
    }
}

fn quota(place: &PlaceRow) -> String {
    let Some(group) = &place.cgroup else {
        return "its cgroup's quota was used up".to_owned();
    };
    match (&group.quota_path, group.quota_us, group.period_us) {
        (Some(path), Some(quota), Some(period)) => format!(
            "cgroup {} had used up its quota of {} in each {}",
            visible(path),
            duration(quota.saturating_mul(1000)),
            duration(period.saturating_mul(1000))
        ),
        _ => "its cgroup, or one above it, had used up its quota".to_owned(),
    }
}

/// `asleep in fsync (disk)`.
pub(super) fn asleep(what: What<'_>) -> String {
    match what {
        What::Slept(Some(sleep @ Sleep { what, syscall, .. })) => {
            let call = syscall.as_deref().map(visible).unwrap_or_default();
            match what {
                SleepKind::Disk if waits_for_flush(sleep) => {
                    format!("asleep in {call} until the kernel has flushed a PTY")
                }
                SleepKind::Disk => format!("asleep in {call} (uninterruptible: a disk, as a rule)"),
                SleepKind::Syscall => format!("asleep in {call}"),
                SleepKind::PageFault => "asleep in a page fault".to_owned(),
                SleepKind::Unknown => "asleep".to_owned(),
            }
        }
        What::Slept(None) => "asleep".to_owned(),
        _ => "on a CPU".to_owned(),
    }
}

/// Those who ran instead, over all pieces, most time first.
pub(super) fn rivals<'a>(pieces: &[Piece<'a>]) -> Vec<(&'a Rival, u64, Vec<u32>)> {
    let mut by: BTreeMap<(&str, bool), (&'a Rival, u64, Vec<u32>)> = BTreeMap::new();
    for p in pieces {
        let What::Waited(Some(r)) = p.what else {
            continue;
        };
        let entry = by
            .entry((r.name.as_str(), r.own))
            .or_insert_with(|| (r, 0, Vec::new()));
        entry.1 += p.excess_ns;
        for pid in &r.pids {
            if !entry.2.contains(pid) {
                entry.2.push(*pid);
            }
        }
    }
    let mut all: Vec<_> = by.into_values().collect();
    all.sort_by_key(|(_, ns, _)| Reverse(*ns));
    all
}

/// ` while rustc ×2 and make(7) ran`.
fn while_ran(pieces: &[Piece<'_>]) -> String {
    let all = rivals(pieces);
    let sum: u64 = all.iter().map(|(_, ns, _)| ns).sum();
    let names: Vec<String> = all
        .iter()
        .take(NAMES)
        .filter(|(_, ns, _)| ns.saturating_mul(RIVAL) >= sum)
        .map(|(r, _, pids)| {
            let name = visible(&r.name);
            match pids.as_slice() {
                [] => name.into_owned(),
                [pid] => format!("{name}({pid})"),
                pids => format!(
                    "{name} ×{}{}",
                    pids.len(),
                    if r.more_pids { "+" } else { "" }
                ),
            }
        })
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(" while {} ran", names.join(" and "))
    }
}

/// What everyone else had: `the kworkers 400µs; the program 1.10ms`.
fn roles(scene: &Scene<'_>, links: &[LinkRow], without: &[Piece<'_>]) -> String {
    let mut by: BTreeMap<Role, u64> = BTreeMap::new();
    for l in links {
        *by.entry(scene.role(l)).or_default() += l.length_ns;
    }
    for p in without {
        let had = by.entry(scene.role(p.link)).or_default();
        *had = had.saturating_sub(p.ns);
    }
    let length: u64 = links.iter().map(|l| l.length_ns).sum();
    let mut all: Vec<(Role, u64)> = by.into_iter().collect();
    all.sort_by_key(|(_, ns)| Reverse(*ns));
    let told = all
        .iter()
        .filter(|(_, ns)| *ns > 0 && ns.saturating_mul(MINOR) >= length);
    let also = |role| without.iter().any(|p| scene.role(p.link) == role);
    let told: Vec<String> = told
        .map(|(role, ns)| {
            let what = match role {
                Role::FlushWorker => "the kworkers",
                Role::Client => "the client",
                Role::Server => "the server",
                Role::Child => "the program inside",
            };
            let otherwise = if also(*role) { " otherwise" } else { "" };
            format!("{what}{otherwise} {}", duration(*ns))
        })
        .collect();
    told.join("; ")
}

/// `/dev/pts/5 (yes)`.
pub(super) fn pane(pty: &PtyRow) -> String {
    match pty.slave.last() {
        Some(end) => format!("/dev/pts/{} ({})", pty.index, visible(&end.name)),
        None => format!("/dev/pts/{}", pty.index),
    }
}

/// What the time went to, in words: for the evidence.
pub(super) fn part(what: What<'_>) -> String {
    match what {
        What::Ran => "on a CPU".to_owned(),
        What::Waited(_) => "waiting for a CPU".to_owned(),
        What::Throttled => "throttled".to_owned(),
        What::Slept(_) => asleep(what),
        What::Interrupted => "interrupted".to_owned(),
        What::Unknown => "not known".to_owned(),
    }
}

/// What the typical echo has of the same parts of the same links, ns.
pub(super) fn usual(scene: &Scene<'_>, found: &Found<'_>) -> u64 {
    let same = |a: &Piece<'_>, b: &Piece<'_>| {
        a.link.link == b.link.link
            && std::mem::discriminant(&a.what) == std::mem::discriminant(&b.what)
    };
    pieces(scene.typical(), &[])
        .iter()
        .filter(|p| found.pieces.iter().any(|f| same(p, f)))
        .map(|p| p.ns)
        .sum()
}
