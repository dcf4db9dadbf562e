//! Events as rows, and back without loss.

use phux_recording::{self as rows, Name, Names, Row};

use super::Put;
use crate::source::Event;
use crate::source::event::{
    At, Flush, Hop, Io, Off, Placement, ShortBlame, ShortCulprit, SleptIn, Sock, Wake,
};
use crate::stats::{PtyId, SchedClass, Side, ThreadStat};

/// No autogroup.
const NO_AUTOGROUP: i32 = -128;

/// Gives the rows of an event. Forks and execs are told, and not needed again. `hop` names a hop.
pub fn write(event: &Event, hop: &str, names: &mut Names, out: &mut impl Put) {
    match event {
        Event::Io(io) => {
            let (ts, dur) = span(io.at.ts, io.duration_ns);
            out.put(rows::PtyIo {
                ts,
                dur,
                pid: io.at.pid,
                tid: io.at.tid,
                cpu: io.at.cpu,
                devpts: io.pty.devpts,
                pty: io.pty.index,
                master: io.side == Side::Master,
                write: io.write,
                ret: io.result,
                ..Default::default()
            });
        }
        Event::Flush(f) => flush(f, names, out),
        Event::Off(o) => off(o, names, out),
        Event::Sock(s) => {
            let (ts, dur) = span(s.at.ts, s.duration_ns);
            out.put(rows::Sock {
                ts,
                dur,
                pid: s.at.pid,
                tid: s.at.tid,
                cpu: s.at.cpu,
                conn: s.conn,
                send: s.send,
                ret: s.result,
                peer: s.peer,
                ..Default::default()
            });
        }
        Event::Hop(h) => out.put(rows::Hop {
            ts: h.at.ts,
            pid: h.at.pid,
            tid: h.at.tid,
            cpu: h.at.cpu,
            hop: h.hop,
            name: names.get(hop),
            nargs: u8::try_from(h.nargs).unwrap_or(u8::MAX),
            arg0: h.args[0],
            arg1: h.args[1],
            arg2: h.args[2],
            ..Default::default()
        }),
        Event::Exit { thread, last } => out.put(rows::Task {
            ts: thread.ended_at,
            kind: Name::fixed("exit"),
            pid: thread.pid,
            tid: thread.tid,
            relation: thread.relation,
            name: names.get(&thread.comm),
            first_tid: thread.first_tid,
            start_time: thread.start_time,
            last: *last,
            exit_code: thread.exit_code,
            ..Default::default()
        }),
        Event::Fork(t) | Event::Exec(t) => out.put(rows::Task {
            ts: t.at.ts,
            kind: Name::fixed(match event {
                Event::Fork(_) => "fork",
                _ => "exec",
            }),
            pid: t.at.pid,
            tid: t.at.tid,
            cpu: t.at.cpu,
            parent: t.parent,
            relation: t.relation,
            name: names.get(&t.comm),
            ..Default::default()
        }),
    }
}

/// Beginning and length of what ended at `end` after `duration`.
fn span(end: u64, duration: u64) -> (u64, u64) {
    let ts = end.saturating_sub(duration);
    (ts, end - ts)
}

fn flush(f: &Flush, names: &mut Names, out: &mut impl Put) {
    rivals(f.at, &f.blame, names, out);
    let (ts, dur) = span(f.at.ts, f.at.ts.saturating_sub(f.started));
    out.put(rows::Flush {
        ts,
        dur,
        queued: f.queued,
        queued_by: f.queued_by,
        queued_by_tid: f.queued_by_tid,
        pid: f.at.pid,
        tid: f.at.tid,
        cpu: f.at.cpu,
        devpts: f.pty.devpts,
        pty: f.pty.index,
        to_master: f.towards == Side::Master,
        mute: f.mute,
        ..Waited::of(&f.place, &f.blame)
    });
}

