//! A Perfetto trace: slices of the scheduler, syscalls, PTYs, flush work, hops, echoes, figures of
//! the processes themselves. Written row by row, so that its size does not matter.

use std::collections::HashMap;
use std::io::Write;

use prost::Message;

use super::proto::{
    COUNTER, Clock, ClockSnapshot, CounterDescriptor, Data, DebugAnnotation, Ftrace, FtraceEvent,
    FtraceEventBundle, INSTANT, ProcessDescriptor, SLICE_BEGIN, SLICE_END, SchedSwitch,
    SchedWaking, ThreadDescriptor, TracePacket, TrackDescriptor, TrackEvent,
};
use crate::store::RunId;
use crate::{
    Dataset, Echo, EchoLink, Error, Flush, Hop, Metric, Name, PtyIo, Row, Run, Slice, Syscall,
};

/// Writes a trace for the Perfetto UI and trace_processor.
///
/// # Errors
/// When the recording cannot be read, or `out` not written.
pub fn perfetto(dataset: &Dataset, run: RunId, out: impl Write) -> Result<(), Error> {
    let mut trace = Trace {
        out,
        tracks: HashMap::new(),
        started: false,
        bytes: Vec::new(),
    };
    let row = dataset.runs()?.into_iter().find(|(id, _)| *id == run);
    if let Some((_, row)) = row {
        trace.clocks(&row)?;
    }
    for row in dataset.replay(run)? {
        match row? {
            Row::Slice(r) => trace.slice(&r)?,
            Row::Syscall(r) => trace.syscall(&r)?,
            Row::PtyIo(r) => trace.pty(&r)?,
            Row::Flush(r) => trace.flush(&r)?,
            Row::Hop(r) => trace.hop(&r)?,
            Row::Echo(r) => trace.echo(&r)?,
            Row::EchoLink(r) => trace.link(&r)?,
            Row::Metric(r) => trace.metric(&r)?,
            _ => {}
        }
    }
    trace.out.flush().map_err(failed)
}

fn failed(e: std::io::Error) -> Error {
    Error::io("cannot write the trace", e)
}

/// What a track is of.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Track {
    Process(u32),
    Thread(u32, u32),
    /// Slices that overlap need a track each: one a thread, at one end of one PTY.
    PtyEnd(u32, u32, bool, u32),
    Bytes(u32, u32, bool, bool),
    Flush(u32, u32, bool),
    Echo(u64),
    Metric(u32, Name),
    /// Requests of io_uring overlap each other; Perfetto shows those of one name together.
    Request(u64),
}

struct Trace<W: Write> {
    out: W,
    tracks: HashMap<Track, u64>,
    started: bool,
    bytes: Vec<u8>,
}

impl<W: Write> Trace<W> {
    /// Field 1 of the message `Trace`, again and again.
    fn packet(&mut self, timestamp: Option<u64>, data: Data) -> Result<(), Error> {
        let packet = TracePacket {
            timestamp,
            trusted_packet_sequence_id: Some(1),
            // SEQ_INCREMENTAL_STATE_CLEARED, or what comes is taken for the rest of a lost beginning.
            sequence_flags: (!std::mem::replace(&mut self.started, true)).then_some(1),
            data: Some(data),
        };
        self.bytes.clear();
        self.bytes.push(1 << 3 | 2);
        prost::encoding::encode_varint(packet.encoded_len() as u64, &mut self.bytes);
        packet.encode_raw(&mut self.bytes);
        self.out.write_all(&self.bytes).map_err(failed)
    }

    /// Our clock is CLOCK_MONOTONIC. Perfetto's default is CLOCK_BOOTTIME: for the trace, the same.
    fn clocks(&mut self, run: &Run) -> Result<(), Error> {
        let clock = |clock_id, timestamp| Clock {
            clock_id: Some(clock_id),
            timestamp: Some(timestamp),
        };
        // BuiltinClock: REALTIME 1, MONOTONIC 3, BOOTTIME 6.
        let clocks = vec![clock(1, run.unix_ns), clock(3, run.ts), clock(6, run.ts)];
        self.packet(Some(run.ts), Data::ClockSnapshot(ClockSnapshot { clocks }))
    }

    /// The track's id; it is described when it is first used.
    fn track(
        &mut self,
        track: Track,
        describe: impl FnOnce(&mut TrackDescriptor),
    ) -> Result<u64, Error> {
        if let Some(id) = self.tracks.get(&track) {
            return Ok(*id);
        }
        let id = self.tracks.len() as u64 + 1;
        let mut descriptor = TrackDescriptor {
            uuid: Some(id),
            ..TrackDescriptor::default()
        };
        describe(&mut descriptor);
        self.tracks.insert(track, id);
        self.packet(None, Data::TrackDescriptor(descriptor))?;
        Ok(id)
    }

    fn process(&mut self, pid: u32) -> Result<u64, Error> {
        self.track(Track::Process(pid), |d| {
            d.process = Some(ProcessDescriptor {
                pid: Some(pid as i32),
                process_name: None,
            });
        })
    }

