//! What would help, and what it would save; only where the figures say so.

use std::cmp::Reverse;

use super::piece::What;
use super::sentence::{asleep, pane, path, rivals, who};
use super::weight::{Because, apart, outranked};
use super::{Found, Scene};
use crate::escape::visible;
use crate::report::model::{ActorRow, Advice, Cause, Cgroup, PlaceRow, Rival, SleepKind};
use crate::report::units::{bytes, count};

/// What saves less than this of a slow echo is no advice, ns: a twentieth of what is lag.
const WORTH_NS: u64 = 200_000;
/// Who ran instead told by name.
const HOGS: usize = 2;
/// The share that a hog keeps: one part in ten of what it would get beside a usual one.
const LIGHT: &str = "CPUWeight=10";
/// Slice that lets a thread go first when it wakes, ns: the shortest that the kernel takes.
const SLICE_NS: u32 = 100_000;

/// What would help against the cause, and against the others that are worth it; most first.
pub(super) fn advice(scene: &Scene<'_>, cause: Cause, found: &[Found<'_>]) -> Vec<Advice> {
    let mut all = Vec::new();
    let worth = found.iter().filter(|f| f.excess_ns >= WORTH_NS);
    for f in
        worth.filter(|f| f.cause == cause || f.excess_ns.saturating_mul(5) >= scene.group.length_ns)
    {
        match f.cause {
            Cause::HogOnServer | Cause::HogOnChild | Cause::HogOnClient | Cause::FlushWorker => {
                all.extend(hogs(f));
                all.extend(slice(scene, f));
            }
            Cause::LowPriority => all.extend(priority(f)),
            Cause::QuotaThrottling => all.extend(quota(f)),
            Cause::ServerBusy => all.extend(flood(scene, f)),
            Cause::SmallReads => all.extend(small_reads(scene, f)),
            Cause::ServerBlocked => all.extend(blocked(f)),
            Cause::SlowChild | Cause::SlowClient => all.extend(itself(f)),
            Cause::ClientNotReading => all.extend(client(f)),
            Cause::MajorFaults => all.extend(faults(f)),
            _ => {}
        }
    }
    all.retain(|a| a.saves_ns >= WORTH_NS);
    all.sort_by_key(|a| Reverse(a.saves_ns));
    let mut seen: Vec<Option<String>> = Vec::new();
    all.retain(|a| {
        let new = a.command.is_none() || !seen.contains(&a.command);
        seen.push(a.command.clone());
        new
    });
    all
}

fn one(text: String, command: Option<String>, saves_ns: u64) -> Advice {
    Advice {
        text,
        command,
        saves_ns,
    }
}

fn listed(pids: &[u32], between: &str) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    pids.join(between)
}

/// Lets those who ran instead give way, in the way that the kernel shares between them.
fn hogs(f: &Found<'_>) -> Vec<Advice> {
    let mut all = Vec::new();
    let Some(victim) = f.pieces.first().map(|p| &p.link.actor) else {
        return all;
    };
    for (rival, saves, pids) in rivals(&f.pieces).into_iter().take(HOGS) {
        let name = visible(&rival.name);
        // Of kernel threads only some may be told how to run, and they run for somebody.
        if pids.is_empty() || rival.name.contains('/') {
            continue;
        }
        let class = rival.sched.policy.as_str();
        if matches!(class, "SCHED_FIFO" | "SCHED_RR" | "SCHED_DEADLINE") {
            let command = pids.iter().map(|p| format!("chrt --other -p 0 {p}"));
            let command = command.collect::<Vec<_>>().join("; ");
            all.push(one(
                format!("take {name} out of its real-time class"),
                Some(command),
                saves,
            ));
        } else if apart(victim.place.cgroup.as_ref(), rival.cgroup.as_ref()) {
            if let Some(unit) = rival.cgroup.as_ref().and_then(unit) {
                let text =
                    format!("make the cgroup of {name} light: between cgroups nice does not count");
                all.push(one(text, Some(set(&unit, LIGHT)), saves));
            }
        } else if victim.place.autogroup_nice.is_some() && !victim.kworker {
            let pids = pids
                .iter()
                .map(|p| format!("echo 19 > /proc/{p}/autogroup"));
            let text = format!(
                "let the session of {name} give way: between sessions own nice does not count"
            );
            all.push(one(text, Some(pids.collect::<Vec<_>>().join("; ")), saves));
        } else if rival.sched.nice < 19 && class != "SCHED_IDLE" {
            let text = format!("let {name} give way");
            all.push(one(
                text,
                Some(format!("renice -n 19 -p {}", listed(&pids, " "))),
                saves,
            ));
            let text = format!("or start {name} in a light cgroup next time");
            let command = format!("systemd-run --scope -p {LIGHT} {name}");
            all.push(one(text, Some(command), saves));
        }
    }
    all
}

