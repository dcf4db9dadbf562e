//! The last seconds of everything that a chain can pass through: threads, PTYs, sockets.

use std::collections::{HashMap, VecDeque};

use super::flow::{Call, Flow};
use super::timeline::Timeline;
use crate::source::event::{Flush, Io, Off, Sock, Wake};
use crate::stats::{PtyId, Side};

/// Threads that one thread is remembered to wake.
const WAKEES: usize = 16;

/// What a thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Read from an end of a PTY.
    Read(PtyId, Side),
    /// Wrote to one.
    Write(PtyId, Side),
    /// Sent on a connection.
    Send(u64),
    /// Received on one.
    Receive(u64),
}

/// A deed, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) deed: Deed,
    pub(super) call: Call,
}

/// A thread was woken by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    /// When, ns.
    pub(super) at: u64,
    /// Who was woken, and of which process it is.
    pub(super) tid: u32,
    pub(super) pid: u32,
    /// When it was on a CPU.
    ts: u64,
}

/// A thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) time: Timeline,
    /// In the order of time: a thread does one thing at once.
    pub(super) acts: VecDeque<Act>,
    wakes: VecDeque<Edge>,
    /// Whom it was ever seen to wake, of its own process.
    pub(super) wakees: Vec<u32>,
    last: u64,
    ended: bool,
}

impl Thread {
    /// Its acts that began at `ns` or later.
    pub(super) fn acts_from(&self, ns: u64) -> impl Iterator<Item = &Act> {
        let first = self.acts.partition_point(|a| a.call.begin < ns);
        self.acts.range(first..)
    }

    /// Its acts that were over by `ns`, the last first.
    pub(super) fn acts_back_from(&self, ns: u64) -> impl Iterator<Item = &Act> {
        let later = self.acts.partition_point(|a| a.call.end <= ns);
        self.acts.range(..later).rev()
    }

    /// Whom it woke in `from..=until`.
    pub(super) fn wakes_in(&self, from: u64, until: u64) -> impl Iterator<Item = &Edge> {
        let first = self.wakes.partition_point(|e| e.ts < from);
        let range = self.wakes.range(first..);
        range.filter(move |e| from <= e.at && e.at <= until)
    }
}

/// One direction of a PTY.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pub(super) flow: Flow,
    /// They follow each other: work never runs beside itself.
    pub(super) flushes: VecDeque<Flush>,
    /// Whom they woke.
    woken: VecDeque<Edge>,
}

impl Pipe {
    /// Flush work that began at `ns` or later.
    pub(super) fn flushes_from(&self, ns: u64) -> impl Iterator<Item = &Flush> {
        let first = self.flushes.partition_point(|f| f.started < ns);
        self.flushes.range(first..)
    }

    /// The last flush work that had begun by `ns`.
    pub(super) fn flush_before(&self, ns: u64) -> Option<&Flush> {
        let later = self.flushes.partition_point(|f| f.started <= ns);
        self.flushes.get(later.checked_sub(1)?)
    }

    /// The first thread that this flush work woke, and when it was on a CPU, as a call: of a read
    /// that was not seen, since it was called before tracing began.
    pub(super) fn unseen_read(&self, flush: &Flush, until: u64) -> Option<Call> {
        let first = self.woken.partition_point(|w| w.ts < flush.started);
        let Edge { pid, tid, ts, .. } = *self.woken.get(first)?;
        let next = self.flushes_from(flush.started + 1).next();
        let before_next = next.is_none_or(|f| ts <= f.started);
        (before_next && ts <= until).then_some(Call {
            pid,
            tid,
            begin: ts,
            end: ts,
            ..Call::default()
        })
    }

    /// The position up to which this flush work brought bytes, at least.
    fn brought_by(&self, flush: &Flush) -> u64 {
        // The write that queued it may not have returned when the kworker began.
        let own = self.flow.begun_by(flush.queued_by_tid, flush.queued);
        self.flow.written_at(flush.started).max(own)
    }

    /// Everything up to here had been brought to a reader that goes to sleep at `ns`: by the work
    /// that had ended, and by the work that had woken it, which may go on after the reader.
    fn flushed_at(&self, ns: u64) -> u64 {
        let later = self.flushes.partition_point(|f| f.at.ts <= ns);
        let ended = later.checked_sub(1).and_then(|i| self.flushes.get(i));
        let later = self.woken.partition_point(|w| w.ts <= ns);
        let woken = later.checked_sub(1).and_then(|i| self.woken.get(i));
        let woke = woken.and_then(|w| self.flush_before(w.at));
        let all = ended.into_iter().chain(woke);
        all.map(|f| self.brought_by(f)).max().unwrap_or(0)
    }
}

