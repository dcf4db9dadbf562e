//! Where a run writes its recording.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use phux_recording::{
    Drain, Loss, Name, Names, Options, Record, Recorder, Run, Slice, Stats, Syscall, Task,
};

use super::analysis::Analysis;
use super::details::Details;
use super::sums::Told;
use super::trigger::{Condition, Trigger};
use super::{Put, calls, chains, events};
use crate::attach::inside::Looked;
use crate::attach::names::Named;
use crate::attach::window::Start;
use crate::echo::Names as _;
use crate::privileges::{self, Files};
use crate::report::model;
use crate::source::Event;
use crate::source::event::{Off, Wake};
use crate::stats::{KernelState, ThreadStat};
use crate::syscalls::{Call, Consumer};

/// Threads and cgroups whose names are recorded once; with more they are told again.
const KNOWN: usize = 65_536;

/// The recorder, shared by who hands over events and who hands over calls. Once it has ended, of a full disk as
/// a rule, rows go nowhere.
#[derive(Debug)]
struct Out {
    recorder: Recorder,
    ended: bool,
}

impl Put for Out {
    fn put<T: Record>(&mut self, row: T) {
        if !self.ended {
            self.ended = self.recorder.push(row).is_err();
        }
    }
}

/// Rows that the analysis goes by besides.
struct Heeded<'a> {
    out: &'a mut Out,
    analysis: &'a mut Analysis,
}

impl Put for Heeded<'_> {
    fn put<T: Record>(&mut self, row: T) {
        self.analysis.sum(&row.clone().into_row());
        self.out.put(row);
    }
}

/// Writes calls.
struct Calls {
    out: Rc<RefCell<Out>>,
    rows: Vec<Syscall>,
}

impl Consumer for Calls {
    fn calls(&mut self, calls: &[Call]) {
        self.rows.extend(calls.iter().map(calls::row));
        let mut out = self.out.borrow_mut();
        if out.ended {
            self.rows.clear();
        } else {
            out.ended = out.recorder.push_all(&mut self.rows).is_err();
        }
    }
}

/// Since when a thread has its CPU, and what came before.
#[derive(Debug)]
struct OnCpu {
    since: u64,
    waited: Off,
}

/// One recording that is written.
pub struct Sink {
    out: Rc<RefCell<Out>>,
    names: Names,
    named: Named,
    /// The analysis, fed with what is recorded.
    pub analysis: Analysis,
    threads: HashSet<(u32, u32)>,
    cgroups: HashSet<u64>,
    targets: BTreeSet<u32>,
    on_cpu: HashMap<u32, OnCpu>,
    told: Told,
    triggers: Vec<Trigger>,
    start: Start,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").finish_non_exhaustive()
    }
}

impl Sink {
    /// Begins a recording in `dir`, whose files are those of `owner`.
    ///
    /// # Errors
    /// The directory cannot be made or written.
    pub fn create(
        dir: &Path,
        owner: Files,
        run: Run,
        options: Options,
        on: &[Condition],
    ) -> Result<Sink> {
        let start = Start::of(&run);
        // The writer is a thread of its own, which inherits what this one has: nothing.
        let recorder = privileges::unprivileged(owner, || Recorder::create(dir, run, options))
            .context("giving up privileges")?
            .with_context(|| format!("cannot record to {}", dir.display()))?;
        Ok(Sink::of(recorder, start, on))
    }

    /// The same to a recorder that there is, whose run began then.
    pub(crate) fn of(recorder: Recorder, start: Start, on: &[Condition]) -> Sink {
        let ended = false;
        Sink {
            out: Rc::new(RefCell::new(Out { recorder, ended })),
            names: Names::new(KNOWN),
            named: Named::new(start.unix_offset_ns()),
            analysis: Analysis::new(start.unix_offset_ns(), None),
            threads: HashSet::new(),
            cgroups: HashSet::new(),
            targets: BTreeSet::new(),
            on_cpu: HashMap::new(),
            told: Told::from(start.monotonic_ns),
            triggers: on.iter().map(|c| Trigger::new(*c)).collect(),
            start,
        }
    }

    /// Who is to be given the calls.
    pub fn calls(&self) -> Box<dyn Consumer> {
        Box::new(Calls {
            out: self.out.clone(),
            rows: Vec::new(),
        })
    }

    /// Whether the recorder has given up.
    pub fn ended(&self) -> bool {
        self.out.borrow().ended
    }

    /// What was recorded so far.
    pub fn stats(&self) -> Stats {
        self.out.borrow().recorder.stats()
    }

