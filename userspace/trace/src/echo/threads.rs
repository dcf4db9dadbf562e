//! Through the threads of one program: what a read led to, and what a write came from.
//!
//! A thread passes something on by waking another one. Where the other one is awake already no
//! wake-up tells of it: then whom it is known to wake is asked, and what is found is inexact.

use super::flow::Call;
use super::history::{Act, Deed, History, Thread};
use super::timeline::{NAPS, is_nap};
use crate::source::event::{Off, Wake};
use crate::stats::{PtyId, Side};

/// Threads looked at for one effect.
const REACH: usize = 32;
/// Hands that a thing can go through on its way back to its cause.
const DEPTH: u32 = 8;
/// Acts of one thread that are looked through for a cause: who did more since it last slept, or
/// never sleeps, has none that could be told.
const LOOK_BACK: usize = 256;
/// How old what a thread has read may be when it writes it after a sleep: the pauses that event loops
/// make are shorter (an escape sequence is waited for 50 ms), and keys are further apart.
const NAP_NS: u64 = 60_000_000;

/// A thread that had it, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) until: u64,
}

/// The end that was looked for, and the threads on the way; the last one is the act's.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) act: Act,
    pub(super) steps: Vec<Step>,
    pub(super) exact: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    /// That.
    Found(Found),
    /// The thread slept and read again at that time, and nothing had come.
    CameBack(u64),
    /// Nothing, so far.
    Nothing,
}

/// A thread that has it, since when, and from whom.
#[derive(Debug, Clone, Copy)]
struct Node {
    pid: u32,
    tid: u32,
    since: u64,
    from: Option<usize>,
    exact: bool,
}

/// How to look for an effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'h> {
    pub(super) history: &'h History,
    /// Nothing that ends later counts, ns.
    pub(super) deadline: u64,
    /// No more will be known: what time alone tells is better than nothing.
    pub(super) last: bool,
}

