//! From what the user typed to the processes that are traced.
//!
//! - A number is a pid: that process alone.
//! - A multiplexer's name (`tmux`, `phux` …): every process of it of one user, server and clients,
//!   because a keystroke goes through both.
//! - Any other name (exact `comm` or executable name): every such process of one user that holds a
//!   PTY; if none of them holds one, every such process.
//! - Nothing: the invoking user's phux, else the invoking user's only multiplexer, else the only
//!   one that runs.
//!
//! "One user" is the invoking one (behind sudo: who called it) if any match is theirs, else the
//! only user who has matches.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use super::multiplexer::{Multiplexer, Part};
use super::proc::{ProcDir, Process, in_initial_pid_namespace, pid_max};
use super::pty::Pty;
use super::survey::Survey;
use super::unresolved::{Candidate, Candidates, ResolveError};
use crate::escape::visible;

/// What the user asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// This process. Wider than a pid can be, so that a typo like 99999999999 is told as such.
    Pid(u64),
    /// Processes of this name.
    Name(String),
    /// Whatever is worth it.
    Any,
}

impl Ask {
    /// A number is a pid, the rest a name.
    pub fn parse(typed: Option<&OsStr>) -> Self {
        // Names are compared as /proc gives them to us, lossily decoded.
        match typed.map(OsStr::to_string_lossy) {
            None => Self::Any,
            Some(t) if !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()) => {
                Self::Pid(t.parse().unwrap_or(u64::MAX))
            }
            Some(t) => Self::Name(t.into_owned()),
        }
    }
}

/// Who runs phux-trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invoker {
    /// Our own pid: no target.
    pub pid: u32,
    /// The user who typed the command: behind sudo or pkexec the one who called it.
    pub uid: u32,
}

impl Invoker {
    /// From the environment. `SUDO_UID` counts for root only: nobody else can have come through
    /// sudo.
    pub fn current() -> Self {
        let uid = rustix::process::getuid().as_raw();
        let behind = || {
            ["SUDO_UID", "PKEXEC_UID"]
                .iter()
                .find_map(|k| std::env::var(k).ok()?.parse().ok())
        };
        let uid = if uid == 0 { behind().unwrap_or(0) } else { uid };
        Self {
            pid: std::process::id(),
            uid,
        }
    }
}

/// Who is traced.
#[derive(Debug, Clone)]
pub struct Target {
    /// How the target was named or found, for the report.
    pub asked: String,
    /// The processes, servers first, then by pid; never empty.
    pub processes: Vec<Process>,
    /// Processes at the other ends of the target's PTYs, by pid.
    pub peers: Vec<Process>,
    /// PTYs of which the target holds an end.
    pub ptys: Vec<Pty>,
    /// What the user should know besides.
    pub notes: Vec<String>,
}

/// Finds the target.
///
/// # Errors
/// See [`ResolveError`].
pub fn resolve(ask: &Ask, survey: &Survey, invoker: Invoker) -> Result<Target, ResolveError> {
    let mut notes = Vec::new();
    let (asked, pids) = match ask {
        Ask::Pid(typed) => {
            let pid = by_pid(*typed, survey, invoker, &mut notes)?;
            (format!("pid {pid}"), vec![pid])
        }
        Ask::Name(name) => (name.clone(), by_name(name, survey, invoker, &mut notes)?),
        Ask::Any => {
            let (multiplexer, pids) = by_default(survey, invoker)?;
            (format!("{} (found, none named)", multiplexer.name()), pids)
        }
    };
    Ok(target(asked, &pids, survey, notes))
}

/// A target of exactly these processes, with its PTYs and peers.
pub fn target(asked: String, pids: &[u32], survey: &Survey, mut notes: Vec<String>) -> Target {
    let pids: BTreeSet<u32> = pids.iter().copied().collect();
    let ptys: Vec<Pty> = survey
        .ptys
        .iter()
        .filter(|p| {
            p.master
                .iter()
                .chain(&p.slave)
                .any(|h| pids.contains(&h.pid))
        })
        .cloned()
        .collect();
    let ends: BTreeSet<u32> = ptys
        .iter()
        .flat_map(|p| p.master.iter().chain(&p.slave))
        .map(|h| h.pid)
        .collect();
    let known = |pids: &mut dyn Iterator<Item = u32>| -> Vec<Process> {
        pids.filter_map(|pid| survey.processes.get(&pid).cloned())
            .collect()
    };
    let peers = known(&mut ends.difference(&pids).copied());
    let mut processes = known(&mut pids.iter().copied());
    processes.sort_by_key(|p| (!survey.holds_master(p.pid), p.pid));
    for process in processes.iter().filter(|p| p.in_nested_pid_namespace()) {
        let inner: Vec<String> = process.nspid.iter().skip(1).map(u32::to_string).collect();
        let (pid, inner) = (process.pid, inner.join(", then "));
        notes.push(format!(
            "pid {pid} is in a pid namespace of its own, as pid {inner} there"
        ));
    }
    if !in_initial_pid_namespace() {
        notes.push(
            "phux-trace runs inside a pid namespace (a container): pids are those of this namespace, \
             and processes outside it that ran instead have none"
                .into(),
        );
    }
    Target {
        asked,
        processes,
        peers,
        ptys,
        notes,
    }
}

