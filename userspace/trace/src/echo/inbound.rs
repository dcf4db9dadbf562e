//! From a write to a pane's master back to the key: which read, by which client, it came from.

use super::flow::{Call, Flow};
use super::history::{Act, Deed, History, Pipe};
use super::model::LinkKind;
use super::threads::{self, Found, woken};
use super::way::Way;
use crate::source::event::Flush;
use crate::stats::{PtyId, Side};

/// Which flush work carried a write's bytes. `by`: they had arrived then.
///
/// The one that the write queued itself; it finds nothing left to do when the one under way
/// took the bytes along. Where the write queued none, the work was queued already.
pub(super) fn carrier<'h>(pipe: &'h Pipe, write: &Call, by: Option<u64>) -> Option<&'h Flush> {
    let by = by.unwrap_or(u64::MAX);
    let own = |f: &&Flush| {
        f.queued_by_tid == write.tid && write.begin <= f.queued && f.queued <= write.end
    };
    let mut later = pipe
        .flushes_from(write.begin)
        .take_while(|f| f.started <= by);
    let first = later.next();
    let own = first.into_iter().chain(later.take(8)).find(own);
    own.or(first).or_else(|| {
        let before = pipe.flush_before(by.min(write.end));
        before.filter(|f| f.at.ts >= write.begin)
    })
}

/// When the carried bytes had reached the reader: when the flush work woke it, else when the work
/// was done, but not after the read.
pub(super) fn arrival(history: &History, pipe: (PtyId, Side), flush: &Flush, read: &Call) -> u64 {
    let time = history.thread(read.tid).map(|t| &t.time);
    let woken = time.and_then(|t| t.woken_by(pipe, flush.started, flush.at.ts));
    match woken {
        Some(off) if off.at.ts <= read.end => off.runnable,
        _ => flush.at.ts.min(read.end),
    }
}

/// Where a chain's input came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The server's own terminal.
    Terminal,
    /// A client, on this connection.
    Client(u64),
    /// Not known.
    Unknown,
}

/// Begins the way of an input: from the client's key, as far back as it is known, to the beginning
/// of the write to the master.
pub(super) fn begin<'h>(history: &'h History, pty: PtyId, write: &Call) -> (Way<'h>, Origin) {
    let source = |a: &Act| match a.deed {
        Deed::Read(p, Side::Slave) => p != pty,
        Deed::Receive(conn) => history
            .conn(conn)
            .is_some_and(|c| c.other(a.call.pid).is_some_and(|p| p != a.call.pid)),
        _ => false,
    };
    let own = (write.pid, write.tid, write.begin);
    let Some(found) = threads::cause(history, own, &source) else {
        return (Way::begin(write.begin), Origin::Unknown);
    };
    let (mut way, origin) = match found.act.deed {
        Deed::Receive(conn) => {
            let mut way = from_client(history, conn, &found, write);
            way.thread(LinkKind::ServerReceive, who(&found.act), found.act.call.end);
            (way, Origin::Client(conn))
        }
        _ => (from_terminal(history, &found.act), Origin::Terminal),
    };
    way.threads(LinkKind::ServerInput, &found.steps);
    way.exact &= found.exact;
    (way, origin)
}

fn who(act: &Act) -> (u32, u32) {
    (act.call.pid, act.call.tid)
}

/// When the thread was woken for this call, which it may have waited in; else when it called.
fn awake_for(history: &History, call: &Call) -> u64 {
    let time = history.thread(call.tid).map(|t| &t.time);
    let sleep = time.and_then(|t| t.last_wait(call.end));
    // Between being woken and the call there is nothing else that it was woken for.
    match sleep {
        Some(off) if off.at.ts >= call.begin || no_act_since(history, call, off.at.ts) => {
            off.runnable
        }
        _ => call.begin,
    }
}

fn no_act_since(history: &History, call: &Call, since: u64) -> bool {
    let thread = history.thread(call.tid);
    thread.is_some_and(|t| {
        t.acts_from(since)
            .next()
            .is_some_and(|a| a.call.begin == call.begin)
    })
}

/// The way from the key to the end of the read of a terminal.
fn from_terminal<'h>(history: &'h History, read: &Act) -> Way<'h> {
    let Deed::Read(pty, side) = read.deed else {
        return Way::begin(read.call.begin);
    };
    let pipe = history.pipe(pty, side);
    let flush = pipe.and_then(|pipe| {
        let typed = pipe.flow.sources(&read.call).next();
        match typed {
            Some(write) => carrier(pipe, write, Some(read.call.end)),
            // The terminal itself is not traced.
            None => {
                let since = awake_for(history, &read.call);
                pipe.flush_before(read.call.end)
                    .filter(|f| f.at.ts >= since)
            }
        }
    });
    let mut way = match flush {
        Some(flush) => {
            let queued = if flush.queued == 0 {
                flush.started
            } else {
                flush.queued
            };
            let mut way = Way::begin(queued.min(read.call.end));
            let until = arrival(history, (pty, side), flush, &read.call);
            way.flush(LinkKind::TerminalInputFlush, flush, until);
            way
        }
        None => Way::begin(awake_for(history, &read.call)),
    };
    way.thread(LinkKind::ClientRead, who(read), read.call.end);
    way
}

/// The way from the key, through a client, to when the server was woken by what the client sent.
fn from_client<'h>(history: &'h History, conn: u64, found: &Found, write: &Call) -> Way<'h> {
    let receive = &found.act.call;
    let flow: Option<&Flow> = history.conn(conn).and_then(|c| c.received_by(receive.pid));
    let sends: Vec<&Call> = flow
        .map(|f| f.sources(receive).collect())
        .unwrap_or_default();
    // One receive can have brought several keys: they are written in their order.
    let written = earlier_inputs(history, write, receive.end);
    let Some(send) = sends.get(written.min(sends.len().saturating_sub(1))) else {
        return Way::begin(awake_for(history, receive));
    };
    let at = (send.pid, send.tid, send.begin);
    let key = threads::cause(history, at, &|a: &Act| {
        matches!(a.deed, Deed::Read(_, Side::Slave))
    });
    let mut way = match &key {
        Some(key) => {
            let mut way = from_terminal(history, &key.act);
            way.threads(LinkKind::ClientSend, &key.steps);
            way.exact &= key.exact;
            way
        }
        None => Way::begin(send.begin),
    };
    way.exact &= written == 0 || sends.len() == 1;
    let until = woken(history, receive, send.tid, send.begin, receive.end);
    let until = until.unwrap_or(send.end.min(receive.end));
    // Its own time ends where the server's begins, though the call may return later.
    way.thread(LinkKind::ClientSend, (send.pid, send.tid), until);
    way
}

/// How often this thread has written to a pane since then.
fn earlier_inputs(history: &History, write: &Call, since: u64) -> usize {
    let Some(thread) = history.thread(write.tid) else {
        return 0;
    };
    let acts = thread
        .acts_back_from(write.begin)
        .take_while(|a| a.call.begin >= since);
    acts.filter(|a| matches!(a.deed, Deed::Write(_, Side::Master)))
        .count()
}
