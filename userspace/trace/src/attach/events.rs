//! The lines of `--events`: each PTY read and write, flush and hop as it happened.

use std::io::Write;

use anyhow::{Context, Result};

use super::hops::Hops;
use crate::report::json::write_event;
use crate::report::model::{EventKind, EventRow};
use crate::source::Event;
use crate::source::decode::At;
use crate::stats::{PtyId, Side};

/// Writes the streamed ones among these events.
pub(super) fn write(
    events: &[Event],
    hops: &Hops,
    clock_offset_ns: i128,
    out: &mut impl Write,
) -> Result<()> {
    for event in events {
        if let Some(row) = row(event, hops, clock_offset_ns) {
            write_event(&row, out).context("writing an event")?;
        }
    }
    Ok(())
}

fn row(event: &Event, hops: &Hops, clock_offset_ns: i128) -> Option<EventRow> {
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
            ..on(f.pty, f.towards, row(f.at, EventKind::Flush))
        },
        Event::Hop(h) => EventRow {
            probe: hops.get(h.hop).map(|hop| hop.probe.clone()),
            args: Some(h.args.iter().copied().take(h.nargs as usize).collect()),
            ..row(h.at, EventKind::Hop)
        },
        Event::Exit { .. } | Event::Exec(_) | Event::Fork(_) => return None,
    })
}

fn on(pty: PtyId, side: Side, row: EventRow) -> EventRow {
    EventRow {
        devpts: Some(super::assemble::devpts(pty)),
        index: Some(pty.index),
        master: Some(side == Side::Master),
        ..row
    }
}
