//! What would help, and what it would save; only where the figures say so.

use std::cmp::Reverse;

use super::cgroup::{lift, set, unit, weigh};
use super::piece::What;
use super::sentence::{asleep, pane, rivals, who};
use super::weight::{Because, apart, branch, outranked};
use super::{Found, Scene};
use crate::escape::visible;
use crate::report::model::{ActorRow, Advice, Cause, Rival, SleepKind};
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
            Cause::HogOnServer | Cause::HogOnChild | Cause::HogOnClient => {
                all.extend(hogs(f));
                all.extend(slice(scene, f));
            }
            Cause::FlushWorker => {
                all.extend(hogs(f));
                all.extend(worker(f));
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

/// A program's name for a command line; a word to be replaced where a shell would see more in it.
fn word(name: &str) -> &str {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        name
    } else {
        "COMMAND"
    }
}

fn listed(pids: &[u32], between: &str) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    pids.join(between)
}

/// Lets those who ran instead give way, in the way that the kernel shares between them.
fn hogs(f: &Found<'_>) -> Vec<Advice> {
    let Some(victim) = f.pieces.first().map(|p| &p.link.actor) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    let mut nice: Vec<(String, u64, Vec<u32>)> = Vec::new();
    for (rival, saves, pids) in rivals(&f.pieces).into_iter().take(HOGS) {
        let name = visible(&rival.name).into_owned();
        // Kernel threads run for somebody, and most may not be told how.
        if pids.is_empty() || saves < WORTH_NS || rival.name.contains('/') {
            continue;
        }
        let each = |command: &dyn Fn(u32) -> String| {
            let commands: Vec<String> = pids.iter().map(|p| command(*p)).collect();
            Some(commands.join("; "))
        };
        let class = rival.sched.policy.as_str();
        if matches!(class, "SCHED_FIFO" | "SCHED_RR" | "SCHED_DEADLINE") {
            let text = format!("take {name} out of its real-time class");
            all.push(one(
                text,
                each(&|p| format!("chrt --other -p 0 {p}")),
                saves,
            ));
        } else if apart(victim.place.cgroup.as_ref(), rival.cgroup.as_ref()) {
            let between = victim.place.cgroup.as_ref().zip(rival.cgroup.as_ref());
            if let Some(group) = between.and_then(|(own, other)| branch(other, own)) {
                let text = format!(
                    "make {}, the cgroup of {name}, light: between cgroups nice does not count",
                    visible(&group.path)
                );
                all.push(one(text, weigh(&group, 10), saves));
            }
        } else if victim.place.autogroup_nice.is_some() && !victim.kworker {
            let text = format!(
                "let the session of {name} give way: between sessions own nice does not count"
            );
            let command = each(&|p| format!("echo 19 > /proc/{p}/autogroup"));
            all.push(one(text, command, saves));
        } else if rival.sched.nice < 19 && class != "SCHED_IDLE" {
            nice.push((name, saves, pids));
        }
    }
    all.extend(renice(&nice));
    all
}

/// All that share by nice, by one command.
fn renice(hogs: &[(String, u64, Vec<u32>)]) -> Vec<Advice> {
    let Some((largest, saves, _)) = hogs.first() else {
        return Vec::new();
    };
    let names: Vec<&str> = hogs.iter().map(|(name, ..)| name.as_str()).collect();
    let pids: Vec<u32> = hogs.iter().flat_map(|(.., pids)| pids).copied().collect();
    vec![
        one(
            format!("let {} give way", names.join(" and ")),
            Some(format!("renice -n 19 -p {}", listed(&pids, " "))),
            hogs.iter().map(|(_, ns, _)| ns).sum(),
        ),
        one(
            format!("start {largest} in a light cgroup next time"),
            Some(format!("systemd-run --scope -p {LIGHT} {}", word(largest))),
            *saves,
        ),
    ]
}

/// The kernel's worker first. The queue that flushes PTYs has no nice of its own in `/sys`, up to
/// Linux 7.3 (from there on those of serial lines have one): what is left is the worker itself, and
/// it ends when it has had nothing to do for minutes.
fn worker(f: &Found<'_>) -> Option<Advice> {
    let waits = |p: &&super::Piece<'_>| p.link.actor.kworker && p.link.actor.tid != 0;
    let worker = &f.pieces.iter().find(waits)?.link.actor;
    // A worker of the root's cgroup, in no session: its nice counts beside all ordinary ones.
    if worker.place.sched.policy != "SCHED_OTHER" || worker.place.sched.nice < 0 {
        return None;
    }
    let of_ordinary = |p: &&super::Piece<'_>| {
        let rival = match p.what {
            What::Waited(Some(rival)) => rival,
            _ => return false,
        };
        p.link.actor.tid == worker.tid && rival.sched.policy == "SCHED_OTHER"
    };
    let saves = f
        .pieces
        .iter()
        .filter(of_ordinary)
        .map(|p| p.excess_ns)
        .sum();
    Some(one(
        format!("let {} go first, as long as it lives", who(worker)),
        Some(format!("renice -n -20 -p {}", worker.tid)),
        saves,
    ))
}

/// A shorter slice lets the victim go first, of Linux 6.12 on, among those whose claim is the same.
fn slice(scene: &Scene<'_>, f: &Found<'_>) -> Option<Advice> {
    let actor = &f.pieces.first()?.link.actor;
    let longer = actor.place.slice_us? > SLICE_NS / 1000 * 2;
    let fair = actor.place.sched.policy == "SCHED_OTHER" && !actor.kworker && actor.tid != 0;
    if !longer || !fair || !since(&scene.report.window.kernel, (6, 12)) {
        return None;
    }
    // Beside real-time tasks, and between cgroups and sessions, it changes nothing.
    let mut saves = 0;
    for (rival, ns, _) in rivals(&f.pieces).into_iter().take(HOGS) {
        let apart = apart(actor.place.cgroup.as_ref(), rival.cgroup.as_ref())
            || actor.place.autogroup_nice.is_some();
        if rival.sched.policy == "SCHED_OTHER" && !apart && ns >= WORTH_NS {
            saves += ns;
        }
    }
    let nice = actor.place.sched.nice;
    Some(one(
        format!(
            "let {} go first when it wakes, by a short slice (chrt of util-linux 2.41)",
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
            weigh(
                &branch(actor.place.cgroup.as_ref()?, rival.cgroup.as_ref()?)?,
                100,
            )?,
        ),
    };
    Some(one(text, Some(command), saves))
}

fn quota(f: &Found<'_>) -> Option<Advice> {
    let actor = &f.pieces.first()?.link.actor;
    let group = actor.place.cgroup.as_ref()?;
    let path = group.quota_path.as_deref()?;
    let text = format!("raise or lift the quota of {}", visible(path));
    Some(one(text, lift(path), f.excess_ns))
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
        .map(|e| format!("stdbuf -o4096 {}", word(&e.name)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_no_commands() {
        assert_eq!(word("cc1plus"), "cc1plus");
        for name in ["x; rm -rf ~", "$(id)", "-p 1", "", "a b", "\u{202e}"] {
            assert_eq!(word(name), "COMMAND");
        }
    }

    #[test]
    fn kernel_versions() {
        assert!(since("6.12.57+deb13-amd64", (6, 12)));
        assert!(since("7.0.0", (6, 12)));
        assert!(!since("6.1.0-40-amd64", (6, 12)));
        assert!(!since("", (6, 12)));
    }
}