fn by_pid(
    typed: u64,
    survey: &Survey,
    invoker: Invoker,
    notes: &mut Vec<String>,
) -> Result<u32, ResolveError> {
    // A pid above the limit can live on when the limit was lowered after its birth.
    let max = pid_max().saturating_sub(1);
    let pid = match u32::try_from(typed) {
        Ok(pid) if (1..=max).contains(&pid) || survey.processes.contains_key(&pid) => pid,
        _ => return Err(ResolveError::NotAPid { typed, max }),
    };
    if pid == invoker.pid {
        return Err(ResolveError::Myself { pid });
    }
    let Some(process) = survey.processes.get(&pid) else {
        // `/proc/TID` opens for a thread though `/proc` does not list it.
        let leader = ProcDir::open(pid).and_then(|p| p.thread_group()).ok();
        if let Some(leader) = leader.filter(|l| *l != pid && survey.processes.contains_key(l)) {
            notes.push(format!(
                "{pid} is a thread of process {leader}: the whole process is traced"
            ));
            return by_pid(u64::from(leader), survey, invoker, notes);
        }
        return Err(missing_pid(pid, survey));
    };
    let name = process.comm.clone();
    if process.kernel_thread {
        return Err(ResolveError::KernelThread { pid, name });
    }
    if process.zombie {
        return Err(ResolveError::Ended { pid, name });
    }
    if let Some(server) = server_of_client(process, survey) {
        notes.push(format!(
            "pid {pid} is a client: the panes' PTYs belong to its server. To trace both: phux-trace attach {server}"
        ));
    }
    Ok(pid)
}

fn missing_pid(pid: u32, survey: &Survey) -> ResolveError {
    let inside = |p: &&Process| p.in_nested_pid_namespace() && p.nspid.last() == Some(&pid);
    let there: Vec<u32> = survey
        .processes
        .values()
        .filter(inside)
        .map(|p| p.pid)
        .collect();
    if !there.is_empty() {
        return ResolveError::OtherNamespace {
            pid,
            candidates: candidates(&there, survey),
        };
    }
    let raw = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let alive = raw.is_some_and(|p| {
        let hidden = std::fs::symlink_metadata(format!("/proc/{pid}")).is_err();
        hidden && rustix::process::pidfd_open(p, rustix::process::PidfdFlags::empty()).is_ok()
    });
    if alive {
        ResolveError::Hidden { pid }
    } else {
        ResolveError::NoSuchPid { pid }
    }
}

/// Name of the multiplexer whose client this is, when a server of the same user runs.
fn server_of_client(process: &Process, survey: &Survey) -> Option<&'static str> {
    let (multiplexer, Part::Client) = owner(process, survey)? else {
        return None;
    };
    let server = survey.processes.values().any(|p| {
        p.uid == process.uid
            && Multiplexer::of(p) == Some(multiplexer)
            && survey.holds_master(p.pid)
    });
    server.then(|| multiplexer.name())
}

/// The multiplexer that a process belongs to, and the part of it that it is: what
/// [`thread_role`](super::role::thread_role) wants to know.
pub fn owner(process: &Process, survey: &Survey) -> Option<(Multiplexer, Part)> {
    let multiplexer = Multiplexer::of(process)?;
    let argv = || {
        ProcDir::open(process.pid)
            .map(|p| p.argv())
            .unwrap_or_default()
    };
    Some((
        multiplexer,
        Multiplexer::part(process, survey.holds_master(process.pid), argv),
    ))
}