fn off(o: &Off, names: &mut Names, out: &mut impl Put) {
    rivals(o.at, &o.blame, names, out);
    let began = if o.left == 0 { o.runnable } else { o.left };
    let (ts, dur) = span(o.at.ts, o.at.ts.saturating_sub(began));
    let (wake, waker_pid, waker_tid) = match o.wake {
        Wake::Preempted => ("preempted", 0, 0),
        Wake::Task { pid, tid } => ("task", pid, tid),
        Wake::Interrupt => ("interrupt", 0, 0),
        Wake::New => ("new", 0, 0),
        Wake::Unseen => ("unseen", 0, 0),
    };
    let flush = o.woken_by_flush;
    out.put(rows::Off {
        ts,
        dur,
        tid: o.at.tid,
        pid: o.at.pid,
        cpu: o.at.cpu,
        began_unseen: o.left == 0,
        runnable: o.runnable,
        throttled_ns: o.throttled_ns,
        interrupt_ns: o.interrupt_ns,
        wake: Name::fixed(wake),
        waker_pid,
        waker_tid,
        by_flush: flush.is_some(),
        devpts: flush.map_or(0, |(pty, _)| pty.devpts),
        pty: flush.map_or(0, |(pty, _)| pty.index),
        to_master: flush.is_some_and(|(_, side)| side == Side::Master),
        syscall: o.slept_in.syscall.unwrap_or(-1),
        fault: o.slept_in.fault,
        disk: o.slept_in.disk,
        iowait: o.slept_in.iowait,
        major_faults: o.major_faults,
        migrations: o.migrations,
        ..Waited::of(&o.place, &o.blame)
    });
}

/// A row of who waited for a CPU: where it stood, and who had the CPU.
trait Waited: Sized {
    fn of(place: &Placement, blame: &ShortBlame) -> Self;
    fn place(&self) -> Placement;
    /// The culprits stand in rows of their own.
    fn blame(&self, culprits: Vec<ShortCulprit>) -> ShortBlame;
}

macro_rules! waited {
    ($($row:ty),*) => { $(
        impl Waited for $row {
            fn of(place: &Placement, blame: &ShortBlame) -> Self {
                Self {
                    policy: place.class.policy,
                    nice: place.class.nice,
                    rt_priority: place.class.rt_priority,
                    slice_us: place.slice_us,
                    uclamp_min: place.uclamp.0,
                    uclamp_max: place.uclamp.1,
                    autogroup_nice: place.autogroup_nice.unwrap_or(NO_AUTOGROUP),
                    cgroup: place.cgroup,
                    idle_ns: blame.idle_ns,
                    other_ns: blame.other_ns,
                    unknown_ns: blame.unknown_ns,
                    ..Default::default()
                }
            }

            fn place(&self) -> Placement {
                Placement {
                    class: class(self.policy, self.nice, self.rt_priority),
                    slice_us: self.slice_us,
                    uclamp: (self.uclamp_min, self.uclamp_max),
                    autogroup_nice: autogroup(self.autogroup_nice),
                    cgroup: self.cgroup,
                }
            }

            fn blame(&self, culprits: Vec<ShortCulprit>) -> ShortBlame {
                ShortBlame {
                    culprits,
                    idle_ns: self.idle_ns,
                    other_ns: self.other_ns,
                    unknown_ns: self.unknown_ns,
                }
            }
        }
    )* };
}

waited!(rows::Off, rows::Flush);

fn rivals(victim: At, blame: &ShortBlame, names: &mut Names, out: &mut impl Put) {
    for c in &blame.culprits {
        out.put(rows::Rival {
            ts: victim.ts,
            victim_tid: victim.tid,
            pid: c.pid,
            name: names.get(&c.name),
            own: c.own,
            ns: c.ns,
            policy: c.class.policy,
            nice: c.class.nice,
            rt_priority: c.class.rt_priority,
            cgroup: c.cgroup,
            ..Default::default()
        });
    }
}

/// Makes events of rows, in the order in which they were recorded.
#[derive(Debug, Default)]
pub struct Reader {
    rivals: Vec<rows::Rival>,
}