    fn thread(&mut self, pid: u32, tid: u32, comm: &str) -> Result<u64, Error> {
        let process = self.process(pid)?;
        self.track(Track::Thread(pid, tid), |d| {
            d.parent_uuid = Some(process);
            d.thread = Some(ThreadDescriptor {
                pid: Some(pid as i32),
                tid: Some(tid as i32),
                thread_name: (!comm.is_empty()).then(|| comm.to_owned()),
            });
        })
    }

    fn event(&mut self, ts: u64, event: TrackEvent) -> Result<(), Error> {
        self.packet(Some(ts), Data::TrackEvent(event))
    }

    fn slice_on(
        &mut self,
        track: u64,
        (ts, dur): (u64, u64),
        category: &str,
        name: &str,
        arguments: Vec<DebugAnnotation>,
    ) -> Result<(), Error> {
        self.event(
            ts,
            TrackEvent {
                r#type: Some(SLICE_BEGIN),
                track_uuid: Some(track),
                categories: vec![category.to_owned()],
                name: Some(name.to_owned()),
                debug_annotations: arguments,
                counter_value: None,
            },
        )?;
        self.event(
            ts.saturating_add(dur),
            TrackEvent {
                r#type: Some(SLICE_END),
                track_uuid: Some(track),
                ..TrackEvent::default()
            },
        )
    }

    fn count(&mut self, track: u64, ts: u64, value: i64) -> Result<(), Error> {
        self.event(
            ts,
            TrackEvent {
                r#type: Some(COUNTER),
                track_uuid: Some(track),
                counter_value: Some(value),
                ..TrackEvent::default()
            },
        )
    }

    /// As the kernel's own events, which is what Perfetto's view of CPUs and states is made from.
    fn slice(&mut self, r: &Slice) -> Result<(), Error> {
        self.thread(r.pid, r.tid, &r.comm)?;
        let (pid, prio) = (r.tid as i32, priority(r));
        let mut event = Vec::with_capacity(3);
        if r.runnable != 0 && (r.waker_tid != 0 || r.waker_interrupt) {
            event.push(FtraceEvent {
                timestamp: Some(r.runnable),
                pid: Some(r.waker_tid),
                event: Some(Ftrace::SchedWaking(SchedWaking {
                    comm: Some(r.comm.to_string()),
                    pid: Some(pid),
                    prio: Some(prio),
                    success: Some(1),
                    target_cpu: Some(i32::from(r.cpu)),
                })),
            });
        }
        // Who had the CPU before and after is not ours to know: the idle task stands for it.
        let idle = || Some("swapper".to_owned());
        event.push(FtraceEvent {
            timestamp: Some(r.ts),
            pid: Some(0),
            event: Some(Ftrace::SchedSwitch(SchedSwitch {
                prev_comm: idle(),
                prev_pid: Some(0),
                prev_prio: Some(120),
                prev_state: Some(0),
                next_comm: Some(r.comm.to_string()),
                next_pid: Some(pid),
                next_prio: Some(prio),
            })),
        });
        event.push(FtraceEvent {
            timestamp: Some(r.end()),
            pid: Some(r.tid),
            event: Some(Ftrace::SchedSwitch(SchedSwitch {
                prev_comm: Some(r.comm.to_string()),
                prev_pid: Some(pid),
                prev_prio: Some(prio),
                prev_state: Some(state(&r.end_state)),
                next_comm: idle(),
                next_pid: Some(0),
                next_prio: Some(120),
            })),
        });
        let bundle = FtraceEventBundle {
            cpu: Some(u32::from(r.cpu)),
            event,
        };
        self.packet(None, Data::FtraceEvents(bundle))
    }

    fn syscall(&mut self, r: &Syscall) -> Result<(), Error> {
        let thread = self.thread(r.pid, r.tid, &r.comm)?;
        let track = if r.io_uring {
            self.track(Track::Request(r.seq), |d| {
                d.parent_uuid = Some(thread);
                d.name = Some("io_uring".to_owned());
            })?
        } else {
            thread
        };
        let mut arguments = vec![number("ret", r.ret)];
        if r.fd >= 0 {
            arguments.push(number("fd", r.fd.into()));
        }
        if !r.path.is_empty() {
            arguments.push(text("path", &r.path));
        }
        if !r.old_path.is_empty() {
            arguments.push(text("old_path", &r.old_path));
        }
        if r.bytes != 0 {
            arguments.push(number("bytes", r.bytes as i64));
        }
        if r.runq_ns != 0 || r.blocked_ns != 0 {
            arguments.push(number("runq_ns", r.runq_ns as i64));
            arguments.push(number("blocked_ns", r.blocked_ns as i64));
        }
        self.slice_on(track, (r.ts, r.dur), "syscall", &r.name, arguments)
    }

