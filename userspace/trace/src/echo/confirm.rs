//! phux tells itself which pane an input went to and which output frame was shown: its hops and
//! their sequence numbers, held against a chain that was made without them.

use std::collections::{HashMap, VecDeque};

use super::history::Act;
use super::way::Marks;
use crate::source::event::Hop;

/// Hops that are kept.
const KEPT: usize = 32_768;

/// The hops that tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The writer thread has written one input: pane.
    InputWritten,
    /// The reader thread has read: bytes, pane.
    Read,
    /// The server sends one frame of output on: pane, frame.
    FrameSent,
    /// The client has taken one frame in: pane, frame.
    FrameApplied,
}

fn kind(probe: &str) -> Option<Kind> {
    Some(match probe {
        "input__pty__write" => Kind::InputWritten,
        "pty__read__size" => Kind::Read,
        "pump__frame__bytes" => Kind::FrameSent,
        "vt_apply" => Kind::FrameApplied,
        _ => return None,
    })
}

/// The hops of the last seconds.
#[derive(Debug, Default)]
pub(super) struct Hops {
    kinds: HashMap<u32, Kind>,
    told: VecDeque<(Kind, Hop)>,
}

impl Hops {
    /// What the hop with this id is.
    pub(super) fn name(&mut self, id: u32, probe: &str) {
        if let Some(kind) = kind(probe) {
            self.kinds.insert(id, kind);
        }
    }

    /// One has fired. In the order of time.
    pub(super) fn push(&mut self, hop: Hop) {
        if let Some(kind) = self.kinds.get(&hop.hop) {
            if self.told.len() == KEPT {
                self.told.pop_front();
            }
            self.told.push_back((*kind, hop));
        }
    }

    pub(super) fn forget(&mut self, ns: u64) {
        while self.told.front().is_some_and(|(_, h)| h.at.ts < ns) {
            self.told.pop_front();
        }
    }

    fn from(&self, ns: u64, kind: Kind) -> impl Iterator<Item = &Hop> {
        let first = self.told.partition_point(|(_, h)| h.at.ts < ns);
        let range = self.told.range(first..);
        range.filter(move |(k, _)| *k == kind).map(|(_, h)| h)
    }

    /// The thread's own word about what it has just done.
    fn after(&self, act: &Act, kind: Kind) -> Option<&Hop> {
        let call = act.call;
        self.from(call.end, kind).find(|h| h.at.tid == call.tid)
    }

    /// Whether they tell the same as a chain that has ended; `None` where they tell nothing.
    pub(super) fn confirm(&self, marks: &Marks) -> Option<bool> {
        let [_, pane, _] = self.after(&marks.input?, Kind::InputWritten)?.args;
        let read = marks.read?;
        let [bytes, of, _] = self.after(&read, Kind::Read)?.args;
        if of != pane || bytes != read.call.bytes() {
            return Some(false);
        }
        let Some(sent) = marks.sent else {
            return Some(true);
        };
        // The frame with what was read is this one, or a later one if it had been filled already.
        let mut frames = self.from(read.call.end, Kind::FrameSent);
        let frame = frames.find(|h| h.at.pid == read.call.pid && h.args[1] == pane)?;
        if frame.at.ts > sent.call.end {
            return Some(false);
        }
        let Some(shown) = marks.shown else {
            return Some(true);
        };
        let [_, _, frame] = frame.args;
        let mut applied = self
            .from(sent.call.begin, Kind::FrameApplied)
            .filter(|h| h.at.pid == shown.call.pid && h.args[1] == pane)
            .peekable();
        applied.peek()?;
        Some(applied.any(|h| h.args[2] >= frame && h.at.ts <= shown.call.end))
    }
}