impl Reader {
    /// The event of a row; `None` for what is no event, or a part of the next one.
    pub fn read(&mut self, row: &Row) -> Option<Event> {
        let at = |ts, pid, tid, cpu| At { ts, pid, tid, cpu };
        Some(match row {
            Row::Rival(rival) => {
                self.rivals.push(rival.clone());
                return None;
            }
            Row::PtyIo(r) => Event::Io(Io {
                at: at(r.end(), r.pid, r.tid, r.cpu),
                pty: pty(r.devpts, r.pty),
                side: side(r.master),
                write: r.write,
                result: r.ret,
                duration_ns: r.dur,
            }),
            Row::Flush(r) => Event::Flush(Flush {
                at: at(r.end(), r.pid, r.tid, r.cpu),
                pty: pty(r.devpts, r.pty),
                towards: side(r.to_master),
                queued_by: r.queued_by,
                queued_by_tid: r.queued_by_tid,
                queued: r.queued,
                started: r.ts,
                mute: r.mute,
                place: r.place(),
                blame: r.blame(self.culprits(r.end(), r.tid)),
            }),
            Row::Off(r) => Event::Off(Box::new(self.off(r))),
            Row::Sock(r) => Event::Sock(Sock {
                at: at(r.end(), r.pid, r.tid, r.cpu),
                conn: r.conn,
                send: r.send,
                result: r.ret,
                duration_ns: r.dur,
                peer: r.peer,
            }),
            Row::Hop(r) => Event::Hop(Hop {
                at: at(r.ts, r.pid, r.tid, r.cpu),
                hop: r.hop,
                nargs: r.nargs.into(),
                args: [r.arg0, r.arg1, r.arg2],
            }),
            Row::Task(r) if &*r.kind == "exit" => Event::Exit {
                thread: Box::new(ThreadStat {
                    pid: r.pid,
                    tid: r.tid,
                    comm: r.name.to_string(),
                    relation: r.relation,
                    first_tid: r.first_tid,
                    start_time: r.start_time,
                    exited: true,
                    ended_at: r.ts,
                    exit_code: r.exit_code,
                    ..ThreadStat::default()
                }),
                last: r.last,
            },
            _ => return None,
        })
    }

    fn off(&mut self, r: &rows::Off) -> Off {
        Off {
            at: At {
                ts: r.end(),
                pid: r.pid,
                tid: r.tid,
                cpu: r.cpu,
            },
            left: if r.began_unseen { 0 } else { r.ts },
            runnable: r.runnable,
            throttled_ns: r.throttled_ns,
            interrupt_ns: r.interrupt_ns,
            wake: match &*r.wake {
                "preempted" => Wake::Preempted,
                "task" => Wake::Task {
                    pid: r.waker_pid,
                    tid: r.waker_tid,
                },
                "interrupt" => Wake::Interrupt,
                "new" => Wake::New,
                _ => Wake::Unseen,
            },
            woken_by_flush: r
                .by_flush
                .then(|| (pty(r.devpts, r.pty), side(r.to_master))),
            slept_in: SleptIn {
                syscall: (r.syscall >= 0).then_some(r.syscall),
                fault: r.fault,
                disk: r.disk,
                iowait: r.iowait,
            },
            major_faults: r.major_faults,
            migrations: r.migrations,
            place: r.place(),
            blame: r.blame(self.culprits(r.end(), r.tid)),
        }
    }

    /// Those that were recorded for this victim; others lost theirs (a flight recorder forgets by table).
    fn culprits(&mut self, ts: u64, tid: u32) -> Vec<ShortCulprit> {
        let of_victim = |r: &rows::Rival| r.ts == ts && r.victim_tid == tid;
        let rivals = self.rivals.drain(..).filter(of_victim);
        rivals
            .map(|r| ShortCulprit {
                name: r.name.to_string(),
                pid: r.pid,
                own: r.own,
                ns: r.ns,
                class: class(r.policy, r.nice, r.rt_priority),
                cgroup: r.cgroup,
            })
            .collect()
    }
}

pub(super) fn pty(devpts: u32, index: u32) -> PtyId {
    PtyId { devpts, index }
}

pub(super) fn side(master: bool) -> Side {
    if master { Side::Master } else { Side::Slave }
}

pub(super) fn class(policy: u8, nice: i8, rt_priority: u8) -> SchedClass {
    SchedClass {
        policy,
        nice,
        rt_priority,
    }
}

