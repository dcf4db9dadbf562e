//! Which read took which written bytes: positions in a stream, for one direction of a PTY or of a socket.

use std::collections::VecDeque;

/// The kernel takes a write to a PTY in chunks of so many bytes (`tty_write`).
const CHUNK: u64 = 2048;
/// Writes that are looked through for one of a thread.
const RECENT: usize = 64;

/// A call that moved bytes `from..until` of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// Process.
    pub(super) pid: u32,
    /// Thread.
    pub(super) tid: u32,
    /// When it was called, ns.
    pub(super) begin: u64,
    /// When it returned, ns.
    pub(super) end: u64,
    /// First byte.
    pub(super) from: u64,
    /// After the last byte.
    pub(super) until: u64,
}

impl Call {
    /// Bytes moved.
    pub(super) fn bytes(&self) -> u64 {
        self.until - self.from
    }
}

/// What became of written bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// By this read.
    By(Call),
    /// The line discipline kept them or made something else of them: the reader had drained the
    /// flow, and no read gave them.
    Never,
    /// Not yet.
    NotYet,
}

/// One direction. Calls come in the order in which they return, so a read can come before the
/// write whose bytes it has: the write had not returned yet.
///
/// A terminal's line discipline changes the number of bytes (`\n` becomes `\r\n`, an erased letter
/// vanishes, the kernel's own echo is nobody's write), so the two counts are brought together again
/// whenever that is certain: reads that are ahead of a write which begins later leave a hole in the
/// positions, and a reader that was woken by fresh bytes has had all older ones.
#[derive(Debug, Default)]
pub(super) struct Flow {
    written: u64,
    taken: u64,
    writes: VecDeque<Call>,
    takes: VecDeque<Call>,
    /// Records were lost, or one end is traced and the other was not yet: the next read says where
    /// it is.
    uncertain: bool,
}

impl Flow {
    /// A flow that may have begun before both its ends were traced.
    pub(super) fn under_way() -> Flow {
        Flow {
            uncertain: true,
            ..Flow::default()
        }
    }

    /// A write, or a send.
    pub(super) fn write(&mut self, call: Call) -> Call {
        let bytes = call.bytes();
        if self.taken > self.written && self.takes.back().is_none_or(|t| t.end <= call.begin) {
            self.written = self.taken;
        }
        let placed = Call {
            from: self.written,
            until: self.written + bytes,
            ..call
        };
        self.written = placed.until;
        self.writes.push_back(placed);
        placed
    }

    /// A read, or a receive. `woken`: who had woken the reader for it, and when.
    pub(super) fn take(&mut self, call: Call, woken: Option<(u32, u64)>) -> Call {
        let bytes = call.bytes();
        if std::mem::take(&mut self.uncertain) {
            let all = self.written.saturating_sub(bytes);
            let at = woken.map(|(tid, ns)| self.written_before(tid, ns));
            self.taken = self.taken.max(at.unwrap_or(all));
        }
        let placed = Call {
            from: self.taken,
            until: self.taken + bytes,
            ..call
        };
        self.taken = placed.until;
        self.takes.push_back(placed);
        placed
    }

    /// The reader has had everything before `position`. What it was not given belongs to the read before.
    pub(super) fn drained(&mut self, position: u64) {
        if position > self.taken {
            self.taken = position;
            if let Some(last) = self.takes.back_mut() {
                last.until = position;
            }
        }
    }

    /// Some calls are not known.
    pub(super) fn lost(&mut self) {
        self.uncertain = true;
    }

    /// The position up to which bytes had been written by the calls that had returned then.
    pub(super) fn written_at(&self, ns: u64) -> u64 {
        let later = self.writes.partition_point(|w| w.end <= ns);
        match later.checked_sub(1).and_then(|i| self.writes.get(i)) {
            Some(w) => w.until,
            None => self.writes.front().map_or(self.written, |w| w.from),
        }
    }

