//! From sums to rows.

use std::collections::HashSet;

use phux_perf::Snapshot;
use phux_recording::{self as rows, Name, Names};

use super::{WHOLE, scope};
use crate::attach::inside::Looked;
use crate::recording::Put;
use crate::source::Event;
use crate::stats::{
    Blame, FlushStat, IoStat, KernelState, Phase, Side, ThreadKey, ThreadStat, Wakers,
};

/// As far as the rows so far tell it.
#[derive(Debug, Default)]
pub struct Told {
    state: KernelState,
    /// Threads that have ended since.
    gone: HashSet<ThreadKey>,
}

/// One interval that is being told.
struct Interval<'a, P> {
    began: u64,
    length: u64,
    names: &'a mut Names,
    out: &'a mut P,
}

/// Whose histogram or culprits: what their rows have in common.
#[derive(Clone, Default)]
struct Whose {
    scope: &'static str,
    pid: u32,
    tid: u32,
    devpts: u32,
    pty: u32,
    master: bool,
    write: bool,
}

impl Told {
    /// Nothing is told yet; the first interval begins at `began_ns`.
    pub fn from(began_ns: u64) -> Told {
        Told {
            state: KernelState {
                at_ns: began_ns,
                ..KernelState::default()
            },
            gone: HashSet::new(),
        }
    }

    /// Takes note of an event: it may be a thread's end, that the rows to come take for told.
    pub fn event(&mut self, event: &Event) {
        let Event::Exit { thread, .. } = event else {
            return;
        };
        let key = thread.key();
        if let Some(told) = self.state.threads.get_mut(&key) {
            // Under its last name it will be summed.
            told.comm.clone_from(&thread.comm);
            self.gone.insert(key);
        }
    }

    /// Gives the rows of what has grown. Of the `last` interval also threads that only slept: theirs are not told each time.
    pub fn tell(
        &mut self,
        mut now: KernelState,
        last: bool,
        role: impl Fn(&ThreadStat) -> Option<String>,
        hop: impl Fn(u32) -> Option<String>,
        names: &mut Names,
        out: &mut impl Put,
    ) {
        let began = self.state.at_ns;
        let mut to = Interval {
            began,
            length: now.at_ns.saturating_sub(began),
            names,
            out,
        };
        // One whose end is still in a ring is in neither list.
        for (key, then) in &self.state.threads {
            if !self.gone.contains(key) {
                now.threads.entry(*key).or_insert_with(|| then.clone());
            }
        }
        self.gone.clear();
        let summed = now.summed_at(&self.state);
        let nothing = ThreadStat::default();
        now.threads
            .retain(|key, t| self.state.threads.contains_key(key) || !t.is_quiet());
        for (key, thread) in &mut now.threads {
            match self.state.threads.get(key) {
                None => to.thread(thread, &nothing, role(thread)),
                // Told as it was: what it has slept meanwhile comes later.
                Some(then) if !last && sleeps_on(thread, then) => thread.clone_from(then),
                Some(then) if thread == then => {}
                Some(then) => to.thread(thread, then, role(thread)),
            }
        }
        for (key, thread) in &now.summed {
            let then = summed.get(key);
            if then != Some(thread) {
                to.thread(thread, then.unwrap_or(&nothing), None);
            }
        }
        for (key, io) in &now.io {
            let whose = Whose {
                scope: scope::PTY,
                pid: io.pid,
                devpts: key.pty.devpts,
                pty: key.pty.index,
                master: key.side == Side::Master,
                write: key.write,
                ..Whose::default()
            };
            match self.state.io.get(key) {
                Some(then) => to.io(&whose, io, then),
                None => to.io(&whose, io, &IoStat::default()),
            }
        }
        for ((pty, towards), flush) in &now.flush {
            let whose = Whose {
                scope: scope::FLUSH,
                devpts: pty.devpts,
                pty: pty.index,
                master: *towards == Side::Master,
                ..Whose::default()
            };
            match self.state.flush.get(&(*pty, *towards)) {
                Some(then) => to.flush(&whose, flush, then),
                None => to.flush(&whose, flush, &FlushStat::default()),
            }
        }
        let none = Snapshot::default();
        for (key, values) in &now.hops {
            let Some(probe) = hop(key.1) else { continue };
            let whose = Whose {
                scope: scope::HOP,
                pid: key.0,
                ..Whose::default()
            };
            let then = self.state.hops.get(key).unwrap_or(&none);
            to.histogram(&whose, &probe, values, then);
        }
        self.state = now;
    }