/// A shorter slice lets the victim go first, of Linux 6.12 on, among those whose claim is the same.
fn slice(scene: &Scene<'_>, f: &Found<'_>) -> Option<Advice> {
    let actor = &f.pieces.first()?.link.actor;
    let longer = actor.place.slice_us? > SLICE_NS / 1000 * 2;
    let fair = actor.place.sched.policy == "SCHED_OTHER" && !actor.kworker && actor.tid != 0;
    if !longer || !fair || !since(&scene.report.window.kernel, (6, 12)) {
        return None;
    }
    // Beside real-time tasks, and between cgroups, it changes nothing.
    let same = rivals(&f.pieces).into_iter().filter(|(r, ..)| {
        r.sched.policy == "SCHED_OTHER" && !apart(actor.place.cgroup.as_ref(), r.cgroup.as_ref())
    });
    let saves = same.map(|(_, ns, _)| ns).sum();
    let nice = actor.place.sched.nice;
    Some(one(
        format!(
            "or let {} go first when it wakes, by a short slice (chrt of util-linux 2.41)",
            who(actor)
        ),
        Some(format!(
            "chrt --other --sched-runtime {SLICE_NS} -p 0 {}",
            actor.tid
        )),
        if nice > 0 { 0 } else { saves },
    ))
}

fn since(kernel: &str, wanted: (u32, u32)) -> bool {
    let mut parts = kernel.split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next().and_then(|p| p.parse::<u32>().ok());
    matches!((next(), next()), (Some(major), Some(minor)) if (major, minor) >= wanted)
}

/// Undoes what holds the victim back.
fn priority(f: &Found<'_>) -> Vec<Advice> {
    let mut done: Vec<u32> = Vec::new();
    let mut all = Vec::new();
    for p in &f.pieces {
        let actor = &p.link.actor;
        let What::Waited(Some(rival)) = p.what else {
            continue;
        };
        if done.contains(&actor.tid) {
            continue;
        }
        done.push(actor.tid);
        let mine = |q: &&super::Piece<'_>| q.link.actor.tid == actor.tid;
        let saves = f.pieces.iter().filter(mine).map(|q| q.excess_ns).sum();
        all.extend(undo(actor, rival, saves));
    }
    all
}

fn undo(actor: &ActorRow, rival: &Rival, saves: u64) -> Option<Advice> {
    let name = who(actor);
    let (text, command) = match outranked(&actor.place, rival)? {
        Because::Policy => (
            format!(
                "give {name} the usual class back: as {} it preempts nobody",
                actor.place.sched.policy
            ),
            format!("chrt --all-tasks --other -p 0 {}", actor.pid),
        ),
        Because::Nice => (
            format!("give {name} its usual nice back"),
            format!("renice -n 0 -p {}", actor.pid),
        ),
        Because::Autogroup => (
            format!("give the session of {name} its usual nice back"),
            format!("echo 0 > /proc/{}/autogroup", actor.pid),
        ),
        Because::Cgroup => (
            format!("give the cgroup of {name} the usual weight"),
            weigh(&actor.place)?,
        ),
    };
    Some(one(text, Some(command), saves))
}

fn weigh(place: &PlaceRow) -> Option<String> {
    let group = place.cgroup.as_ref()?;
    match unit(group) {
        Some(unit) => Some(set(&unit, "CPUWeight=100")),
        None => Some(format!(
            "echo 100 > /sys/fs/cgroup{}/cpu.weight",
            path(place)?
        )),
    }
}

fn quota(f: &Found<'_>) -> Option<Advice> {
    let actor = &f.pieces.first()?.link.actor;
    let group = actor.place.cgroup.as_ref()?;
    let path = path(&actor.place)?;
    // A quota that stands above is not told: then the place to raise it is not known.
    let command = match (unit(group), group.quota_us) {
        (Some(unit), Some(_)) => Some(set(&unit, "CPUQuota=")),
        (None, Some(_)) => Some(format!("echo max > /sys/fs/cgroup{path}/cpu.max")),
        (_, None) => None,
    };
    let text = format!("raise or lift the quota of {path}");
    Some(one(text, command, f.excess_ns))
}

fn flood(scene: &Scene<'_>, f: &Found<'_>) -> Option<Advice> {
    let flood = scene.flood.as_ref()?;
    let text = format!("let {} print less, or into a file", pane(flood.pty));
    Some(one(text, None, f.excess_ns))
}