    /// The position at which the write of `tid` begins that was under way at that time; one that has
    /// not returned follows all others.
    fn written_before(&self, tid: u32, ns: u64) -> u64 {
        let mut recent = self.writes.iter().rev().take(RECENT);
        let write = recent.find(|w| w.tid == tid && w.begin <= ns && ns <= w.end);
        write.map_or(self.written, |w| w.from)
    }

    /// The position up to which `tid` had surely written at that time, whether its call had
    /// returned or not: it had handed over its first chunk.
    pub(super) fn begun_by(&self, tid: u32, ns: u64) -> u64 {
        let mut recent = self.writes.iter().rev().take(RECENT);
        let write = recent.find(|w| w.tid == tid && w.begin <= ns);
        write.map_or(0, |w| w.until.min(w.from + CHUNK))
    }

    /// What became of the byte at the beginning of `write`.
    pub(super) fn fate(&self, write: &Call) -> Taken {
        let first = self.takes.partition_point(|t| t.until <= write.from);
        match self.takes.get(first) {
            Some(take) if take.from <= write.from && take.end >= write.begin => Taken::By(*take),
            Some(_) => Taken::Never,
            None if self.taken > write.from => Taken::Never,
            None => Taken::NotYet,
        }
    }

    /// The writes whose bytes a read has.
    pub(super) fn sources(&self, take: &Call) -> impl Iterator<Item = &Call> {
        let first = self.writes.partition_point(|w| w.until <= take.from);
        let until = take.until;
        self.writes
            .iter()
            .skip(first)
            .take_while(move |w| w.from < until)
    }

    /// Whether older bytes were still unread when `write` began: then what a read gives first is theirs.
    pub(super) fn was_behind(&self, write: &Call) -> bool {
        let later = self.takes.partition_point(|t| t.end <= write.begin);
        match later.checked_sub(1).and_then(|i| self.takes.get(i)) {
            Some(before) => before.until < write.from,
            None => self.takes.front().is_some_and(|t| t.from < write.from),
        }
    }

    /// The first read that was over after `ns`, and whether bytes of known writes came before then
    /// and were unread: the read may give those.
    pub(super) fn first_after(&self, ns: u64) -> (Option<Call>, bool) {
        let first = self.takes.partition_point(|t| t.end < ns);
        let before = first.checked_sub(1).and_then(|i| self.takes.get(i));
        let read = before.map(|t| t.until);
        let read = read
            .or(self.takes.front().map(|t| t.from))
            .unwrap_or(self.taken);
        let take = self.takes.get(first).copied();
        (take, self.written_at(ns) > read)
    }

    /// Process and thread that read last.
    pub(super) fn last_taker(&self) -> Option<(u32, u32)> {
        self.takes.back().map(|t| (t.pid, t.tid))
    }

    /// Whether anybody was seen to read.
    pub(super) fn is_read(&self) -> bool {
        self.taken > 0
    }

    /// Calls that are kept.
    pub(super) fn len(&self) -> usize {
        self.writes.len() + self.takes.len()
    }