    fn pty(&mut self, r: &PtyIo) -> Result<(), Error> {
        let end = if r.master { "master" } else { "slave" };
        let what = if r.write { "write" } else { "read" };
        let track = self.track(Track::PtyEnd(r.devpts, r.pty, r.master, r.tid), |d| {
            d.name = Some(format!("pts/{} {end}", r.pty));
        })?;
        let arguments = vec![
            number("ret", r.ret),
            number("pid", r.pid.into()),
            number("tid", r.tid.into()),
        ];
        self.slice_on(track, (r.ts, r.dur), "pty", what, arguments)?;
        if r.ret > 0 {
            let bytes = self.track(Track::Bytes(r.devpts, r.pty, r.master, r.write), |d| {
                d.name = Some(format!("pts/{} {end} {what} size", r.pty));
                d.counter = Some(CounterDescriptor {
                    unit_name: Some("bytes".to_owned()),
                });
            })?;
            self.count(bytes, r.end(), r.ret)?;
        }
        Ok(())
    }

    fn flush(&mut self, r: &Flush) -> Result<(), Error> {
        let track = self.track(Track::Flush(r.devpts, r.pty, r.to_master), |d| {
            let towards = if r.to_master { "output" } else { "input" };
            d.name = Some(format!("pts/{} flush, {towards}", r.pty));
        })?;
        let arguments = vec![
            number("wait_ns", r.wait_ns().map_or(-1, |w| w as i64)),
            number("queued_by", r.queued_by.into()),
        ];
        self.slice_on(track, (r.ts, r.dur), "flush", "flush_to_ldisc", arguments)
    }

    fn hop(&mut self, r: &Hop) -> Result<(), Error> {
        let track = self.thread(r.pid, r.tid, "")?;
        let arguments = [("value", r.arg0), ("id", r.arg1), ("sequence", r.arg2)]
            .into_iter()
            .take(r.nargs.into())
            .map(|(name, value)| number(name, value as i64))
            .collect();
        self.event(
            r.ts,
            TrackEvent {
                r#type: Some(INSTANT),
                track_uuid: Some(track),
                categories: vec!["hop".to_owned()],
                name: Some(r.name.to_string()),
                debug_annotations: arguments,
                counter_value: None,
            },
        )
    }

    fn echo_track(&mut self, echo: u64) -> Result<u64, Error> {
        self.track(Track::Echo(echo), |d| d.name = Some("echoes".to_owned()))
    }

    fn echo(&mut self, r: &Echo) -> Result<(), Error> {
        let track = self.echo_track(r.echo)?;
        let arguments = vec![
            number("pty", r.pty.into()),
            number("bytes", r.bytes as i64),
            text("end", &r.end),
        ];
        let name = format!("echo {}", r.echo);
        self.slice_on(track, (r.ts, r.dur), "echo", &name, arguments)
    }

    /// On a track of its own below its echo's: links of one echo follow one another.
    fn link(&mut self, r: &EchoLink) -> Result<(), Error> {
        let echo = self.echo_track(r.echo)?;
        let track = self.track(Track::Echo(r.echo | 1 << 63), |d| {
            d.parent_uuid = Some(echo);
            d.name = Some("links".to_owned());
        })?;
        let arguments = vec![
            text("thread", &r.comm),
            number("on_cpu_ns", r.on_cpu_ns as i64),
            number("runq_ns", r.runq_ns as i64),
            number("blocked_ns", r.blocked_ns as i64),
            text("instead", &r.instead),
        ];
        self.slice_on(track, (r.ts, r.dur), "echo", &r.name, arguments)
    }

    fn metric(&mut self, r: &Metric) -> Result<(), Error> {
        let process = self.process(r.pid)?;
        let track = self.track(Track::Metric(r.pid, r.name.clone()), |d| {
            d.parent_uuid = Some(process);
            d.name = Some(r.name.to_string());
            d.counter = Some(CounterDescriptor {
                unit_name: (!r.unit.is_empty()).then(|| r.unit.to_string()),
            });
        })?;
        self.count(track, r.ts.saturating_add(r.dur), r.value)
    }
}

fn number(name: &str, value: i64) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        int_value: Some(value),
        string_value: None,
    }
}

fn text(name: &str, value: &Name) -> DebugAnnotation {
    DebugAnnotation {
        name: Some(name.to_owned()),
        int_value: None,
        string_value: Some(value.to_string()),
    }
}

/// The kernel's `prio`: 0 … 98 real time (99 − priority), 100 … 139 by nice.
fn priority(r: &Slice) -> i32 {
    // SCHED_FIFO 1, SCHED_RR 2.
    if matches!(r.policy, 1 | 2) {
        99 - i32::from(r.rt_priority)
    } else {
        120 + i32::from(r.nice)
    }
}

/// `prev_state` of the tracepoint (`TASK_REPORT` in include/linux/sched.h, since 4.14).
fn state(end_state: &str) -> i64 {
    match end_state {
        "R+" => 0x100,
        "S" => 0x01,
        "D" => 0x02,
        "T" => 0x04,
        "t" => 0x08,
        "X" => 0x10,
        "Z" => 0x20,
        "P" => 0x40,
        "I" => 0x80,
        _ => 0,
    }
}