/// A connection: two ends, known by the process that was seen there, and what each has sent.
#[derive(Debug)]
pub(super) struct Conn {
    ends: Vec<u32>,
    /// The process at the other end, as the kernel tells it, by end.
    told: [u32; 2],
    sent: [Flow; 2],
}

impl Default for Conn {
    fn default() -> Conn {
        Conn {
            ends: Vec::new(),
            told: [0; 2],
            sent: [Flow::under_way(), Flow::under_way()],
        }
    }
}

impl Conn {
    fn end(&mut self, pid: u32) -> usize {
        if let Some(end) = self.ends.iter().position(|p| *p == pid) {
            return end;
        }
        // A process that was forked is at the end of its parent's; which one that was is not told.
        if self.ends.len() < 2 {
            self.ends.push(pid);
        }
        self.ends.len() - 1
    }

    /// What this process has sent.
    pub(super) fn sent_by(&self, pid: u32) -> Option<&Flow> {
        let end = self.ends.iter().position(|p| *p == pid)?;
        self.sent.get(end)
    }

    /// What this process receives.
    pub(super) fn received_by(&self, pid: u32) -> Option<&Flow> {
        let end = self.ends.iter().position(|p| *p == pid)?;
        self.sent.get(1 - end)
    }

    /// Who is at the other end: who was seen there, else who the kernel says it is.
    pub(super) fn other(&self, pid: u32) -> Option<u32> {
        let end = self.ends.iter().position(|p| *p == pid)?;
        let seen = self.ends.get(1 - end);
        let other = seen.or(self.told.get(end)).copied();
        other.filter(|p| *p != 0 && *p != pid)
    }
}

/// All of it. Fed in the order of time.
#[derive(Debug, Default)]
pub(super) struct History {
    threads: HashMap<u32, Thread>,
    pipes: HashMap<(PtyId, Side), Pipe>,
    conns: HashMap<u64, Conn>,
    /// Times in which records were lost.
    pub(super) gaps: Vec<(u64, u64)>,
    /// What came before is forgotten, ns.
    pub(super) since: u64,
}

impl History {
    pub(super) fn thread(&self, tid: u32) -> Option<&Thread> {
        self.threads.get(&tid)
    }

    /// The direction that goes towards this side.
    pub(super) fn pipe(&self, pty: PtyId, towards: Side) -> Option<&Pipe> {
        self.pipes.get(&(pty, towards))
    }

    pub(super) fn conn(&self, conn: u64) -> Option<&Conn> {
        self.conns.get(&conn)
    }

    /// Whether records were lost within that time.
    pub(super) fn is_lossy(&self, from: u64, until: u64) -> bool {
        self.gaps.iter().any(|(a, b)| *a < until && from < *b)
    }

    fn act(&mut self, tid: u32, deed: Deed, call: Call) {
        let thread = self.threads.entry(tid).or_default();
        thread.last = call.end;
        thread.ended = false;
        thread.acts.push_back(Act { deed, call });
    }

    /// A read or write; gives it with its place in the flow, if it moved anything.
    pub(super) fn io(&mut self, io: &Io) -> Option<Call> {
        let call = call(&io.at, io.result, io.duration_ns)?;
        let towards = match (io.side, io.write) {
            (Side::Master, true) | (Side::Slave, false) => Side::Slave,
            (Side::Slave, true) | (Side::Master, false) => Side::Master,
        };
        let pipe = self.pipes.entry((io.pty, towards)).or_default();
        let (call, deed) = if io.write {
            (pipe.flow.write(call), Deed::Write(io.pty, io.side))
        } else {
            // It slept until fresh bytes came: it had all that had been brought before.
            let time = self.threads.get(&io.at.tid).map(|t| &t.time);
            let sleep = time.and_then(|t| t.last_wait(call.end));
            if let Some(off) = sleep.filter(|o| o.woken_by_flush == Some((io.pty, towards))) {
                pipe.flow.drained(pipe.flushed_at(off.left));
            }
            (pipe.flow.take(call, None), Deed::Read(io.pty, io.side))
        };
        self.act(io.at.tid, deed, call);
        Some(call)
    }

    pub(super) fn sock(&mut self, sock: &Sock) {
        let Some(call) = call(&sock.at, sock.result, sock.duration_ns) else {
            return;
        };
        let conn = self.conns.entry(sock.conn).or_default();
        let end = conn.end(sock.at.pid);
        if let Some(told) = conn.told.get_mut(end).filter(|_| sock.peer != 0) {
            *told = sock.peer;
        }
        let (flow, deed) = if sock.send {
            (conn.sent.get_mut(end), Deed::Send(sock.conn))
        } else {
            (conn.sent.get_mut(1 - end), Deed::Receive(sock.conn))
        };
        let Some(flow) = flow else { return };
        let call = if sock.send {
            flow.write(call)
        } else {
            let time = self.threads.get(&call.tid).map(|t| &t.time);
            let wait = time.and_then(|t| t.last_wait(call.end));
            let woken = wait.and_then(|o| match o.wake {
                Wake::Task { tid, .. } => Some((tid, o.runnable)),
                _ => None,
            });
            flow.take(call, woken)
        };
        self.act(sock.at.tid, deed, call);
    }