    /// Forgets what returned before `ns`.
    pub(super) fn forget(&mut self, ns: u64) {
        for calls in [&mut self.writes, &mut self.takes] {
            while calls.front().is_some_and(|c| c.end < ns) {
                calls.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(begin: u64, end: u64, bytes: u64) -> Call {
        Call {
            begin,
            end,
            until: bytes,
            ..Call::default()
        }
    }

    #[test]
    fn a_read_that_returns_before_the_write_has_its_bytes() {
        let mut flow = Flow::default();
        let read = flow.take(call(5, 12, 3), None);
        let write = flow.write(call(10, 20, 3));
        assert_eq!(flow.fate(&write), Taken::By(read));
        assert_eq!(flow.sources(&read).copied().collect::<Vec<_>>(), [write]);
    }

    #[test]
    fn bytes_that_the_line_discipline_adds_are_no_later_write() {
        let mut flow = Flow::default();
        let line = flow.write(call(10, 11, 1));
        let both = flow.take(call(12, 13, 2), None);
        let next = flow.write(call(20, 21, 1));
        assert_eq!(flow.fate(&line), Taken::By(both));
        assert_eq!(flow.fate(&next), Taken::NotYet);
        assert!(!flow.was_behind(&next));
        let read = flow.take(call(22, 23, 1), None);
        assert_eq!(flow.fate(&next), Taken::By(read));
    }

    #[test]
    fn what_the_reader_was_never_given_is_found_out_when_it_has_drained() {
        let mut flow = Flow::default();
        let interrupt = flow.write(call(10, 11, 1));
        flow.drained(flow.written_at(11));
        assert_eq!(flow.fate(&interrupt), Taken::Never);
        let letter = flow.write(call(20, 21, 1));
        let read = flow.take(call(22, 23, 1), None);
        assert_eq!(flow.fate(&letter), Taken::By(read));
    }

    #[test]
    fn a_read_that_was_not_seen_is_no_later_one() {
        let mut flow = Flow::default();
        let first = flow.write(call(10, 11, 1));
        let second = flow.write(call(20, 21, 1));
        flow.drained(flow.written_at(11));
        let read = flow.take(call(22, 23, 1), None);
        assert_eq!(flow.fate(&first), Taken::Never);
        assert_eq!(flow.fate(&second), Taken::By(read));
    }

    #[test]
    fn after_a_loss_the_next_read_says_where_it_is() {
        let mut flow = Flow::default();
        flow.write(call(10, 11, 100));
        flow.lost();
        let letter = flow.write(call(20, 21, 1));
        let read = flow.take(call(22, 23, 1), None);
        assert_eq!(flow.fate(&letter), Taken::By(read));
    }

    #[test]
    fn a_reader_that_is_traced_later_begins_where_it_was_woken() {
        let mut flow = Flow::under_way();
        flow.write(call(10, 11, 7));
        let wakes = flow.write(call(20, 25, 7));
        let next = flow.write(call(26, 27, 7));
        let read = flow.take(call(15, 28, 7), Some((0, 22)));
        assert_eq!(flow.fate(&wakes), Taken::By(read));
        assert_eq!(flow.fate(&next), Taken::NotYet);
        // The write that woke it has not returned yet.
        let mut flow = Flow::under_way();
        flow.write(call(10, 11, 7));
        let read = flow.take(call(15, 23, 7), Some((0, 22)));
        let wakes = flow.write(call(20, 25, 7));
        assert_eq!(flow.fate(&wakes), Taken::By(read));
        // Nobody woke it: it has had all but what it reads.
        let mut flow = Flow::under_way();
        flow.write(call(10, 11, 7));
        let last = flow.write(call(20, 25, 7));
        let read = flow.take(call(30, 31, 7), None);
        assert_eq!(flow.fate(&last), Taken::By(read));
    }

    proptest! {
        #[test]
        fn each_byte_is_taken_once_by_whoever_reads_it(
            writes in prop::collection::vec(1u64..9, 1..40),
            cuts in prop::collection::vec(1u64..9, 1..200),
        ) {
            let mut flow = Flow::default();
            let mut now = 0;
            let placed: Vec<Call> = writes.iter().map(|n| {
                now += 10;
                flow.write(call(now, now + 1, *n))
            }).collect();
            let total: u64 = writes.iter().sum();
            let mut left = total;
            let mut reads = Vec::new();
            for cut in cuts {
                let n = cut.min(left);
                if n == 0 { break; }
                now += 10;
                reads.push(flow.take(call(now, now + 1, n), None));
                left -= n;
            }
            for write in &placed {
                let expected = reads.iter().find(|r| r.until > write.from);
                let found = flow.fate(write);
                prop_assert_eq!(found, expected.map_or(Taken::NotYet, |r| Taken::By(*r)));
            }
        }
    }
}
