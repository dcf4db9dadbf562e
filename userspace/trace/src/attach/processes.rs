//! Who is who: the traced processes, as they come, change and go.

use std::collections::BTreeMap;

use probe_ebpf::events;
use rustix::process::{Pid, Signal, kill_process};

use crate::report::model::{self, Relation};
use crate::source::event::Task;
use crate::stats::Holder;
use crate::target::multiplexer::{Multiplexer, Part};
use crate::target::proc;
use crate::target::resolve::owner;
use crate::target::role::thread_role;
use crate::target::{Process, Survey};

/// A traced process.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    user: String,
    relation: Relation,
    start_ticks: u64,
    owner: Option<(Multiplexer, Part)>,
    ended: Option<String>,
    came_later: bool,
    /// How often it became another program.
    execs: u32,
}

/// All of them, by pid.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    by_pid: BTreeMap<u32, Entry>,
    passed: u64,
    /// The process that is to become the command of `attach -- CMD`.
    pub(crate) shim: Option<u32>,
}

impl Processes {
    /// A process that was there when tracing began.
    pub(crate) fn add(&mut self, process: &Process, relation: Relation, survey: &Survey) {
        self.insert(process, relation, owner(process, survey));
    }

    fn insert(
        &mut self,
        process: &Process,
        relation: Relation,
        owner: Option<(Multiplexer, Part)>,
    ) {
        let entry = Entry {
            name: process.comm.clone(),
            user: process.user.clone(),
            relation,
            start_ticks: process.start_ticks,
            owner,
            ended: None,
            came_later: false,
            execs: 0,
        };
        self.by_pid.insert(process.pid, entry);
    }

    /// A process that the target started, seen while tracing.
    pub(crate) fn came(&mut self, process: &Process, relation: Relation, survey: &Survey) {
        self.add(process, relation, survey);
        if let Some(entry) = self.by_pid.get_mut(&process.pid) {
            entry.came_later = true;
        }
    }

    /// A process that is not there any more; how it ended is not known.
    pub(crate) fn vanished(&mut self, pid: u32) {
        let Some(entry) = self.by_pid.get_mut(&pid) else {
            return;
        };
        if entry.came_later {
            self.by_pid.remove(&pid);
            self.passed += 1;
        } else {
            entry.ended.get_or_insert_with(|| "ended".into());
        }
    }

    /// The name that a process has now, and so the program that it is.
    pub(crate) fn named(&mut self, pid: u32, name: &str) {
        let Some(entry) = self.by_pid.get_mut(&pid).filter(|e| e.name != name) else {
            return;
        };
        entry.name = name.to_owned();
        if let Ok(process) = proc::process(pid) {
            entry.owner = owner(&process, &Survey::default()).or(entry.owner);
        }
    }

    /// Why it is looked at; `None` for a stranger.
    pub(crate) fn relation(&self, pid: u32) -> Option<Relation> {
        self.by_pid.get(&pid).map(|e| e.relation)
    }

    /// All that have not ended.
    pub(crate) fn living(&self) -> Vec<u32> {
        let living = self.by_pid.iter().filter(|(_, e)| e.ended.is_none());
        living.map(|(pid, _)| *pid).collect()
    }

    /// Whoever holds an end of one of the PTYs is traced, as a peer.
    pub(crate) fn add_holder(&mut self, holder: &Holder) {
        if self.by_pid.contains_key(&holder.pid) {
            return;
        }
        match proc::process(holder.pid) {
            Ok(process) => self.insert(&process, relation(holder.relation), None),
            Err(_) => self.add_gone(holder.pid, &holder.name, relation(holder.relation)),
        }
    }

    fn add_gone(&mut self, pid: u32, name: &str, relation: Relation) {
        let entry = Entry {
            name: name.to_owned(),
            user: String::new(),
            relation,
            start_ticks: 0,
            owner: None,
            ended: None,
            came_later: false,
            execs: 0,
        };
        self.by_pid.insert(pid, entry);
    }

    /// A traced process forked.
    pub(crate) fn forked(&mut self, task: &Task) {
        let parent = self.by_pid.get(&task.parent).cloned();
        let (user, owner) = parent.map_or((String::new(), None), |p| (p.user, p.owner));
        let entry = Entry {
            name: task.comm.clone(),
            user,
            relation: relation(task.relation),
            start_ticks: proc::process(task.at.pid).map_or(0, |p| p.start_ticks),
            owner,
            ended: None,
            came_later: true,
            execs: 0,
        };
        self.by_pid.insert(task.at.pid, entry);
    }