    /// Records an event. `hop` names the one of a hop.
    pub fn event(&mut self, event: Event, hop: &str) {
        match &event {
            Event::Exec(t) => {
                self.named.ended(t.at.pid, t.at.tid, &t.comm);
                self.threads.insert((t.at.pid, t.at.tid));
                self.analysis.named(t.at.pid, t.at.tid, &t.comm);
            }
            Event::Exit { thread, .. } => {
                self.named.ended(thread.pid, thread.tid, &thread.comm);
                self.threads.remove(&(thread.pid, thread.tid));
                self.on_cpu.remove(&thread.tid);
            }
            Event::Off(o) => {
                self.meet(o.at.pid, o.at.tid);
                self.meet_cgroup(o.place.cgroup);
                o.blame
                    .culprits
                    .iter()
                    .for_each(|c| self.meet_cgroup(c.cgroup));
                self.slice(o);
            }
            Event::Flush(f) => {
                self.meet(f.at.pid, f.at.tid);
                self.meet_cgroup(f.place.cgroup);
                f.blame
                    .culprits
                    .iter()
                    .for_each(|c| self.meet_cgroup(c.cgroup));
            }
            Event::Io(io) => self.meet(io.at.pid, io.at.tid),
            Event::Sock(s) => self.meet(s.at.pid, s.at.tid),
            Event::Hop(h) => self.analysis.hop_named(h.hop, hop),
            Event::Fork(_) => {}
        }
        self.told.event(&event);
        events::write(&event, hop, &mut self.names, &mut *self.out.borrow_mut());
        self.analysis.event(event);
    }

    /// These are the target's processes now.
    pub fn targets(&mut self, now: impl IntoIterator<Item = u32>, at_ns: u64) {
        let now: BTreeSet<u32> = now.into_iter().collect();
        let before = std::mem::take(&mut self.targets);
        for pid in now.difference(&before) {
            self.task("target", (*pid, *pid), "", at_ns);
            self.analysis.target(*pid, true);
        }
        for pid in before.difference(&now) {
            self.task("untarget", (*pid, *pid), "", at_ns);
            self.analysis.target(*pid, false);
        }
        self.targets = now;
    }

    /// All events up to then were given; so many were lost since the beginning. Whether a condition has
    /// come to hold, and what the ring held is being written out.
    pub fn drained(&mut self, at_ns: u64, lost: u64, last: bool) -> bool {
        self.put(Drain {
            ts: at_ns,
            lost,
            last,
            ..Drain::default()
        });
        let ended = self.analysis.drained(at_ns, lost, last);
        {
            let mut out = self.out.borrow_mut();
            for chain in &ended {
                chains::write(chain, &self.analysis.known, &mut self.names, &mut *out);
            }
        }
        let mut fired = false;
        for trigger in &mut self.triggers {
            fired |= trigger.fires(&ended, at_ns);
        }
        if fired {
            self.trigger();
        }
        fired
    }

    /// Writes out what the ring holds. What was told once, long ago, is told again before: the ring has forgotten it.
    pub fn trigger(&mut self) {
        let at = self.start.monotonic_ns;
        let (threads, cgroups) = (self.threads.clone(), self.cgroups.clone());
        for (pid, tid) in threads {
            let name = self.analysis.known.thread(pid, tid);
            self.task("seen", (pid, tid), &name, at);
        }
        for id in cgroups {
            if let Some(cgroup) = self.analysis.known.cgroup(id) {
                let row = chains::cgroup(&cgroup, at, &mut self.names);
                self.put(row);
            }
        }
        for pid in self.targets.clone() {
            self.task("target", (pid, pid), "", at);
        }
        self.out.borrow().recorder.trigger();
    }

    /// What was lost in all.
    pub fn losses(&mut self, losses: &[model::Loss], at_ns: u64) {
        for loss in losses {
            let row = Loss {
                ts: at_ns,
                class: self.names.get(&loss.class),
                count: loss.count,
                meaning: self.names.get(&loss.meaning),
                ..Loss::default()
            };
            self.put(row);
        }
    }

    /// What the kernel has summed up until now, threads that have ended included: what has grown is recorded.
    pub fn sums(
        &mut self,
        now: KernelState,
        last: bool,
        role: impl Fn(&ThreadStat) -> Option<String>,
        hop: impl Fn(u32) -> Option<String>,
    ) {
        let threads = now.threads.values().chain(now.summed.values());
        let blames = threads.map(|t| &t.blame);
        let blames = blames.chain(now.flush.values().map(|f| &f.blame));
        for culprit in blames.flat_map(|b| &b.culprits) {
            self.meet_cgroup(culprit.cgroup);
        }
        let mut out = Heeded {
            out: &mut self.out.borrow_mut(),
            analysis: &mut self.analysis,
        };
        self.told
            .tell(now, last, role, hop, &mut self.names, &mut out);
    }