fn autogroup(nice: i32) -> Option<i32> {
    (nice != NO_AUTOGROUP).then_some(nice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phux_recording::Record;
    use proptest::prelude::*;

    struct Rows(Vec<Row>);

    impl Put for Rows {
        fn put<T: Record>(&mut self, row: T) {
            self.0.push(row.into_row());
        }
    }

    fn back(event: &Event) -> Vec<Event> {
        let mut rows = Rows(Vec::new());
        write(event, "a__hop", &mut Names::new(64), &mut rows);
        let mut reader = Reader::default();
        rows.0.iter().filter_map(|r| reader.read(r)).collect()
    }

    prop_compose! {
        fn place()(policy: u8, nice in -20i8..20, rt in 0u8..100, slice_us: u32, clamp: (u16, u16),
            auto in proptest::option::of(-20i32..20), cgroup in 0u64..1 << 62) -> Placement {
            Placement {
                class: class(policy, nice, rt),
                slice_us,
                uclamp: clamp,
                autogroup_nice: auto,
                cgroup,
            }
        }
    }

    prop_compose! {
        fn blame()(names in proptest::collection::vec("[a-z/: ]{1,15}", 0..4), pid: u32, own: bool,
            ns in 0u64..1 << 40, idle_ns in 0u64..1 << 40, other_ns in 0u64..1 << 40) -> ShortBlame {
            ShortBlame {
                culprits: names.into_iter().map(|name| ShortCulprit {
                    name, pid, own, ns, class: class(0, 5, 0), cgroup: ns,
                }).collect(),
                idle_ns,
                other_ns,
                unknown_ns: ns / 2,
            }
        }
    }

    proptest! {
        #[test]
        fn time_off_cpu_comes_back_whole(place in place(), blame in blame(), left in 0u64..1 << 50,
            asleep in 0u64..1 << 40, wait in 0u64..1 << 40, seen: bool, by in 0u8..5, flush: bool,
            syscall in proptest::option::of(0i32..600), bits: (bool, bool, bool), tid: u32) {
            let runnable = left + asleep + 1;
            let event = Event::Off(Box::new(Off {
                at: At { ts: runnable + wait, pid: 7, tid, cpu: 3 },
                left: if seen { left + 1 } else { 0 },
                runnable: if seen { runnable } else { left + 1 },
                throttled_ns: wait / 2,
                interrupt_ns: wait / 3,
                wake: [Wake::Preempted, Wake::Task { pid: 1, tid }, Wake::Interrupt, Wake::New, Wake::Unseen][by as usize],
                woken_by_flush: flush.then_some((pty(24, 3), side(bits.0))),
                slept_in: SleptIn { syscall, fault: bits.0, disk: bits.1, iowait: bits.2 },
                major_faults: 2,
                migrations: 1,
                place,
                blame,
            }));
            prop_assert_eq!(back(&event), [event]);
        }

        #[test]
        fn flushes_come_back_whole(place in place(), blame in blame(), started in 1u64..1 << 50,
            run in 0u64..1 << 40, mute: bool, to_master: bool) {
            let event = Event::Flush(Flush {
                at: At { ts: started + run, pid: 9, tid: 9, cpu: 1 },
                pty: pty(24, 1),
                towards: side(to_master),
                queued_by: 4,
                queued_by_tid: 5,
                queued: started / 2,
                started,
                mute,
                place,
                blame,
            });
            prop_assert_eq!(back(&event), [event]);
        }

        #[test]
        fn reads_writes_and_hops_come_back_whole(ts in 1u64..1 << 50, dur in 0u64..1 << 40, conn: u64,
            result in -4095i64..1 << 40, bits: (bool, bool)) {
            let at = At { ts: ts + dur, pid: 1, tid: 2, cpu: 3 };
            for event in [
                Event::Io(Io { at, pty: pty(2, 3), side: side(bits.0), write: bits.1, result, duration_ns: dur }),
                Event::Sock(Sock { at, conn, send: bits.0, result, duration_ns: dur, peer: 5 }),
                Event::Hop(Hop { at, hop: 1, nargs: 3, args: [conn, ts, dur] }),
            ] {
                prop_assert_eq!(back(&event), [event]);
            }
        }
    }

    #[test]
    fn rivals_of_another_wait_are_not_taken() {
        let mut reader = Reader::default();
        let lone = rows::Rival {
            ts: 5,
            victim_tid: 1,
            ..Default::default()
        };
        assert_eq!(reader.read(&lone.into_row()), None);
        let off = rows::Off {
            ts: 5,
            dur: 4,
            tid: 1,
            wake: Name::fixed("preempted"),
            ..Default::default()
        };
        match reader.read(&off.into_row()) {
            Some(Event::Off(off)) => assert!(off.blame.culprits.is_empty(), "{off:?}"),
            other => panic!("{other:?}"),
        }
    }
}