fn by_name(
    name: &str,
    survey: &Survey,
    invoker: Invoker,
    notes: &mut Vec<String>,
) -> Result<Vec<u32>, ResolveError> {
    let multiplexer = Multiplexer::named(name);
    let live = survey
        .processes
        .values()
        .filter(|p| p.pid != invoker.pid && !p.kernel_thread && !p.zombie);
    let matches: Vec<&Process> = live
        .filter(|p| match multiplexer {
            Some(m) => Multiplexer::of(p) == Some(m),
            None => p.comm == name || p.exe_name().as_deref() == Some(name),
        })
        .collect();
    if matches.is_empty() {
        let candidates = masters(survey, invoker);
        return Err(ResolveError::UnknownName {
            name: visible(name).into_owned(),
            hidden: survey.is_hidden(),
            candidates,
        });
    }
    let holders = survey.holders();
    let with_pty: Vec<&Process> = matches
        .iter()
        .copied()
        .filter(|p| holders.contains(&p.pid))
        .collect();
    // A server of a multiplexer without panes still belongs to it; of other programs only those
    // with a PTY are meant.
    let meant = if multiplexer.is_some() || with_pty.is_empty() {
        matches
    } else {
        with_pty
    };
    let mut by_user: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in &meant {
        by_user.entry(process.uid).or_default().push(process.pid);
    }
    let all: Vec<u32> = meant.iter().map(|p| p.pid).collect();
    let pids = match by_user.remove(&invoker.uid) {
        Some(pids) => pids,
        None if by_user.len() == 1 => all,
        None => {
            let candidates = candidates(&all, survey);
            return Err(ResolveError::SeveralUsers {
                name: visible(name).into_owned(),
                candidates,
            });
        }
    };
    let servers: Vec<String> = pids
        .iter()
        .filter(|p| survey.holds_master(**p))
        .map(u32::to_string)
        .collect();
    if servers.len() > 1 {
        notes.push(format!(
            "{} processes named {} hold PTY masters ({}): all are traced; give a pid to trace one",
            servers.len(),
            visible(name),
            servers.join(", ")
        ));
    }
    Ok(pids)
}

/// The multiplexers of one user: each server counts for its own kind.
type Running = BTreeMap<(Multiplexer, u32), Vec<u32>>;

fn by_default(survey: &Survey, invoker: Invoker) -> Result<(Multiplexer, Vec<u32>), ResolveError> {
    let mut running = Running::new();
    let mut servers = Vec::new();
    for process in survey.processes.values() {
        if process.zombie || process.pid == invoker.pid {
            continue;
        }
        let Some((multiplexer, part)) = owner(process, survey) else {
            continue;
        };
        running
            .entry((multiplexer, process.uid))
            .or_default()
            .push(process.pid);
        if part == Part::Server {
            servers.push(process.pid);
        }
    }
    running.retain(|_, pids| pids.iter().any(|p| servers.contains(p)));
    if let Some(pids) = running.remove(&(Multiplexer::Phux, invoker.uid)) {
        return Ok((Multiplexer::Phux, pids));
    }
    let own: Vec<_> = running
        .keys()
        .copied()
        .filter(|k| k.1 == invoker.uid)
        .collect();
    let only = match (own.as_slice(), running.len()) {
        ([one], _) => Some(*one),
        (_, 1) => running.keys().next().copied(),
        _ => None,
    };
    if let Some((key, pids)) = only.and_then(|key| running.remove_entry(&key)) {
        return Ok((key.0, pids));
    }
    if running.is_empty() {
        return Err(ResolveError::NoMultiplexer {
            hidden: survey.is_hidden(),
            candidates: masters(survey, invoker),
        });
    }
    Err(ResolveError::SeveralMultiplexers {
        candidates: candidates(&servers, survey),
    })
}

/// Everyone who holds a master: what the user may have meant.
fn masters(survey: &Survey, invoker: Invoker) -> Candidates {
    let pids: Vec<u32> = survey
        .holders()
        .into_iter()
        .filter(|p| *p != invoker.pid && survey.holds_master(*p))
        .collect();
    candidates(&pids, survey)
}

fn candidates(pids: &[u32], survey: &Survey) -> Candidates {
    let mut all: Vec<Candidate> = pids
        .iter()
        .filter_map(|pid| survey.processes.get(pid))
        .map(|p| Candidate {
            pid: p.pid,
            name: p.comm.clone(),
            user: p.user.clone(),
            ptys: survey.ptys_of(p.pid).count(),
        })
        .collect();
    all.sort_by_key(|c| (std::cmp::Reverse(c.ptys), c.pid));
    Candidates(all)
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
