//! From rows to sums.

use std::collections::{BTreeMap, HashMap};

use phux_perf::Snapshot;
use phux_recording::{self as rows, Row};
use probe_ebpf::events;

use super::{WHOLE, scope};
use crate::attach::inside::{Looked, Metric};
use crate::recording::events::{class, pty, side};
use crate::source::Event;
use crate::stats::{
    Blame, Culprit, FlushStat, IoKey, IoStat, KernelState, MAX_ENDED, Phase, PtyId, SumKey,
    ThreadKey, ThreadStat, Wakers,
};

/// Threads whose number is looked up, at most: with more the rows of earlier ones find no owner, as they would not
/// on a machine that has given their numbers away again.
const KNOWN: usize = 1 << 20;

/// All rows so far, added up.
#[derive(Debug, Default)]
pub struct Heard {
    state: KernelState,
    hops: BTreeMap<(u32, String), Snapshot>,
    roles: HashMap<ThreadKey, String>,
    metrics: BTreeMap<u32, Vec<Metric>>,
    /// The last thread that had these numbers, and the last sum of this process.
    threads: HashMap<(u32, u32), ThreadKey>,
    sums: HashMap<u32, SumKey>,
    ended: usize,
}

impl Heard {
    /// What they come to. Its hops are in [`Heard::hops`].
    pub fn state(&self) -> &KernelState {
        &self.state
    }

    /// Values of hops, by process and probe.
    pub fn hops(&self) -> &BTreeMap<(u32, String), Snapshot> {
        &self.hops
    }

    /// What a thread does.
    pub fn role(&self, thread: &ThreadStat) -> Option<String> {
        self.roles.get(&thread.key()).cloned()
    }

    /// What processes keep of themselves.
    pub(crate) fn looked(&self) -> Vec<Looked> {
        let all = self.metrics.iter();
        all.map(|(pid, metrics)| Looked {
            pid: *pid,
            metrics: metrics.clone(),
            ..Looked::default()
        })
        .collect()
    }

    /// Takes a row; those of other tables mean nothing here.
    pub fn row(&mut self, row: &Row) {
        match row {
            Row::Thread(r) => self.thread(r),
            Row::Bucket(r) => {
                if let Some(histogram) = self.histogram(r) {
                    add(histogram, r);
                }
            }
            Row::Blame(r) => self.blame(r),
            Row::Metric(r) => {
                let metrics = self.metrics.entry(r.pid).or_default();
                let metric = Metric {
                    name: r.name.to_string(),
                    unit: r.unit.to_string(),
                    inside: Snapshot::default(),
                    outside: r.probe.then(Snapshot::default),
                };
                match metrics.iter_mut().find(|m| m.name == metric.name) {
                    Some(known) => *known = metric,
                    None => metrics.push(metric),
                }
            }
            _ => {}
        }
    }

    /// Takes an event: threads that have ended are summed by name where the run sums them.
    pub fn event(&mut self, event: &Event) {
        let Event::Exit { thread, .. } = event else {
            return;
        };
        if thread.relation == events::REL_TARGET && self.ended < MAX_ENDED {
            self.ended += 1;
        } else if let Some(summed) = self.state.threads.get_mut(&thread.key()) {
            summed.comm.clone_from(&thread.comm);
            self.state.sum_up(thread.key());
        }
    }

    fn thread(&mut self, r: &rows::Thread) {
        self.state.at_ns = self.state.at_ns.max(r.ts.saturating_add(r.dur));
        let key = (r.first_tid, r.start_time);
        let thread = if r.tid == 0 {
            let key: SumKey = (r.pid, r.comm.to_string());
            self.sums.insert(r.pid, key.clone());
            self.state.summed.entry(key).or_default()
        } else {
            if self.threads.len() >= KNOWN {
                self.threads.clear();
            }
            self.threads.insert((r.pid, r.tid), key);
            if !r.role.is_empty() {
                self.roles.insert(key, r.role.to_string());
            }
            self.state.threads.entry(key).or_default()
        };
        let add = |to: &mut u64, n: u64| *to = to.saturating_add(n);
        add(&mut thread.on_cpu_ns, r.on_cpu_ns);
        add(&mut thread.blocked_ns, r.blocked_ns);
        add(&mut thread.voluntary, r.voluntary);
        add(&mut thread.involuntary, r.involuntary);
        add(&mut thread.migrations, r.migrations);
        add(&mut thread.threads, r.threads);
        thread.pid = r.pid;
        thread.tid = r.tid;
        thread.comm = r.comm.to_string();
        (thread.first_tid, thread.start_time) = key;
        thread.relation = r.relation;
        thread.sched = class(r.policy, r.nice, r.rt_priority);
        thread.phase = match r.phase {
            events::PHASE_RUNNING => Phase::Running,
            events::PHASE_BLOCKED => Phase::Blocked,
            events::PHASE_WAITING => Phase::Waiting,
            _ => Phase::Unknown,
        };
        thread.phase_since = r.phase_since;
        thread.exited = r.exited;
        thread.ended_at = r.ended_at;
        thread.exit_code = r.exit_code;
    }