    /// A traced process became another program. Returns what is to be said of it, if it was the target.
    pub(crate) fn execed(&mut self, task: &Task) -> Option<String> {
        let now = proc::process(task.at.pid).ok();
        let relation = relation(task.relation);
        let before = self.by_pid.get(&task.at.pid).cloned();
        let entry = Entry {
            name: now
                .as_ref()
                .map_or_else(|| task.comm.clone(), |p| p.comm.clone()),
            user: now
                .as_ref()
                .map(|p| p.user.clone())
                .or_else(|| before.as_ref().map(|b| b.user.clone()))
                .unwrap_or_default(),
            relation,
            start_ticks: now.as_ref().map_or(0, |p| p.start_ticks),
            // Who has just begun holds no master yet; its command line tells.
            owner: now.as_ref().and_then(|p| owner(p, &Survey::default())),
            ended: None,
            came_later: before.as_ref().is_none_or(|b| b.came_later),
            execs: before.as_ref().map_or(0, |b| b.execs) + 1,
        };
        let said = before
            .filter(|b| {
                relation == Relation::Target
                    && !b.came_later
                    && b.name != entry.name
                    && b.name != "exe"
            })
            .map(|b| {
                format!(
                    "{} (pid {}) became {} by exec; it is traced on",
                    b.name, task.at.pid, entry.name
                )
            });
        self.by_pid.insert(task.at.pid, entry);
        said
    }

    /// A process ended, with this status of wait(2).
    pub(crate) fn exited(&mut self, pid: u32, status: u32) {
        let Some(entry) = self.by_pid.get_mut(&pid) else {
            return;
        };
        entry.ended = Some(ended(status));
        // A shell starts a hundred commands a minute: those that came and went are counted.
        if entry.came_later {
            self.by_pid.remove(&pid);
            self.passed += 1;
        }
    }

    /// Whether every process of the target is known to have ended.
    pub(crate) fn target_ended(&self) -> bool {
        let mut target = self
            .by_pid
            .values()
            .filter(|e| e.relation == Relation::Target);
        target.all(|e| e.ended.is_some())
    }

    /// Whether a process has become another program while we looked.
    pub(crate) fn has_execed(&self, pid: u32) -> bool {
        self.by_pid.get(&pid).is_some_and(|e| e.execs > 0)
    }

    /// Asks what the wrapped command has started to end; the command itself is for whoever waits for it.
    pub(crate) fn terminate_target(&mut self) {
        self.target_lives();
        let living = |e: &Entry| e.relation == Relation::Target && e.ended.is_none();
        let root = self.shim;
        let others = self
            .by_pid
            .iter()
            .filter(|(pid, e)| living(e) && root != Some(**pid));
        for (pid, _) in others {
            if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }

    /// Whether any process of the target still lives. Asks /proc: an event could be lost.
    pub(crate) fn target_lives(&mut self) -> bool {
        let mut lives = false;
        for (pid, entry) in &mut self.by_pid {
            if entry.relation != Relation::Target || entry.ended.is_some() {
                continue;
            }
            match proc::process(*pid) {
                Ok(p)
                    if !p.zombie
                        && (entry.start_ticks == 0 || p.start_ticks == entry.start_ticks) =>
                {
                    lives = true;
                }
                _ => entry.ended = Some("ended".into()),
            }
        }
        lives
    }

    /// Role of a thread.
    pub(crate) fn role(&self, pid: u32, comm: &str, leader: bool) -> Option<String> {
        let owner = self.by_pid.get(&pid)?.owner;
        thread_role(owner, comm, leader).map(String::from)
    }

    /// Pids of the phux servers of the target.
    pub(crate) fn phux_servers(&self) -> Vec<u32> {
        let server = Some((Multiplexer::Phux, Part::Server));
        let of_target = |e: &Entry| e.relation == Relation::Target && e.owner == server;
        self.by_pid
            .iter()
            .filter(|(_, e)| of_target(e))
            .map(|(pid, _)| *pid)
            .collect()
    }

    /// Pids of the target.
    pub(crate) fn targets(&self) -> Vec<u32> {
        let targets = self
            .by_pid
            .iter()
            .filter(|(_, e)| e.relation == Relation::Target);
        targets.map(|(pid, _)| *pid).collect()
    }

    /// For the report: the target first, then by pid.
    pub(crate) fn rows(&self) -> Vec<model::Process> {
        let mut rows: Vec<model::Process> = self
            .by_pid
            .iter()
            .map(|(pid, e)| model::Process {
                pid: *pid,
                name: e.name.clone(),
                user: e.user.clone(),
                relation: e.relation,
                ended: e.ended.clone(),
            })
            .collect();
        rows.sort_by_key(|r| (r.relation, r.pid));
        rows
    }

    /// Peers that came and went while we looked; they are not in [`Processes::rows`].
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// What is to be said of peers that came and went while we looked.
    pub(crate) fn passed_note(&self) -> Option<String> {
        let processes = match self.passed {
            0 => return None,
            1 => "process",
            _ => "processes",
        };
        Some(format!(
            "{} {processes} that the target started came and went; \
             their threads are summed by name",
            self.passed
        ))
    }
}

/// `events::REL_*` as the report has it.
pub(crate) fn relation(raw: u32) -> Relation {
    if raw == events::REL_TARGET {
        Relation::Target
    } else {
        Relation::Peer
    }
}

fn ended(status: u32) -> String {
    match status & 0x7f {
        0 => format!("exited {}", (status >> 8) & 0xff),
        signal => format!("killed by signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_in_words() {
        assert_eq!(ended(0x0300), "exited 3");
        assert_eq!(ended(9), "killed by signal 9");
        assert_eq!(ended(0x86), "killed by signal 6", "a core was dumped");
    }
}