    /// Gives the rows of what a process keeps of itself. They are of the whole run: it is asked at both ends only.
    pub(crate) fn tell_metrics(
        looked: &[Looked],
        (began_ns, ended_ns): (u64, u64),
        names: &mut Names,
        out: &mut impl Put,
    ) {
        let mut to = Interval {
            began: began_ns,
            length: ended_ns.saturating_sub(began_ns),
            names,
            out,
        };
        let none = Snapshot::default();
        for process in looked {
            for metric in &process.metrics {
                let row = rows::Metric {
                    ts: to.began,
                    dur: to.length,
                    pid: process.pid,
                    name: to.names.get(&metric.name),
                    kind: Name::fixed("histogram"),
                    unit: to.names.get(&metric.unit),
                    value: i64::try_from(metric.inside.count).unwrap_or(i64::MAX),
                    sum: metric.inside.sum,
                    max: metric.inside.max,
                    probe: metric.outside.is_some(),
                    ..Default::default()
                };
                to.out.put(row);
                let whose = |scope| Whose {
                    scope,
                    pid: process.pid,
                    ..Whose::default()
                };
                to.histogram(&whose(scope::METRIC), &metric.name, &metric.inside, &none);
                if let Some(outside) = &metric.outside {
                    to.histogram(&whose(scope::PROBE), &metric.name, outside, &none);
                }
            }
        }
    }
}

/// Nothing happened to it but that it went on doing what it did.
fn sleeps_on(now: &ThreadStat, then: &ThreadStat) -> bool {
    let of_all = (now.phase, now.exited, &now.comm, now.tid, now.pid);
    of_all == (then.phase, then.exited, &then.comm, then.tid, then.pid)
        && now.on_cpu_ns == then.on_cpu_ns
        && now.voluntary == then.voluntary
        && now.involuntary == then.involuntary
        && now.wait == then.wait
        && now.sched == then.sched
}

