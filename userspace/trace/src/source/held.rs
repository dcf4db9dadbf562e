//! Records of several rings in the order of time.
//!
//! The rings are emptied one after the other, so the youngest records of one can be younger than
//! what another one has yet to give: they are held until the next time. What a file is called is
//! given at once, because a call in another ring can need it that is told to have ended earlier;
//! it is true for ever, so too early is no harm.

use probe_ebpf::events;

use super::raw;

/// Far longer than a program takes from reading the clock to putting its record into the ring.
pub(crate) const SETTLED_NS: u64 = 1_000_000;

/// Records that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    /// Time, and where it lies.
    records: Vec<(u64, usize, usize)>,
    next_bytes: Vec<u8>,
}

impl Held {
    /// Takes one.
    pub(super) fn push(&mut self, record: &[u8]) {
        // What has no header is torn, and comes first: who decodes it counts it.
        let ts = match raw::read::<events::ev_header>(record) {
            Some(h) if h.type_ != events::EV_FILE => h.ts,
            _ => 0,
        };
        self.records.push((ts, self.bytes.len(), record.len()));
        self.bytes.extend_from_slice(record);
    }

    /// Gives those up to a time, in order; of one time as they came.
    pub(super) fn give(&mut self, settled: u64, mut take: impl FnMut(&[u8])) {
        self.records.sort_by_key(|(ts, at, _)| (*ts, *at));
        let ready = self.records.partition_point(|(ts, _, _)| *ts <= settled);
        for (_, at, len) in self.records.drain(..ready) {
            take(self.bytes.get(at..at + len).unwrap_or_default());
        }
        self.next_bytes.clear();
        for (_, at, len) in &mut self.records {
            let record = self.bytes.get(*at..*at + *len).unwrap_or_default();
            *at = self.next_bytes.len();
            self.next_bytes.extend_from_slice(record);
        }
        std::mem::swap(&mut self.bytes, &mut self.next_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_come_once_in_order_and_none_before_its_time(
            batches in proptest::collection::vec(
                (proptest::collection::vec((0u64..100, 0usize..9), 0..20), 0u64..100), 0..9),
        ) {
            let (mut held, mut pushed, mut given) = (Held::default(), Vec::new(), Vec::new());
            let mut tag = 0u8;
            for (records, settled) in batches {
                for (ts, extra) in records {
                    let mut record = vec![tag; size_of::<events::ev_header>() + extra];
                    record[..8].copy_from_slice(&ts.to_ne_bytes());
                    held.push(&record);
                    pushed.push(record);
                    tag = tag.wrapping_add(1);
                }
                let before = given.len();
                held.give(settled, |r| given.push(r.to_vec()));
                let times: Vec<u64> = given[before..].iter().map(|r| time(r)).collect();
                prop_assert!(times.is_sorted() && times.iter().all(|t| *t <= settled));
            }
            held.give(u64::MAX, |r| given.push(r.to_vec()));
            pushed.sort();
            given.sort();
            prop_assert_eq!(pushed, given);
        }
    }

    fn time(record: &[u8]) -> u64 {
        u64::from_ne_bytes(record[..8].try_into().expect("eight bytes"))
    }
}