    pub(super) fn flush(&mut self, flush: Flush) {
        let pipe = self.pipes.entry((flush.pty, flush.towards)).or_default();
        let in_order = pipe
            .flushes
            .back()
            .is_none_or(|last| last.started <= flush.started);
        if in_order {
            pipe.flushes.push_back(flush);
        }
    }

    pub(super) fn off(&mut self, off: Off) {
        let (tid, pid, at, ts) = (off.at.tid, off.at.pid, off.runnable, off.at.ts);
        if let Some(pipe) = off.woken_by_flush {
            let pipe = self.pipes.entry(pipe).or_default();
            pipe.woken.push_back(Edge { at, tid, pid, ts });
        }
        if let Wake::Task { pid: p, tid: waker } = off.wake
            && off.woken_by_flush.is_none()
        {
            let waker = self.threads.entry(waker).or_default();
            waker.last = waker.last.max(ts);
            waker.wakes.push_back(Edge { at, tid, pid, ts });
            if p == pid && !waker.wakees.contains(&tid) && waker.wakees.len() < WAKEES {
                waker.wakees.push(tid);
            }
        }
        let thread = self.threads.entry(tid).or_default();
        thread.last = ts;
        thread.ended = false;
        thread.time.push(off);
    }

    pub(super) fn ended(&mut self, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.ended = true;
        }
    }

    /// Records between these two times are missing.
    pub(super) fn lost(&mut self, from: u64, until: u64) {
        match self.gaps.last_mut().filter(|g| from <= g.1) {
            Some(gap) => gap.1 = gap.1.max(until),
            None => self.gaps.push((from, until)),
        }
        self.pipes.values_mut().for_each(|p| p.flow.lost());
        let conns = self.conns.values_mut();
        conns.flat_map(|c| &mut c.sent).for_each(Flow::lost);
    }

    /// Records that are kept.
    pub(super) fn len(&self) -> usize {
        let threads = self.threads.values();
        let threads = threads.map(|t| t.time.len() + t.acts.len() + t.wakes.len() + 1);
        let pipes = self.pipes.values();
        let pipes = pipes.map(|p| p.flow.len() + p.flushes.len() + p.woken.len() + 1);
        let conns = self.conns.values();
        let conns = conns.map(|c| c.sent.iter().map(Flow::len).sum::<usize>() + 1);
        threads.sum::<usize>() + pipes.sum::<usize>() + conns.sum::<usize>()
    }

    /// Forgets what was over before `ns`.
    pub(super) fn forget(&mut self, ns: u64) {
        self.since = self.since.max(ns);
        self.gaps.retain(|(_, until)| *until >= ns);
        self.threads.retain(|_, t| {
            t.time.forget(ns);
            pop_while(&mut t.acts, |a| a.call.end < ns);
            pop_while(&mut t.wakes, |e| e.ts < ns);
            t.last >= ns || (!t.ended && t.time.len() > 0)
        });
        for pipe in self.pipes.values_mut() {
            pipe.flow.forget(ns);
            pop_while(&mut pipe.flushes, |f| f.at.ts < ns);
            pop_while(&mut pipe.woken, |w| w.ts < ns);
        }
        for conn in self.conns.values_mut() {
            conn.sent.iter_mut().for_each(|f| f.forget(ns));
        }
    }

    /// Forgets whole threads, PTYs and connections of which nothing is left but that they were
    /// there: too many have come and gone.
    pub(super) fn forget_quiet(&mut self) {
        let since = self.since;
        self.threads.retain(|_, t| t.last >= since);
        self.pipes.retain(|_, p| p.flow.len() + p.flushes.len() > 0);
        self.conns.retain(|_, c| c.sent.iter().any(|f| f.len() > 0));
    }
}

fn pop_while<T>(queue: &mut VecDeque<T>, old: impl Fn(&T) -> bool) {
    while queue.front().is_some_and(&old) {
        queue.pop_front();
    }
}

/// A call that moved bytes, its place not known yet.
fn call(at: &crate::source::event::At, result: i64, duration_ns: u64) -> Option<Call> {
    // More than any call moves: positions cannot overflow, whatever the records say.
    let bytes = u64::try_from(result).ok().filter(|n| *n > 0)?.min(1 << 32);
    Some(Call {
        pid: at.pid,
        tid: at.tid,
        begin: at.ts.saturating_sub(duration_ns),
        end: at.ts,
        from: 0,
        until: bytes,
    })
}