impl Search<'_> {
    /// What a server or a client made of what it has read: the first act that is `wanted`.
    pub(super) fn within_process(&self, read: &Act, wanted: impl Fn(&Act) -> bool) -> Effect {
        let mut nodes = self.reach(read, true);
        let mut found = self.first(&nodes, &wanted, |_| u64::MAX);
        if found.is_none() && self.last {
            self.add_awake(&mut nodes);
            found = self.first(&nodes, &wanted, |_| u64::MAX);
        }
        let Some((node, act)) = found else {
            return Effect::Nothing;
        };
        let mut found = self.found(&nodes, node, act);
        // It slept in between, and somebody who has nothing to do with this woke it.
        let slept_through = |off: &Off| match off.wake {
            Wake::Task { tid, .. } => nodes.iter().all(|n| n.tid != tid),
            _ => off.woken_by_flush.is_some(),
        };
        if let Some(n) = nodes.get(node)
            && let Some(thread) = self.history.thread(n.tid)
        {
            let mut sleeps = thread.time.sleeps_from(n.since);
            let last = sleeps
                .by_ref()
                .take_while(|o| o.at.ts <= act.call.begin)
                .filter(|o| !is_nap(o))
                .last();
            found.exact &= !last.is_some_and(slept_through);
        }
        Effect::Found(found)
    }

    /// What the program inside made of what it has read: its first write there, whatever it slept
    /// in meanwhile, by the thread that read or by whom it woke.
    pub(super) fn answer(&self, read: &Act, pty: PtyId) -> Effect {
        let wanted = |a: &Act| a.deed == Deed::Write(pty, Side::Slave);
        let nodes = self.reach(read, false);
        let again = self.comes_back(read, pty);
        let limit = |n: usize| {
            if n == 0 {
                again.unwrap_or(u64::MAX)
            } else {
                u64::MAX
            }
        };
        match (self.first(&nodes, wanted, limit), again) {
            (Some((node, act)), _) => Effect::Found(self.found(&nodes, node, act)),
            (None, Some(again)) if nodes.len() == 1 => Effect::CameBack(again),
            (None, _) => Effect::Nothing,
        }
    }

    /// When the reader reads again after it has slept.
    fn comes_back(&self, read: &Act, pty: PtyId) -> Option<u64> {
        let thread = self.history.thread(read.call.tid)?;
        let mut sleeps = thread.time.sleeps_from(read.call.end);
        let slept = sleeps.find(|o| !is_nap(o))?.left;
        let mut acts = thread.acts_from(read.call.end);
        let again = acts.find(|a| a.deed == Deed::Read(pty, Side::Slave) && a.call.end > slept)?;
        // A blocking read begins before the sleep.
        (again.call.end <= self.deadline).then_some(again.call.begin.max(read.call.end))
    }

    /// All threads that can have it: the reader, and whom it woke before it went for the next.
    fn reach(&self, read: &Act, same_process: bool) -> Vec<Node> {
        let mut nodes = vec![Node {
            pid: read.call.pid,
            tid: read.call.tid,
            since: read.call.end,
            from: None,
            exact: true,
        }];
        let mut at = 0;
        while let Some(node) = nodes.get(at).copied() {
            let Some(thread) = self.history.thread(node.tid) else {
                at += 1;
                continue;
            };
            let mut until = self.stretch_end(thread, node.since).min(self.deadline);
            // Who reads a terminal hands on what it has before it reads more. (A frame of a
            // socket can take two receives.)
            if at == 0 && matches!(read.deed, Deed::Read(..)) {
                let mut acts = thread.acts_from(node.since);
                let next = acts.find(|a| a.deed == read.deed);
                until = until.min(next.map_or(u64::MAX, |a| a.call.begin));
            }
            for edge in thread.wakes_in(node.since, until) {
                let known = nodes.iter().any(|n| n.tid == edge.tid);
                if !known && nodes.len() < REACH && (edge.pid == node.pid || !same_process) {
                    nodes.push(Node {
                        pid: edge.pid,
                        tid: edge.tid,
                        since: edge.at,
                        from: Some(at),
                        exact: node.exact,
                    });
                }
            }
            at += 1;
        }
        nodes
    }

    /// Whom these threads are known to wake, and who was awake at that time.
    fn add_awake(&self, nodes: &mut Vec<Node>) {
        let mut at = 0;
        while let Some(node) = nodes.get(at).copied() {
            let thread = self.history.thread(node.tid);
            for tid in thread.map(|t| t.wakees.as_slice()).unwrap_or_default() {
                let awake = |t: &Thread| !t.time.asleep_at(node.since);
                let known = nodes.iter().any(|n| n.tid == *tid);
                if !known && nodes.len() < REACH && self.history.thread(*tid).is_some_and(awake) {
                    nodes.push(Node {
                        pid: node.pid,
                        tid: *tid,
                        since: node.since,
                        from: Some(at),
                        exact: false,
                    });
                }
            }
            at += 1;
        }
    }

    /// When the thread has gone to sleep for good: a nap, or what a timer ends, is part of the work.
    fn stretch_end(&self, thread: &Thread, since: u64) -> u64 {
        let sleeps = thread.time.sleeps_from(since).take(NAPS);
        let end = sleeps
            .into_iter()
            .find(|o| o.wake != Wake::Interrupt && !is_nap(o));
        end.map_or(u64::MAX, |o| if o.left == 0 { o.runnable } else { o.left })
    }

    /// The one that was done first. By its end: what ends later is not known yet.
    fn first(
        &self,
        nodes: &[Node],
        wanted: impl Fn(&Act) -> bool,
        limit: impl Fn(usize) -> u64,
    ) -> Option<(usize, Act)> {
        let of = |(i, node): (usize, &Node)| {
            let limit = limit(i);
            let mut acts = self.history.thread(node.tid)?.acts_from(node.since);
            let act = acts
                .by_ref()
                .take_while(|a| a.call.begin < limit && a.call.end <= self.deadline)
                .find(|a| wanted(a))?;
            Some((i, *act))
        };
        let all = nodes.iter().enumerate().filter_map(of);
        all.min_by_key(|(i, act)| (act.call.end, *i))
    }

    fn found(&self, nodes: &[Node], last: usize, act: Act) -> Found {
        let mut steps = Vec::new();
        let (mut until, mut at, mut exact) = (act.call.begin, Some(last), true);
        while let Some(node) = at.and_then(|i| nodes.get(i)) {
            steps.push(Step {
                pid: node.pid,
                tid: node.tid,
                until,
            });
            exact &= node.exact;
            (until, at) = (node.since, node.from);
        }
        steps.reverse();
        Found { act, steps, exact }
    }
}

