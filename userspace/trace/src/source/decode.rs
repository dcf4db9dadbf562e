//! From a ring's record to an [`Event`]. Unknown and torn records are told apart from known ones and counted, never guessed at.

use probe_ebpf::events;

use super::raw;
use crate::stats::{PtyId, Side, ThreadStat, comm};

/// Something that happened in a traced process.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A traced thread ended; its figures, whole.
    Exit {
        /// The thread.
        thread: Box<ThreadStat>,
        /// It was the last of its process; then the status is the process's, as wait(2) has it.
        last: bool,
    },
    /// A process became another program.
    Exec(Task),
    /// A traced process forked: the child.
    Fork(Task),
    /// A read or write on a traced PTY.
    Io(Io),
    /// Flush work of a traced PTY ended.
    Flush(Flush),
    /// A USDT probe fired.
    Hop(Hop),
}

/// When and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// CLOCK_MONOTONIC, ns.
    pub ts: u64,
    /// Process; of a flush the kworker.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU.
    pub cpu: u32,
}

/// A process that was forked, or that called exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The process.
    pub at: At,
    /// Of a fork: the parent.
    pub parent: u32,
    /// `events::REL_*`.
    pub relation: u32,
    /// Its name.
    pub comm: String,
}

/// A read or write on a PTY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// Who, and when it ended.
    pub at: At,
    /// Which PTY.
    pub pty: PtyId,
    /// Which end.
    pub side: Side,
    /// A write, else a read.
    pub write: bool,
    /// Bytes, or a negative errno.
    pub result: i64,
    /// Blocking included.
    pub duration_ns: u64,
}

/// Flush work, done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    /// The kworker, and when it ended.
    pub at: At,
    /// Which PTY.
    pub pty: PtyId,
    /// The end that the bytes go to.
    pub towards: Side,
    /// Process that queued it.
    pub queued_by: u32,
    /// When, ns; 0 when it was queued before tracing began.
    pub queued: u64,
    /// When a kworker began, ns.
    pub started: u64,
}

/// A USDT probe that fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Who and when.
    pub at: At,
    /// The id that it was attached with.
    pub hop: u32,
    /// How many of `args` the probe has.
    pub nargs: u32,
    /// Value, pane or stream, sequence number.
    pub args: [u64; 3],
}

fn at(h: &events::ev_header) -> At {
    At {
        ts: h.ts,
        pid: h.tgid,
        tid: h.tid,
        cpu: h.cpu,
    }
}

impl Event {
    /// Decodes one record; `None` for a torn or unknown one.
    pub fn decode(bytes: &[u8]) -> Option<Event> {
        let header: events::ev_header = raw::read(bytes)?;
        match header.type_ {
            events::EV_EXIT => {
                let e: events::ev_exit = raw::read(bytes)?;
                let mut thread = ThreadStat::from(&e.stats);
                thread.exited = true;
                thread.ended_at = e.h.ts;
                Some(Event::Exit {
                    thread: Box::new(thread),
                    last: e.group_dead != 0,
                })
            }
            events::EV_EXEC | events::EV_FORK => {
                let e: events::ev_task = raw::read(bytes)?;
                let task = Task {
                    at: at(&e.h),
                    parent: e.parent,
                    relation: e.relation,
                    comm: comm(&e.comm),
                };
                Some(if header.type_ == events::EV_EXEC {
                    Event::Exec(task)
                } else {
                    Event::Fork(task)
                })
            }
            events::EV_IO => {
                let e: events::ev_io = raw::read(bytes)?;
                Some(Event::Io(Io {
                    at: at(&e.h),
                    pty: e.pty.into(),
                    side: Side::from_raw(e.side)?,
                    write: e.op == events::IO_WRITE,
                    result: e.ret,
                    duration_ns: e.duration_ns,
                }))
            }
            events::EV_FLUSH => {
                let e: events::ev_flush = raw::read(bytes)?;
                Some(Event::Flush(Flush {
                    at: at(&e.h),
                    pty: e.pty.into(),
                    towards: Side::from_raw(e.side)?,
                    queued_by: e.queued_by,
                    queued: e.queued,
                    started: e.started,
                }))
            }
            events::EV_HOP => {
                let e: events::ev_hop = raw::read(bytes)?;
                Some(Event::Hop(Hop {
                    at: at(&e.h),
                    hop: e.hop,
                    nargs: e.nargs.min(3),
                    args: e.args,
                }))
            }
            _ => None,
        }
    }

    /// When it happened, ns of CLOCK_MONOTONIC.
    pub fn ts(&self) -> u64 {
        match self {
            Event::Exit { thread, .. } => thread.ended_at,
            Event::Exec(t) | Event::Fork(t) => t.at.ts,
            Event::Io(io) => io.at.ts,
            Event::Flush(f) => f.at.ts,
            Event::Hop(h) => h.at.ts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of<T>(value: &T) -> Vec<u8> {
        // SAFETY: reading the bytes of a plain struct that lives for the call.
        unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>())
        }
        .to_vec()
    }

    #[test]
    fn a_hop_comes_out_as_it_went_in() {
        let mut e = events::ev_hop::default();
        e.h.type_ = events::EV_HOP;
        (e.h.ts, e.h.tid, e.h.tgid, e.h.cpu) = (5, 6, 7, 1);
        (e.hop, e.nargs, e.args) = (3, 9, [10, 11, 12]);
        let bytes = bytes_of(&e);
        assert_eq!(
            Event::decode(&bytes),
            Some(Event::Hop(Hop {
                at: At {
                    ts: 5,
                    pid: 7,
                    tid: 6,
                    cpu: 1
                },
                hop: 3,
                nargs: 3,
                args: [10, 11, 12],
            }))
        );
        assert_eq!(Event::decode(&bytes[..bytes.len() - 1]), None, "torn");
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_do_not(mut bytes in proptest::collection::vec(any::<u8>(), 0..4000), kind in 0u32..9) {
            if bytes.len() >= 12 {
                bytes[8..12].copy_from_slice(&kind.to_ne_bytes());
            }
            let _ = Event::decode(&bytes);
        }
    }
}
