//! From a ring's record to an [`Event`]. Unknown and torn records are told apart from known ones and counted, never guessed at.

use probe_ebpf::events;

use super::event::{
    At, Event, Flush, Hop, Io, Off, Placement, ShortBlame, ShortCulprit, SleptIn, Sock, Task, Wake,
};
use super::raw::{self, Record};
use crate::stats::{PtyId, SchedClass, Side, ThreadStat, comm};

fn at(h: &events::ev_header) -> At {
    At {
        ts: h.ts,
        pid: h.tgid,
        tid: h.tid,
        cpu: h.cpu,
    }
}

fn placement(p: &events::placement) -> Placement {
    let in_autogroup = p.autogroup_nice != events::AUTOGROUP_NONE as i32;
    Placement {
        class: SchedClass::from(&p.sched),
        slice_us: p.slice_us,
        uclamp: (p.uclamp_min, p.uclamp_max),
        autogroup_nice: in_autogroup.then_some(p.autogroup_nice),
        cgroup: p.cgroup,
    }
}

/// A record that ends with a [`events::short_blame`], of which the culprits there are were told.
fn blamed<T: Record>(bytes: &[u8]) -> Option<T> {
    let culprit = size_of::<events::short_culprit>();
    let most = events::SHORT_CULPRITS as usize * culprit;
    let least = size_of::<T>() - most;
    let told = bytes.len().checked_sub(least)?.min(most);
    (told % culprit == 0).then(|| raw::read_short(bytes, least))?
}

fn short_blame(b: &events::short_blame) -> ShortBlame {
    let named = b.culprits.iter().filter(|c| c.ns != 0);
    let mut culprits: Vec<_> = named
        .map(|c| ShortCulprit {
            name: comm(&c.comm),
            pid: c.pid,
            own: c.own != 0,
            ns: c.ns,
            class: SchedClass::from(&c.sched),
            cgroup: c.cgroup,
        })
        .collect();
    culprits.sort_by_key(|c| std::cmp::Reverse(c.ns));
    ShortBlame {
        culprits,
        idle_ns: b.idle_ns,
        other_ns: b.other_ns,
        unknown_ns: b.unknown_ns,
    }
}

fn off(e: &events::ev_off) -> Off {
    let was = |bit| e.left_in & bit != 0;
    let flush = PtyId::from(e.woken_pty);
    let none = flush.devpts == 0 && flush.index == 0;
    Off {
        at: at(&e.h),
        left: e.left,
        runnable: e.runnable,
        throttled_ns: e.throttled_ns,
        interrupt_ns: e.interrupt_ns,
        wake: match e.wake {
            events::WAKE_PREEMPTED => Wake::Preempted,
            events::WAKE_TASK => Wake::Task {
                pid: e.waker_tgid,
                tid: e.waker_tid,
            },
            events::WAKE_INTERRUPT => Wake::Interrupt,
            events::WAKE_NEW => Wake::New,
            _ => Wake::Unseen,
        },
        woken_by_flush: Side::from_raw(e.woken_side)
            .filter(|_| !none)
            .map(|side| (flush, side)),
        slept_in: SleptIn {
            syscall: was(events::LEFT_SYSCALL).then_some(e.nr),
            fault: was(events::LEFT_FAULT),
            disk: was(events::LEFT_DISK),
            iowait: was(events::LEFT_IOWAIT),
        },
        major_faults: e.major_faults,
        migrations: e.migrations,
        place: placement(&e.place),
        blame: short_blame(&e.blame),
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
                let e: events::ev_flush = blamed(bytes)?;
                Some(Event::Flush(Flush {
                    at: at(&e.h),
                    pty: e.pty.into(),
                    towards: Side::from_raw(e.side)?,
                    queued_by: e.queued_by,
                    queued_by_tid: e.queued_by_tid,
                    queued: e.queued,
                    started: e.started,
                    mute: e.mute != 0,
                    place: placement(&e.place),
                    blame: short_blame(&e.blame),
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
            events::EV_OFF => Some(Event::Off(Box::new(off(&blamed(bytes)?)))),
            events::EV_SOCK => {
                let e: events::ev_sock = raw::read(bytes)?;
                Some(Event::Sock(Sock {
                    at: at(&e.h),
                    conn: e.conn,
                    send: e.op == events::IO_WRITE,
                    result: e.ret,
                    duration_ns: e.duration_ns,
                    peer: e.peer_tgid,
                }))
            }
            _ => None,
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

    #[test]
    fn a_blame_has_as_many_culprits_as_were_told() {
        let mut e = events::ev_off::default();
        e.h.type_ = events::EV_OFF;
        for (nth, culprit) in e.blame.culprits.iter_mut().enumerate() {
            culprit.ns = 10 - nth as u64;
        }
        let (bytes, culprit) = (bytes_of(&e), size_of::<events::short_culprit>());
        for missing in 0..=e.blame.culprits.len() {
            let told = &bytes[..bytes.len() - missing * culprit];
            let Some(Event::Off(off)) = Event::decode(told) else {
                panic!("{missing} missing");
            };
            let left: Vec<u64> = off.blame.culprits.iter().map(|c| c.ns).collect();
            assert_eq!(left, [10, 9, 8][..3 - missing]);
            assert_eq!(Event::decode(&told[..told.len() - 1]), None, "torn");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_do_not(mut bytes in proptest::collection::vec(any::<u8>(), 0..4000), kind in 0u32..12) {
            if bytes.len() >= 12 {
                bytes[8..12].copy_from_slice(&kind.to_ne_bytes());
            }
            let _ = Event::decode(&bytes);
        }
    }
}