/// What made this thread do what it did at `at`: the last act that is a `source`, its own or of the
/// thread of its process that woke it, and so on. The steps lead from there to here.
pub(super) fn cause(
    history: &History,
    (pid, tid, at): (u32, u32, u64),
    source: &impl Fn(&Act) -> bool,
) -> Option<Found> {
    back(history, (pid, tid, at), source, DEPTH)
}

fn back(
    history: &History,
    (pid, tid, at): (u32, u32, u64),
    source: &impl Fn(&Act) -> bool,
    depth: u32,
) -> Option<Found> {
    let thread = history.thread(tid)?;
    let naps = thread.time.sleeps_back_from(at).take(NAPS);
    let wake = naps.into_iter().find(|o| !is_nap(o));
    let since = wake.map_or(0, |o| o.at.ts);
    let mut acts = thread
        .acts_back_from(at)
        .take(LOOK_BACK)
        .take_while(|a| a.call.end >= since);
    let step = Step {
        pid,
        tid,
        until: at,
    };
    if let Some(act) = acts.find(|a| source(a)) {
        return Some(Found {
            act: *act,
            steps: vec![step],
            exact: true,
        });
    }
    let handed = || handed_over(history, thread, wake?, step, source, depth);
    handed().or_else(|| before_a_nap(thread, step, source))
}

/// By the thread of its process that woke it.
fn handed_over(
    history: &History,
    thread: &Thread,
    wake: &Off,
    step: Step,
    source: &impl Fn(&Act) -> bool,
    depth: u32,
) -> Option<Found> {
    let Step {
        pid,
        tid: _,
        until: at,
    } = step;
    let Wake::Task {
        pid: of,
        tid: waker,
    } = wake.wake
    else {
        return None;
    };
    if of != pid || depth == 0 {
        return None;
    }
    // It has written already since it was woken: that was what it was woken for.
    let mut acts = thread
        .acts_back_from(at)
        .take(LOOK_BACK)
        .take_while(|a| a.call.begin >= wake.at.ts);
    let spent = acts.any(|a| matches!(a.deed, Deed::Write(..) | Deed::Send(_)));
    let handed = if spent { at } else { wake.runnable };
    let mut found = back(history, (pid, waker, handed), source, depth - 1)?;
    found.exact &= !spent;
    found.steps.push(step);
    Some(found)
}

/// By itself, though it slept in between: an event loop that reads a key and writes it in a later
/// turn. What it has read has not been written yet, and is not old; a sleep that a timer did not
/// end leaves it open whether it is the cause.
fn before_a_nap(thread: &Thread, step: Step, source: &impl Fn(&Act) -> bool) -> Option<Found> {
    let at = step.until;
    let act = thread
        .acts_back_from(at)
        .take(LOOK_BACK)
        .take_while(|a| a.call.end.saturating_add(NAP_NS) >= at)
        .take_while(|a| !matches!(a.deed, Deed::Write(_, Side::Master)))
        .find(|a| source(a))?;
    let mut sleeps = thread.time.sleeps_from(act.call.end);
    let exact = sleeps
        .by_ref()
        .take_while(|o| o.at.ts <= at)
        .all(|o| o.wake == Wake::Interrupt);
    Some(Found {
        act: *act,
        steps: vec![step],
        exact,
    })
}

/// When `waker` woke the thread that made this call, if that was within `from..=until` and
/// it had slept until then.
pub(super) fn woken(
    history: &History,
    call: &Call,
    waker: u32,
    from: u64,
    until: u64,
) -> Option<u64> {
    let off = history.thread(call.tid)?.time.last_wait(call.end)?;
    let by = matches!(off.wake, Wake::Task { tid, .. } if tid == waker);
    (by && from <= off.runnable && off.runnable <= until).then_some(off.runnable)
}
