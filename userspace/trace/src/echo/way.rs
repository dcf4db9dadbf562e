//! The way of one input as it is found out, and the chain that is made of it.

use super::history::{Act, History};
use super::model::{Actor, Chain, End, Link, LinkKind};
use super::threads::Step;
use super::timeline::Spent;
use crate::source::event::Flush;

/// Who has a leg of the way.
#[derive(Debug, Clone, Copy)]
pub(super) enum Who<'h> {
    /// A thread.
    Thread { pid: u32, tid: u32 },
    /// The kworker of this flush work, and the queue that it stood in before.
    Flush(&'h Flush),
}

/// One leg: from where the one before ended.
#[derive(Debug, Clone, Copy)]
struct Leg<'h> {
    kind: LinkKind,
    who: Who<'h>,
    until: u64,
    /// The thread itself did something at the end, so that it was on a CPU.
    seen: bool,
}

/// What is worth comparing with what the program itself tells.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    /// The write to the master.
    pub(super) input: Option<Act>,
    /// The read from the master.
    pub(super) read: Option<Act>,
    /// The send to the client.
    pub(super) sent: Option<Act>,
    /// The client's write to its terminal.
    pub(super) shown: Option<Act>,
}

/// As far as it is known.
#[derive(Debug)]
pub(super) struct Way<'h> {
    /// When the first leg begins.
    pub(super) begin: u64,
    legs: Vec<Leg<'h>>,
    /// How it ends if nothing more comes.
    pub(super) end: End,
    /// It has ended, at that time.
    pub(super) complete: Option<u64>,
    /// Nothing had to be concluded from time alone.
    pub(super) exact: bool,
    pub(super) marks: Marks,
}

impl<'h> Way<'h> {
    pub(super) fn begin(begin: u64) -> Way<'h> {
        Way {
            begin,
            legs: Vec::new(),
            end: End::Unread,
            complete: None,
            exact: true,
            marks: Marks::default(),
        }
    }

    /// Where it has got to.
    fn at(&self) -> u64 {
        self.legs.last().map_or(self.begin, |l| l.until)
    }

    fn push(&mut self, kind: LinkKind, who: Who<'h>, until: u64, seen: bool) {
        let until = until.max(self.at());
        self.legs.push(Leg {
            kind,
            who,
            until,
            seen,
        });
    }

    /// A leg of a thread, at whose end that thread does something.
    pub(super) fn thread(&mut self, kind: LinkKind, (pid, tid): (u32, u32), until: u64) {
        let same = |l: &&mut Leg<'_>| {
            l.kind == kind && matches!(l.who, Who::Thread { tid: t, .. } if t == tid)
        };
        match self.legs.last_mut().filter(same) {
            Some(leg) => leg.until = leg.until.max(until),
            None => self.push(kind, Who::Thread { pid, tid }, until, true),
        }
    }

    /// A leg of several threads in turn. Each one but the last is on a CPU when it wakes the next.
    pub(super) fn threads(&mut self, kind: LinkKind, steps: &[Step]) {
        for (i, step) in steps.iter().enumerate() {
            // Who passed it on in no time had no part of its own.
            if i + 1 == steps.len() || step.until > self.at() {
                self.thread(kind, (step.pid, step.tid), step.until);
            }
        }
    }

    /// A leg of flush work.
    pub(super) fn flush(&mut self, kind: LinkKind, flush: &'h Flush, until: u64) {
        self.push(kind, Who::Flush(flush), until, true);
    }

    /// A leg that has not ended.
    pub(super) fn pending(&mut self, kind: LinkKind, (pid, tid): (u32, u32), until: u64) {
        self.push(kind, Who::Thread { pid, tid }, until, false);
    }

    /// It has ended so.
    pub(super) fn ends(&mut self, end: End) {
        self.end = end;
        self.complete = Some(self.at());
    }

    /// The chain: `base` with the links and what they tell.
    pub(super) fn chain(&self, history: &History, base: Chain) -> Chain {
        let mut at = self.begin;
        let links = self.legs.iter().map(|leg| {
            let link = link(history, leg, at);
            at = leg.until;
            link
        });
        let links = links.collect();
        Chain {
            begin: self.begin,
            links,
            inexact: base.inexact || !self.exact,
            ..base
        }
    }
}

fn link(history: &History, leg: &Leg<'_>, from: u64) -> Link {
    let (spent, pid, tid, kworker) = match leg.who {
        Who::Thread { pid, tid } => {
            let seen = if leg.seen { leg.until } else { 0 };
            let time = history.thread(tid).map(|t| &t.time);
            let spent = match time {
                Some(time) => time.spent(from, leg.until, seen, &history.gaps),
                None => super::timeline::Timeline::default().spent(from, leg.until, seen, &[]),
            };
            (spent, pid, tid, false)
        }
        Who::Flush(flush) => (
            flushed(flush, from, leg.until),
            flush.at.pid,
            flush.at.tid,
            true,
        ),
    };
    Link {
        kind: leg.kind,
        actor: Actor {
            pid,
            tid,
            kworker,
            place: spent.place,
        },
        from,
        until: leg.until,
        parts: spent.parts,
        ran_instead: spent.ran_instead,
        blocked_on: spent.blocked_on,
        major_faults: spent.major_faults,
    }
}

/// Flush work: waiting for a kworker to begin it, then at work.
fn flushed(flush: &Flush, from: u64, until: u64) -> Spent {
    let mut spent = Spent {
        place: flush.place,
        ..Spent::default()
    };
    let waited = flush.started.clamp(from, until) - from;
    spent.parts.on_cpu_ns = until - from - waited;
    if flush.queued == 0 {
        spent.parts.unknown_ns = waited;
    } else {
        spent.parts.run_queue_ns = waited;
        let whole = flush.started.saturating_sub(flush.queued);
        spent.blame(&flush.blame, waited, whole);
    }
    spent.finish();
    spent
}