impl<P: Put> Interval<'_, P> {
    /// Its own row first: those of its histogram and its culprits name it by pid and tid only.
    fn thread(&mut self, now: &ThreadStat, then: &ThreadStat, role: Option<String>) {
        let row = rows::Thread {
            ts: self.began,
            dur: self.length,
            pid: now.pid,
            tid: now.tid,
            comm: self.names.get(&now.comm),
            role: self.names.get(&role.unwrap_or_default()),
            first_tid: now.first_tid,
            start_time: now.start_time,
            relation: now.relation,
            on_cpu_ns: now.on_cpu_ns.saturating_sub(then.on_cpu_ns),
            blocked_ns: now.blocked_ns.saturating_sub(then.blocked_ns),
            waits: now.wait.count.saturating_sub(then.wait.count),
            wait_ns: now.wait.sum.saturating_sub(then.wait.sum),
            wait_max_ns: now.wait.max,
            voluntary: now.voluntary.saturating_sub(then.voluntary),
            involuntary: now.involuntary.saturating_sub(then.involuntary),
            migrations: now.migrations.saturating_sub(then.migrations),
            phase: match now.phase {
                Phase::Unknown => 0,
                Phase::Running => probe_ebpf::events::PHASE_RUNNING,
                Phase::Blocked => probe_ebpf::events::PHASE_BLOCKED,
                Phase::Waiting => probe_ebpf::events::PHASE_WAITING,
            },
            phase_since: now.phase_since,
            policy: now.sched.policy,
            nice: now.sched.nice,
            rt_priority: now.sched.rt_priority,
            exited: now.exited,
            ended_at: now.ended_at,
            exit_code: now.exit_code,
            threads: now.threads.saturating_sub(then.threads),
            ..Default::default()
        };
        self.out.put(row);
        let whose = Whose {
            scope: scope::THREAD,
            pid: now.pid,
            tid: now.tid,
            ..Whose::default()
        };
        self.histogram(&whose, "wait", &now.wait, &then.wait);
        self.blame(&whose, &now.blame.since(&then.blame));
        self.wakers(&whose, &now.wakers.since(&then.wakers));
    }

    fn io(&mut self, whose: &Whose, now: &IoStat, then: &IoStat) {
        self.histogram(whose, "size", &now.size, &then.size);
        self.histogram(whose, "duration", &now.duration, &then.duration);
        let empty = now.empty.saturating_sub(then.empty);
        if empty != 0 {
            let row = self.bucket(whose, "empty");
            self.out.put(rows::Bucket {
                count: empty,
                ..row
            });
        }
    }

    fn flush(&mut self, whose: &Whose, now: &FlushStat, then: &FlushStat) {
        self.histogram(whose, "wait", &now.wait, &then.wait);
        self.histogram(whose, "run", &now.run, &then.run);
        self.histogram(whose, "reader_wait", &now.reader_wait, &then.reader_wait);
        self.blame(whose, &now.blame.since(&then.blame));
        self.wakers(whose, &now.queued_by.since(&then.queued_by));
    }

    fn bucket(&mut self, whose: &Whose, name: &str) -> rows::Bucket {
        rows::Bucket {
            ts: self.began,
            scope: Name::fixed(whose.scope),
            name: self.names.get(name),
            pid: whose.pid,
            tid: whose.tid,
            devpts: whose.devpts,
            pty: whose.pty,
            master: whose.master,
            write: whose.write,
            bucket: WHOLE,
            ..Default::default()
        }
    }

    fn histogram(&mut self, whose: &Whose, name: &str, now: &Snapshot, then: &Snapshot) {
        if now == then {
            return;
        }
        let row = self.bucket(whose, name);
        self.out.put(rows::Bucket {
            count: now.count.saturating_sub(then.count),
            sum: now.sum.saturating_sub(then.sum),
            min: now.min,
            max: now.max,
            ..row.clone()
        });
        for (index, n) in now.nonempty() {
            let count = n.saturating_sub(then.bucket(index));
            if count != 0 {
                let bucket = i32::try_from(index).unwrap_or(i32::MAX);
                self.out.put(rows::Bucket {
                    bucket,
                    count,
                    ..row.clone()
                });
            }
        }
    }

    fn culprit(&mut self, whose: &Whose, kind: &'static str, name: &str) -> rows::Blame {
        rows::Blame {
            ts: self.began,
            scope: Name::fixed(whose.scope),
            pid: whose.pid,
            tid: whose.tid,
            devpts: whose.devpts,
            pty: whose.pty,
            master: whose.master,
            kind: Name::fixed(kind),
            name: self.names.get(name),
            ..Default::default()
        }
    }

    fn blame(&mut self, whose: &Whose, blame: &Blame) {
        for c in &blame.culprits {
            let row = self.culprit(whose, if c.own { "own" } else { "task" }, &c.name);
            let mut pids: Vec<String> = c.pids.iter().map(u32::to_string).collect();
            pids.extend(c.more_pids.then(|| "+".to_owned()));
            self.out.put(rows::Blame {
                ns: c.ns,
                count: c.slices,
                pids: self.names.get(&pids.join(",")),
                policy: c.sched.policy,
                nice: c.sched.nice,
                rt_priority: c.sched.rt_priority,
                cgroup: c.cgroup,
                ..row
            });
        }
        self.rest(whose, "idle", (blame.idle_ns, 0));
        self.rest(whose, "other", (blame.other_ns, blame.other_slices));
        self.rest(whose, "unknown", (blame.unknown_ns, 0));
    }

    fn wakers(&mut self, whose: &Whose, wakers: &Wakers) {
        for (name, count) in &wakers.by {
            let row = self.culprit(whose, "waker", name);
            self.out.put(rows::Blame {
                count: *count,
                ..row
            });
        }
        self.rest(whose, "waker_interrupt", (0, wakers.interrupt));
        self.rest(whose, "waker_other", (0, wakers.other));
    }

    fn rest(&mut self, whose: &Whose, kind: &'static str, (ns, count): (u64, u64)) {
        if (ns, count) != (0, 0) {
            let row = self.culprit(whose, kind, "");
            self.out.put(rows::Blame { ns, count, ..row });
        }
    }
}