fn small_reads(scene: &Scene<'_>, f: &Found<'_>) -> Option<Advice> {
    let flood = scene.flood.as_ref()?;
    let text = format!(
        "let {} write its output in larger pieces: now {} writes a second of {} each",
        pane(flood.pty),
        count(flood.reads_per_s),
        bytes(flood.mean())
    );
    let command = flood
        .pty
        .slave
        .last()
        .map(|e| format!("stdbuf -o4096 {}", visible(&e.name)));
    Some(one(text, command, f.excess_ns))
}

fn blocked(f: &Found<'_>) -> Option<Advice> {
    let piece = f.pieces.first()?;
    let actor = &piece.link.actor;
    let What::Slept(Some(sleep)) = piece.what else {
        return None;
    };
    let syscall = visible(sleep.syscall.as_deref()?).into_owned();
    let (text, command) = if sleep.what == SleepKind::Disk {
        (
            format!(
                "move the file that {} waits for in {syscall} off the slow disk",
                who(actor)
            ),
            format!("strace -f -y -T -e trace={syscall} -p {}", actor.pid),
        )
    } else if syscall == "futex" {
        (
            format!("find who holds the lock that {} waits for", who(actor)),
            format!("perf trace -s -p {}", actor.pid),
        )
    } else {
        (
            format!("see why {} sleeps in {syscall}", who(actor)),
            format!("strace -f -y -T -e trace={syscall} -p {}", actor.pid),
        )
    };
    Some(one(text, Some(command), f.excess_ns))
}

fn itself(f: &Found<'_>) -> Option<Advice> {
    let piece = f.pieces.first()?;
    let actor = &piece.link.actor;
    if actor.pid == 0 {
        return None;
    }
    let (text, command) = match piece.what {
        What::Slept(_) => (
            format!(
                "see what {} waits for: it is {}",
                who(actor),
                asleep(piece.what)
            ),
            format!("strace -f -y -T -p {}", actor.pid),
        ),
        _ => (
            format!("see what {} computes", who(actor)),
            format!("perf top -p {}", actor.pid),
        ),
    };
    Some(one(text, Some(command), f.excess_ns))
}

fn client(f: &Found<'_>) -> Option<Advice> {
    let actor = &f.pieces.first()?.link.actor;
    let text = format!(
        "find the client or terminal that does not read (stopped, a slow line), and detach it; {} waits for it",
        who(actor)
    );
    Some(one(text, None, f.excess_ns))
}

fn faults(f: &Found<'_>) -> Option<Advice> {
    let actor = &f.pieces.first()?.link.actor;
    let group = actor.place.cgroup.as_ref().and_then(unit);
    let text = format!(
        "keep the memory of {} from being reclaimed, or free some",
        who(actor)
    );
    Some(one(
        text,
        group.map(|u| set(&u, "MemoryLow=64M")),
        f.excess_ns,
    ))
}

/// A systemd unit, and whether it is one of a user's manager.
struct Unit {
    name: String,
    user: bool,
}

/// The unit that a cgroup is the root of.
fn unit(group: &Cgroup) -> Option<Unit> {
    let (above, name) = group.path.rsplit_once('/')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:\\".contains(c);
    let known = [".service", ".scope", ".slice"]
        .iter()
        .any(|s| name.ends_with(s));
    let user = above
        .split('/')
        .any(|p| p.starts_with("user@") && p.ends_with(".service"));
    (known && name.chars().all(plain)).then(|| Unit {
        name: name.to_owned(),
        user,
    })
}

fn set(unit: &Unit, property: &str) -> String {
    let user = if unit.user { " --user" } else { "" };
    format!(
        "systemctl{user} set-property --runtime {} {property}",
        unit.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_last_folder_of_a_path() {
        let of = |path: &str| {
            let group = Cgroup {
                path: path.into(),
                ..Cgroup::default()
            };
            unit(&group).map(|u| set(&u, LIGHT))
        };
        assert_eq!(
            of("/system.slice/build.service").as_deref(),
            Some("systemctl set-property --runtime build.service CPUWeight=10")
        );
        assert_eq!(
            of("/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope").as_deref(),
            Some("systemctl --user set-property --runtime run-1.scope CPUWeight=10")
        );
        assert_eq!(of("/docker/3fa9"), None);
        assert_eq!(of("/"), None);
        assert_eq!(
            of("/a;rm -rf.service"),
            None,
            "a name that a shell would act on"
        );
    }

    #[test]
    fn kernel_versions() {
        assert!(since("6.12.57+deb13-amd64", (6, 12)));
        assert!(since("7.0.0", (6, 12)));
        assert!(!since("6.1.0-40-amd64", (6, 12)));
        assert!(!since("", (6, 12)));
    }
}
