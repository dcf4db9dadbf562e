//! The figures, and single calls, as JSON lines: each an object with a `type`.

use std::io::{self, Write};

use phux_perf::Snapshot;
use serde::Serialize;

use super::summary::Told;
use crate::report::json::write_value;
use crate::report::model::Loss;
use crate::syscalls::stats::Figures;
use crate::syscalls::table::table;
use crate::syscalls::{Call, End};

/// A line.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    /// Begins the output: from now on everything is recorded.
    Recording {
        target: &'a str,
    },
    Recorded {
        target: &'a str,
        duration_ns: u64,
        #[serde(flatten)]
        figures: Sums<'a>,
        calls_under_way: usize,
        requests_under_way: usize,
    },
    Syscall {
        name: &'static str,
        family: &'static str,
        #[serde(flatten)]
        figures: Sums<'a>,
    },
    /// Without a path: the sum of those that were too many.
    File {
        path: Option<&'a str>,
        #[serde(flatten)]
        figures: Sums<'a>,
    },
    Process {
        pid: Option<u32>,
        name: &'a str,
        #[serde(flatten)]
        figures: Sums<'a>,
    },
    /// Not `thread`: the report has a line of that name for each, with all that it waited for.
    CallingThread {
        pid: Option<u32>,
        tid: Option<u32>,
        #[serde(flatten)]
        figures: Sums<'a>,
    },
    Second {
        /// CLOCK_MONOTONIC.
        second: u64,
        family: &'static str,
        calls: u64,
        errors: u64,
        bytes: u64,
        time_ns: u64,
    },
    Loss(&'a Loss),
    Call(CallLine<'a>),
}

#[derive(Serialize)]
struct Sums<'a> {
    calls: u64,
    errors: u64,
    bytes: u64,
    wait_ns: u64,
    blocked_ns: u64,
    latency_ns: &'a Snapshot,
}

impl<'a> From<&'a Figures> for Sums<'a> {
    fn from(f: &'a Figures) -> Sums<'a> {
        Sums {
            calls: f.count(),
            errors: f.errors,
            bytes: f.bytes,
            wait_ns: f.wait_ns,
            blocked_ns: f.blocked_ns,
            latency_ns: &f.duration,
        }
    }
}

#[derive(Serialize)]
struct CallLine<'a> {
    /// CLOCK_MONOTONIC.
    start_ns: u64,
    duration_ns: u64,
    gap_ns: u64,
    gap_off_cpu_ns: u64,
    wait_ns: u64,
    blocked_ns: u64,
    pid: u32,
    tid: u32,
    comm: &'a str,
    cpu: u32,
    name: &'static str,
    family: &'static str,
    /// Of one that returned; else `end` says what became of it.
    ret: Option<i64>,
    end: Option<&'static str>,
    errno: Option<u16>,
    bytes: u64,
    fd: Option<i32>,
    fd2: Option<i32>,
    path: Option<&'a str>,
    path2: Option<&'a str>,
    address_space_bytes: u64,
    requested_sleep_ns: u64,
    timeout_ns: Option<i64>,
    nfds: u32,
    epoll_op: u8,
    epoll_events: u32,
}

/// Writes the first line.
pub(super) fn write_begin(target: &str, out: &mut impl Write) -> io::Result<()> {
    write_value(&Line::Recording { target }, out)?;
    out.flush()
}

/// Writes a call.
pub(super) fn write_call(call: &Call, out: &mut impl Write) -> io::Result<()> {
    let returned = call.end == End::Returned;
    let line = CallLine {
        start_ns: call.start,
        duration_ns: call.dur,
        gap_ns: call.gap,
        gap_off_cpu_ns: call.gap_off_ns,
        wait_ns: call.wait_ns,
        blocked_ns: call.blocked_ns,
        pid: call.pid,
        tid: call.tid,
        comm: &call.comm,
        cpu: call.cpu,
        name: call.name(),
        family: call.family().name(),
        ret: returned.then_some(call.ret),
        end: match call.end {
            End::Returned => None,
            End::NoReturn => Some("thread ended"),
            End::UnderWay => Some("under way"),
        },
        errno: Some(call.errno()).filter(|e| *e != 0),
        bytes: call.bytes,
        fd: Some(call.fd).filter(|fd| *fd >= 0),
        fd2: Some(call.fd2).filter(|fd| *fd >= 0),
        path: call.file.as_deref(),
        path2: call.file2.as_deref(),
        address_space_bytes: call.address_space_bytes,
        requested_sleep_ns: call.requested_sleep_ns,
        timeout_ns: Some(call.timeout_ns).filter(|t| *t >= 0),
        nfds: call.nfds,
        epoll_op: call.epoll_op,
        epoll_events: call.epoll_events,
    };
    write_value(&Line::Call(line), out)
}

/// Writes the figures, the losses last.
pub(super) fn write(told: &Told<'_>, out: &mut impl Write) -> io::Result<()> {
    let stats = told.stats;
    let mut line = |line: Line<'_>| write_value(&line, out);
    line(Line::Recorded {
        target: told.asked,
        duration_ns: told.duration_ns,
        figures: (&stats.total).into(),
        calls_under_way: stats.under_way.len(),
        requests_under_way: told.requests_under_way,
    })?;
    for (nr, figures) in &stats.syscalls {
        let call = table().get(*nr);
        line(Line::Syscall {
            name: call.name,
            family: call.family.name(),
            figures: figures.into(),
        })?;
    }
    let rest = |figures: &'_ Figures| figures.count() != 0;
    for (path, figures) in stats.files.iter() {
        line(Line::File {
            path: Some(path),
            figures: figures.into(),
        })?;
    }
    if rest(&stats.files.rest) {
        line(Line::File {
            path: None,
            figures: (&stats.files.rest).into(),
        })?;
    }
    for (pid, figures) in stats.processes.iter() {
        line(Line::Process {
            pid: Some(*pid),
            name: stats.process_name(*pid),
            figures: figures.into(),
        })?;
    }
    if rest(&stats.processes.rest) {
        line(Line::Process {
            pid: None,
            name: "",
            figures: (&stats.processes.rest).into(),
        })?;
    }
    for (thread, figures) in stats.threads.iter() {
        line(Line::CallingThread {
            pid: Some(thread.pid),
            tid: Some(thread.tid),
            figures: figures.into(),
        })?;
    }
    if rest(&stats.threads.rest) {
        line(Line::CallingThread {
            pid: None,
            tid: None,
            figures: (&stats.threads.rest).into(),
        })?;
    }
    for (second, by_family) in stats.rates.seconds() {
        for (family, rate) in crate::syscalls::Family::ALL.iter().zip(by_family) {
            if rate.count != 0 {
                line(Line::Second {
                    second,
                    family: family.name(),
                    calls: rate.count,
                    errors: rate.errors,
                    bytes: rate.bytes,
                    time_ns: rate.time_ns,
                })?;
            }
        }
    }
    told.losses
        .iter()
        .try_for_each(|loss| line(Line::Loss(loss)))
}