    /// The thread, or the sum, that a row belongs to.
    fn victim(&mut self, pid: u32, tid: u32) -> Option<&mut ThreadStat> {
        if tid == 0 {
            return self.state.summed.get_mut(self.sums.get(&pid)?);
        }
        self.state.threads.get_mut(self.threads.get(&(pid, tid))?)
    }

    fn flush(&mut self, pty: PtyId, master: bool) -> &mut FlushStat {
        self.state.flush.entry((pty, side(master))).or_default()
    }

    /// The histogram that the row is of; what is no histogram is added here.
    fn histogram(&mut self, r: &rows::Bucket) -> Option<&mut Snapshot> {
        let pty = pty(r.devpts, r.pty);
        match (&*r.scope, &*r.name) {
            (scope::THREAD, "wait") => Some(&mut self.victim(r.pid, r.tid)?.wait),
            (scope::PTY, name) => {
                let key = IoKey {
                    pty,
                    side: side(r.master),
                    write: r.write,
                };
                let io: &mut IoStat = self.state.io.entry(key).or_default();
                io.pid = r.pid;
                match name {
                    "size" => Some(&mut io.size),
                    "duration" => Some(&mut io.duration),
                    "empty" => {
                        io.empty = io.empty.saturating_add(r.count);
                        None
                    }
                    _ => None,
                }
            }
            (scope::FLUSH, "wait") => Some(&mut self.flush(pty, r.master).wait),
            (scope::FLUSH, "run") => Some(&mut self.flush(pty, r.master).run),
            (scope::FLUSH, "reader_wait") => Some(&mut self.flush(pty, r.master).reader_wait),
            (scope::HOP, probe) => Some(self.hops.entry((r.pid, probe.to_owned())).or_default()),
            (kind @ (scope::METRIC | scope::PROBE), name) => {
                let mut all = self.metrics.get_mut(&r.pid)?.iter_mut();
                let metric = all.find(|m| m.name == name)?;
                if kind == scope::METRIC {
                    Some(&mut metric.inside)
                } else {
                    metric.outside.as_mut()
                }
            }
            _ => None,
        }
    }

    fn blame(&mut self, r: &rows::Blame) {
        let (blame, wakers): (&mut Blame, &mut Wakers) = match &*r.scope {
            scope::THREAD => match self.victim(r.pid, r.tid) {
                Some(t) => (&mut t.blame, &mut t.wakers),
                None => return,
            },
            scope::FLUSH => {
                let flush = self.flush(pty(r.devpts, r.pty), r.master);
                (&mut flush.blame, &mut flush.queued_by)
            }
            _ => return,
        };
        let add = |to: &mut u64, n: u64| *to = to.saturating_add(n);
        match &*r.kind {
            "task" | "own" => culprit(blame, r),
            "idle" => add(&mut blame.idle_ns, r.ns),
            "other" => {
                add(&mut blame.other_ns, r.ns);
                add(&mut blame.other_slices, r.count);
            }
            "unknown" => add(&mut blame.unknown_ns, r.ns),
            "waker" => match wakers.by.iter_mut().find(|(name, _)| **name == *r.name) {
                Some((_, count)) => add(count, r.count),
                None => wakers.by.push((r.name.to_string(), r.count)),
            },
            "waker_interrupt" => add(&mut wakers.interrupt, r.count),
            "waker_other" => add(&mut wakers.other, r.count),
            _ => {}
        }
    }
}

fn culprit(blame: &mut Blame, r: &rows::Blame) {
    let own = &*r.kind == "own";
    let known = |c: &&mut Culprit| c.own == own && *c.name == *r.name;
    let (mut ns, mut slices) = (r.ns, r.count);
    let found = blame.culprits.iter_mut().find(known);
    if let Some(before) = &found {
        ns = ns.saturating_add(before.ns);
        slices = slices.saturating_add(before.slices);
    }
    let now = Culprit {
        name: r.name.to_string(),
        own,
        pids: r.pids.split(',').filter_map(|p| p.parse().ok()).collect(),
        more_pids: r.pids.ends_with('+'),
        ns,
        slices,
        sched: class(r.policy, r.nice, r.rt_priority),
        cgroup: r.cgroup,
    };
    match found {
        Some(before) => *before = now,
        None => blame.culprits.push(now),
    }
}

/// Smallest and largest are those so far, and come before the buckets.
fn add(to: &mut Snapshot, r: &rows::Bucket) {
    let grown = if r.bucket == WHOLE {
        Snapshot::from_parts(r.count, r.sum, r.min, r.max, &[])
    } else {
        let Ok(index) = usize::try_from(r.bucket) else {
            return;
        };
        Snapshot::from_parts(0, 0, to.min, to.max, &[(index, r.count)])
    };
    to.merge(&grown);
}
