//! From a write to a pane's master to the answer on the client's terminal.

use super::flow::{Call, Taken};
use super::history::{Act, Deed, History, Pipe};
use super::inbound::{Origin, arrival, begin, carrier};
use super::model::{End, LinkKind};
use super::threads::{Effect, Found, Search, woken};
use super::way::Way;
use crate::source::event::Flush;
use crate::stats::{PtyId, Side};

/// One input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input {
    pub(super) id: u64,
    pub(super) pty: PtyId,
    pub(super) write: Call,
    /// Not looked at before, ns: one that has been waited for in vain is waited for a little longer.
    pub(super) next: u64,
}

/// Who is a client of whom.
pub(super) trait Clients {
    /// Whether what this process sends on that connection goes to a client.
    fn is_client(&self, pid: u32, conn: u64) -> bool;
    /// Whether this process has terminals of its own, or clients, that an answer goes to.
    fn has_clients(&self, pid: u32) -> bool;
    /// Whether the process is one of the target's, so that a client that has not been seen to
    /// receive will be.
    fn is_traced(&self, pid: u32) -> bool;
}

/// Follows one input as far as it is known.
pub(super) fn follow<'h>(
    search: Search<'h>,
    input: &Input,
    clients: &impl Clients,
) -> (Way<'h>, Origin) {
    let (mut way, origin) = begin(search.history, input.pty, &input.write);
    way.marks.input = Some(Act {
        deed: Deed::Write(input.pty, Side::Master),
        call: input.write,
    });
    let shown = match origin {
        Origin::Unknown => clients.has_clients(input.write.pid),
        Origin::Terminal => true,
        Origin::Client(conn) => {
            clients.is_client(input.write.pid, conn) || clients.has_clients(input.write.pid)
        }
    };
    let mut out = Outbound {
        search,
        input,
        way: &mut way,
        bytes: 0,
    };
    if let Some(read) = out.through_program() {
        if shown {
            out.through_client(&read, clients);
        } else {
            let bytes = out.bytes;
            out.way.ends(End::Echoed { bytes });
        }
    }
    (way, origin)
}

struct Outbound<'h, 'w> {
    search: Search<'h>,
    input: &'w Input,
    way: &'w mut Way<'h>,
    /// Of the answer's first write; of the kernel's own echo as many as the read gave.
    bytes: u64,
}

/// When flush work stood in the queue for a write: not before the write.
fn queued(flush: &Flush, write: &Call) -> u64 {
    let at = if flush.queued == 0 {
        flush.started
    } else {
        flush.queued
    };
    at.clamp(write.begin, write.end.max(write.begin))
}