    /// What processes keep of themselves, from then until then.
    pub(crate) fn metrics(&mut self, looked: &[Looked], window: (u64, u64)) {
        let mut out = Heeded {
            out: &mut self.out.borrow_mut(),
            analysis: &mut self.analysis,
        };
        Told::tell_metrics(looked, window, &mut self.names, &mut out);
    }

    /// What the row of the run is to say besides.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn describe(&self, details: &Details) -> Result<()> {
        let json = serde_json::to_string(details).context("details")?;
        self.out.borrow().recorder.describe(json.into());
        Ok(())
    }

    /// Ends the recording: what it has written.
    ///
    /// # Errors
    /// What ended it early: a full disk, above all.
    pub fn finish(mut self) -> Result<(Run, Analysis)> {
        if self.triggers.is_empty() {
            // Without a condition a flight recorder is read out at the end; others ignore it.
            self.trigger();
            self.out.borrow().recorder.wait_for_dump();
        }
        let Ok(out) = Rc::try_unwrap(self.out) else {
            anyhow::bail!("the recording is still written to");
        };
        let run = out.into_inner().recorder.finish().context("recording")?;
        Ok((run, self.analysis))
    }

    fn put<T: Record>(&mut self, row: T) {
        self.out.borrow_mut().put(row);
    }

    fn task(&mut self, kind: &'static str, (pid, tid): (u32, u32), name: &str, ts: u64) {
        let name = self.names.get(name);
        self.put(Task {
            ts,
            kind: Name::fixed(kind),
            pid,
            tid,
            name,
            ..Task::default()
        });
    }

    fn meet(&mut self, pid: u32, tid: u32) {
        if tid == 0 || self.threads.contains(&(pid, tid)) {
            return;
        }
        if self.threads.len() >= KNOWN {
            self.threads.clear();
        }
        self.threads.insert((pid, tid));
        let name = self.named.thread(pid, tid);
        self.analysis.named(pid, tid, &name);
        self.task("seen", (pid, tid), &name, self.start.monotonic_ns);
    }

    fn meet_cgroup(&mut self, id: u64) {
        if id == 0 || self.cgroups.contains(&id) {
            return;
        }
        if self.cgroups.len() >= KNOWN {
            self.cgroups.clear();
        }
        self.cgroups.insert(id);
        if let Some(cgroup) = self.named.cgroup(id) {
            let row = chains::cgroup(&cgroup, self.start.monotonic_ns, &mut self.names);
            self.put(row);
            self.analysis.cgroup(cgroup);
        }
    }

    /// The slice that ended when this time off the CPU began.
    fn slice(&mut self, off: &Off) {
        if self.on_cpu.len() >= KNOWN {
            self.on_cpu.clear();
        }
        let now = OnCpu {
            since: off.at.ts,
            waited: off.clone(),
        };
        let Some(before) = self.on_cpu.insert(off.at.tid, now) else {
            return;
        };
        if off.left < before.since {
            return;
        }
        let waited = &before.waited;
        let (waker_pid, waker_tid) = match waited.wake {
            Wake::Task { pid, tid } => (pid, tid),
            _ => (0, 0),
        };
        let worst = waited.blame.culprits.first();
        let slept_in = off
            .slept_in
            .syscall
            .and_then(crate::echo::syscalls::name)
            .unwrap_or(if off.slept_in.fault { "page fault" } else { "" });
        let row = Slice {
            ts: before.since,
            dur: off.left - before.since,
            runnable: waited.runnable,
            cpu: u16::try_from(waited.at.cpu).unwrap_or(u16::MAX),
            tid: off.at.tid,
            pid: off.at.pid,
            comm: self
                .names
                .get(&self.analysis.known.thread(off.at.pid, off.at.tid)),
            end_state: Name::fixed(match (off.wake, off.slept_in.disk) {
                (Wake::Preempted, _) => "R+",
                (_, true) => "D",
                (_, false) => "S",
            }),
            blocked_in: Name::fixed(slept_in),
            waker_tid,
            waker_pid,
            waker: self
                .names
                .get(&self.analysis.known.thread(waker_pid, waker_tid)),
            waker_interrupt: waited.wake == Wake::Interrupt,
            instead_pid: worst.map_or(0, |c| c.pid),
            instead: self.names.get(worst.map_or("", |c| &c.name)),
            instead_ns: worst.map_or(0, |c| c.ns),
            idle_ns: waited.blame.idle_ns,
            policy: off.place.class.policy,
            nice: off.place.class.nice,
            rt_priority: off.place.class.rt_priority,
            ..Slice::default()
        };
        self.put(row);
    }
}
