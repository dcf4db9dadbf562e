//! The lines of `--events`: each PTY read and write, flush, hop, time off CPU and use of a socket as it happened.

use std::io::Write;

use anyhow::{Context, Result};

use super::assemble;
use super::hops::Hops;
use crate::report::json::write_event;
use crate::report::model::{EventKind, EventRow, OffRow, WakeKind};
use crate::sched_class::Placements;
use crate::source::Event;
use crate::source::event::{At, Off, Wake};
use crate::stats::{PtyId, Side};

/// Far longer than a program takes from reading the clock to putting its event into the ring.
const SETTLED_NS: u64 = 1_000_000;

/// Events on their way out. The rings are emptied one after the other, so the youngest events of
/// one can be younger than what another one has yet to give: they are held until the next time.
#[derive(Debug, Default)]
pub(super) struct Stream {
    held: Vec<Event>,
}

impl Stream {
    /// Takes one event.
    pub(super) fn push(&mut self, event: Event) {
        self.held.push(event);
    }

    /// Writes, in the order of time, what had happened well before `drained_ns`, when the rings
    /// began to be emptied; everything when that is `None`.
    pub(super) fn write(
        &mut self,
        drained_ns: Option<u64>,
        hops: &Hops,
        placements: &mut Placements,
        clock_offset_ns: i128,
        out: &mut impl Write,
    ) -> Result<()> {
        self.held.sort_by_key(Event::ts);
        let settled = drained_ns.map_or(u64::MAX, |at| at.saturating_sub(SETTLED_NS));
        let ready = self.held.partition_point(|e| e.ts() <= settled);
        for event in self.held.drain(..ready) {
            if let Some(row) = row(&event, hops, placements, clock_offset_ns) {
                write_event(&row, out).context("writing an event")?;
            }
        }
        Ok(())
    }
}

fn row(
    event: &Event,
    hops: &Hops,
    placements: &mut Placements,
    clock_offset_ns: i128,
) -> Option<EventRow> {
    let row = |at: At, kind| EventRow {
        unix_ns: u64::try_from(i128::from(at.ts) + clock_offset_ns).unwrap_or(0),
        kind,
        pid: at.pid,
        tid: at.tid,
        cpu: at.cpu,
        ..EventRow::default()
    };
    Some(match event {
        Event::Io(io) => EventRow {
            bytes: u64::try_from(io.result).ok(),
            errno: (io.result < 0).then_some(-io.result),
            duration_ns: Some(io.duration_ns),
            ..on(
                io.pty,
                io.side,
                row(
                    io.at,
                    if io.write {
                        EventKind::Write
                    } else {
                        EventKind::Read
                    },
                ),
            )
        },
        Event::Flush(f) => EventRow {
            wait_ns: (f.queued != 0).then(|| f.started.saturating_sub(f.queued)),
            duration_ns: Some(f.at.ts.saturating_sub(f.started)),
            queued_by: (f.queued != 0).then_some(f.queued_by),
            placement: Some(Box::new(placements.brief(&f.place))),
            queued_by_tid: (f.queued != 0).then_some(f.queued_by_tid),
            ran_instead: Some(assemble::short_culprits(&f.blame, placements)),
            ..on(f.pty, f.towards, row(f.at, EventKind::Flush))
        },
        Event::Hop(h) => EventRow {
            probe: hops.get(h.hop).map(|hop| hop.probe.clone()),
            args: Some(h.args.iter().copied().take(h.nargs as usize).collect()),
            ..row(h.at, EventKind::Hop)
        },
        Event::Off(o) => EventRow {
            off: Some(Box::new(off(o, placements))),
            placement: Some(Box::new(placements.brief(&o.place))),
            ..row(o.at, EventKind::Off)
        },
        Event::Sock(s) => EventRow {
            bytes: u64::try_from(s.result).ok(),
            errno: (s.result < 0).then_some(-s.result),
            duration_ns: Some(s.duration_ns),
            conn: Some(s.conn),
            send: Some(s.send),
            peer: (s.peer != 0).then_some(s.peer),
            ..row(s.at, EventKind::Sock)
        },
        Event::Exit { .. } | Event::Exec(_) | Event::Fork(_) => return None,
    })
}

fn off(o: &Off, placements: &mut Placements) -> OffRow {
    let (wake, waker) = match o.wake {
        Wake::Preempted => (WakeKind::Preempted, None),
        Wake::Task { pid, tid } => (WakeKind::Task, Some((pid, tid))),
        Wake::Interrupt => (WakeKind::Interrupt, None),
        Wake::New => (WakeKind::New, None),
        Wake::Unseen => (WakeKind::Unseen, None),
    };
    OffRow {
        blocked_ns: (o.left != 0).then(|| o.runnable.saturating_sub(o.left)),
        wait_ns: o.at.ts.saturating_sub(o.runnable),
        throttled_ns: o.throttled_ns,
        interrupt_ns: o.interrupt_ns,
        wake,
        waker_pid: waker.map(|w| w.0),
        waker_tid: waker.map(|w| w.1),
        woken_by_flush: o.woken_by_flush.map(|(pty, _)| pty.index),
        syscall: o.slept_in.syscall,
        fault: o.slept_in.fault,
        disk: o.slept_in.disk,
        iowait: o.slept_in.iowait,
        major_faults: o.major_faults,
        migrations: o.migrations,
        ran_instead: assemble::short_culprits(&o.blame, placements),
    }
}

fn on(pty: PtyId, side: Side, row: EventRow) -> EventRow {
    EventRow {
        devpts: Some(assemble::devpts(pty)),
        index: Some(pty.index),
        master: Some(side == Side::Master),
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::event::Hop;

    #[test]
    fn the_youngest_wait_for_what_another_ring_may_still_hold() {
        let at = |ms: u64| {
            Event::Hop(Hop {
                at: At {
                    ts: ms * 1_000_000,
                    pid: 1,
                    tid: 1,
                    cpu: 0,
                },
                hop: 0,
                nargs: 0,
                args: [0; 3],
            })
        };
        let times = |out: &[u8]| -> Vec<u64> {
            let lines = String::from_utf8_lossy(out).into_owned();
            let value = |l: &str| serde_json::from_str::<serde_json::Value>(l).ok();
            lines
                .lines()
                .filter_map(|l| Some(value(l)?["unix_ns"].as_u64()? / 1_000_000))
                .collect()
        };
        let (hops, mut stream, mut out) = (Hops::default(), Stream::default(), Vec::new());
        let mut places = Placements::default();
        [at(5), at(9), at(3)]
            .into_iter()
            .for_each(|e| stream.push(e));
        stream
            .write(Some(9_000_000), &hops, &mut places, 0, &mut out)
            .expect("memory");
        assert_eq!(times(&out), [3, 5]);
        [at(7), at(20)].into_iter().for_each(|e| stream.push(e));
        stream
            .write(None, &hops, &mut places, 0, &mut out)
            .expect("memory");
        assert_eq!(times(&out), [3, 5, 7, 9, 20]);
    }
}