impl<'h> Outbound<'h, '_> {
    fn history(&self) -> &'h History {
        self.search.history
    }

    fn pipe(&self, towards: Side) -> Option<&'h Pipe> {
        self.history().pipe(self.input.pty, towards)
    }

    fn in_time(&self, call: &Call) -> bool {
        call.end <= self.search.deadline
    }

    /// Through the program to the server's read; `None` where it does not get so far.
    fn through_program(&mut self) -> Option<Act> {
        let (pty, write) = (self.input.pty, &self.input.write);
        let pipe = self.pipe(Side::Slave)?;
        let fate = pipe.flow.fate(write);
        let mut read = match fate {
            Taken::By(read) if self.in_time(&read) => Some(read),
            _ => None,
        };
        let flush = carrier(pipe, write, read.map(|r| r.end));
        if fate == Taken::Never {
            read = flush.and_then(|f| self.unseen_read(pipe, f));
        }
        let at = flush.map_or(write.end, |f| queued(f, write));
        self.way
            .thread(LinkKind::MasterWrite, (write.pid, write.tid), at);
        if let Some(flush) = flush
            && let Some(echo) = self.kernel_echo(flush)
        {
            self.way.flush(LinkKind::InputFlush, flush, flush.started);
            self.way.flush(LinkKind::ChildWrite, flush, echo.queued);
            self.way.end = End::Undelivered;
            return self.output(echo, None);
        }
        let Some(read) = read else {
            self.unread(fate, flush);
            return None;
        };
        let read = Act {
            deed: Deed::Read(pty, Side::Slave),
            call: read,
        };
        if let Some(flush) = flush {
            let until = arrival(self.history(), (pty, Side::Slave), flush, &read.call);
            self.way.flush(LinkKind::InputFlush, flush, until);
        }
        let child = (read.call.pid, read.call.tid);
        self.way.thread(LinkKind::ChildRead, child, read.call.end);
        self.way.end = End::Late;
        match self.search.answer(&read, pty) {
            Effect::Found(found) => self.answered(&found),
            Effect::CameBack(at) => {
                self.way.pending(LinkKind::Child, child, at);
                self.way.ends(End::Silent);
                None
            }
            Effect::Nothing => {
                self.way
                    .pending(LinkKind::Child, child, self.search.deadline);
                None
            }
        }
    }

    /// The read that no record tells of, by whom the flush work woke.
    fn unseen_read(&mut self, pipe: &Pipe, flush: &Flush) -> Option<Call> {
        let read = pipe.unseen_read(flush, self.search.deadline);
        self.way.exact &= read.is_none();
        read
    }

    /// Nobody has read it.
    fn unread(&mut self, fate: Taken, flush: Option<&'h Flush>) {
        if let Some(flush) = flush {
            self.way.flush(LinkKind::InputFlush, flush, flush.at.ts);
        }
        if fate == Taken::Never {
            self.way.ends(End::Silent);
            return;
        }
        if flush.is_some_and(|f| f.mute) {
            self.way.end = End::Silent;
            return;
        }
        let reader = self.pipe(Side::Slave).and_then(|p| p.flow.last_taker());
        let deadline = self.search.deadline;
        self.way
            .pending(LinkKind::ChildRead, reader.unwrap_or_default(), deadline);
    }

    /// Flush work that the kworker queued towards the server while it brought the input to the
    /// program: the line discipline's own echo.
    fn kernel_echo(&self, flush: &Flush) -> Option<&'h Flush> {
        let after = self.input.write.begin.max(flush.started);
        let mut later = self.pipe(Side::Master)?.flushes_from(after);
        let by_it = |f: &&Flush| {
            f.queued_by_tid == flush.at.tid && after <= f.queued && f.queued <= flush.at.ts
        };
        later
            .by_ref()
            .take(8)
            .find(by_it)
            .filter(|f| f.started <= self.search.deadline)
    }

    /// The program has written.
    fn answered(&mut self, found: &Found) -> Option<Act> {
        self.way.threads(LinkKind::Child, &found.steps);
        self.way.exact &= found.exact;
        self.way.end = End::Undelivered;
        let write = found.act.call;
        self.bytes = write.bytes();
        let pipe = self.pipe(Side::Master)?;
        let read = match pipe.flow.fate(&write) {
            Taken::By(read) if self.in_time(&read) => Some(read),
            _ => None,
        };
        let flush = carrier(pipe, &write, read.map(|r| r.end));
        let at = flush.map_or(write.end, |f| queued(f, &write));
        self.way
            .thread(LinkKind::ChildWrite, (write.pid, write.tid), at);
        match flush {
            Some(flush) => self.output(flush, Some(&write)),
            None => self.master_read(read, pipe.flow.was_behind(&write)),
        }
    }

    /// The flush work towards the server and its read: of the answer's first byte, or, of the
    /// kernel's own echo, the first since.
    fn output(&mut self, flush: &'h Flush, write: Option<&Call>) -> Option<Act> {
        let pipe = self.pipe(Side::Master)?;
        let (read, behind) = match write {
            Some(write) => match pipe.flow.fate(write) {
                Taken::By(read) => (Some(read), pipe.flow.was_behind(write)),
                Taken::Never => (self.unseen_read(pipe, flush), false),
                Taken::NotYet => (None, pipe.flow.was_behind(write)),
            },
            None => pipe.flow.first_after(flush.started),
        };
        let read = read.filter(|r| self.in_time(r));
        let until = match &read {
            Some(read) => arrival(self.history(), (self.input.pty, Side::Master), flush, read),
            None => flush.at.ts,
        };
        self.way.flush(LinkKind::OutputFlush, flush, until);
        self.master_read(read, behind)
    }

    fn master_read(&mut self, read: Option<Call>, behind: bool) -> Option<Act> {
        self.way.exact &= !behind;
        let Some(call) = read else {
            let reader = self.pipe(Side::Master).and_then(|p| p.flow.last_taker());
            let reader = reader.unwrap_or((self.input.write.pid, 0));
            self.way
                .pending(LinkKind::MasterRead, reader, self.search.deadline);
            return None;
        };
        if self.bytes == 0 {
            self.bytes = call.bytes();
        }
        self.way
            .thread(LinkKind::MasterRead, (call.pid, call.tid), call.end);
        let read = Act {
            deed: Deed::Read(self.input.pty, Side::Master),
            call,
        };
        self.way.marks.read = Some(read);
        Some(read)
    }

    /// From the server's read to the client's terminal.
    fn through_client(&mut self, read: &Act, clients: &impl Clients) {
        let (pty, server) = (self.input.pty, read.call.pid);
        let out = |a: &Act| match a.deed {
            Deed::Write(p, Side::Slave) => p != pty,
            Deed::Send(conn) => clients.is_client(server, conn),
            _ => false,
        };
        let Effect::Found(found) = self.search.within_process(read, out) else {
            let reader = (server, read.call.tid);
            self.way
                .pending(LinkKind::ServerOutput, reader, self.search.deadline);
            return;
        };
        self.way.threads(LinkKind::ServerOutput, &found.steps);
        self.way.exact &= found.exact;
        match found.act.deed {
            Deed::Send(conn) => self.sent(conn, &found.act, clients),
            _ => self.shown(&found.act),
        }
    }

    fn shown(&mut self, write: &Act) {
        let who = (write.call.pid, write.call.tid);
        self.way.thread(LinkKind::ClientWrite, who, write.call.end);
        self.way.marks.shown = Some(*write);
        let bytes = self.bytes;
        self.way.ends(End::Echoed { bytes });
    }

    /// The server has sent it to a client.
    fn sent(&mut self, conn: u64, send: &Act, clients: &impl Clients) {
        self.way.marks.sent = Some(*send);
        let sender = (send.call.pid, send.call.tid);
        let known = self.history().conn(conn);
        let flow = known.and_then(|c| c.sent_by(send.call.pid));
        let peer = known.and_then(|c| c.other(send.call.pid));
        let traced =
            peer.is_some_and(|p| clients.is_traced(p)) || flow.is_some_and(|f| f.is_read());
        let receive = match flow.map(|f| f.fate(&send.call)) {
            Some(Taken::By(receive)) if self.in_time(&receive) => receive,
            fate if !traced || fate == Some(Taken::Never) => {
                // Nobody tells what the client does with it, or did before it was traced.
                self.way
                    .thread(LinkKind::ServerOutput, sender, send.call.end);
                let bytes = self.bytes;
                self.way.ends(End::Echoed { bytes });
                return;
            }
            _ => {
                self.way
                    .thread(LinkKind::ServerOutput, sender, send.call.end);
                let client = (peer.unwrap_or(0), 0);
                self.way
                    .pending(LinkKind::ClientReceive, client, self.search.deadline);
                return;
            }
        };
        let woken = woken(
            self.history(),
            &receive,
            sender.1,
            send.call.begin,
            receive.end,
        );
        let until = woken.unwrap_or(send.call.end.min(receive.end));
        self.way.thread(LinkKind::ServerOutput, sender, until);
        let client = (receive.pid, receive.tid);
        self.way
            .thread(LinkKind::ClientReceive, client, receive.end);
        let receive = Act {
            deed: Deed::Receive(conn),
            call: receive,
        };
        let out = |a: &Act| matches!(a.deed, Deed::Write(_, Side::Slave));
        match self.search.within_process(&receive, out) {
            Effect::Found(found) => {
                self.way.threads(LinkKind::ClientWrite, &found.steps);
                self.way.exact &= found.exact;
                self.shown(&found.act);
            }
            _ => self
                .way
                .pending(LinkKind::ClientWrite, client, self.search.deadline),
        }
    }
}
