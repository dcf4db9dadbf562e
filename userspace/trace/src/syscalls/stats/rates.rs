//! Rates over time: a sum for each of the last seconds, by family.

use crate::syscalls::{Call, Family};

/// Seconds that are remembered.
pub const SECONDS: usize = 600;
const FAMILIES: usize = Family::ALL.len();
const NS: u64 = 1_000_000_000;

/// Sums of one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rate {
    /// Calls that ended in it.
    pub count: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
    /// Their time, ns.
    pub time_ns: u64,
}

impl Rate {
    fn add(&mut self, call: &Call) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(call.bytes);
        self.errors += u64::from(call.errno() != 0);
        self.time_ns = self.time_ns.saturating_add(call.dur);
    }

    fn merge(&mut self, other: &Rate) {
        self.count += other.count;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.errors += other.errors;
        self.time_ns = self.time_ns.saturating_add(other.time_ns);
    }
}

/// The last [`SECONDS`] seconds, by CLOCK_MONOTONIC.
#[derive(Debug)]
pub struct Rates {
    /// The newest second that is remembered.
    newest: Option<u64>,
    ring: Vec<[Rate; FAMILIES]>,
    /// Everything that is older, in one sum.
    pub older: Rate,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates {
            newest: None,
            ring: vec![[Rate::default(); FAMILIES]; SECONDS],
            older: Rate::default(),
        }
    }
}

impl Rates {
    /// One more call, in the second of its end.
    pub fn add(&mut self, call: &Call) {
        let second = call.start.saturating_add(call.dur) / NS;
        self.advance(second);
        let oldest = self.newest.unwrap_or(second) + 1;
        if second + SECONDS as u64 >= oldest
            && let Some(rate) = self
                .ring
                .get_mut(place(second))
                .and_then(|s| s.get_mut(call.family() as usize))
        {
            rate.add(call);
        } else {
            self.older.add(call);
        }
    }

    fn advance(&mut self, second: u64) {
        let newest = *self.newest.get_or_insert(second);
        if second <= newest {
            return;
        }
        for new in (newest + 1..=second).take(SECONDS) {
            if let Some(slot) = self.ring.get_mut(place(new)) {
                slot.iter().for_each(|rate| self.older.merge(rate));
                *slot = [Rate::default(); FAMILIES];
            }
        }
        self.newest = Some(second);
    }

    /// The seconds from the oldest to the newest, each as its second of CLOCK_MONOTONIC and the
    /// sums by family, in the order of [`Family::ALL`].
    pub fn seconds(&self) -> impl Iterator<Item = (u64, &[Rate; FAMILIES])> {
        let newest = self.newest.unwrap_or(0);
        let oldest = (newest + 1).saturating_sub(SECONDS as u64);
        (oldest..=newest)
            .filter_map(|second| Some((second, self.ring.get(place(second))?)))
            .filter(|_| self.newest.is_some())
    }
}

fn place(second: u64) -> usize {
    (second % SECONDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::stats::tree::tests::call;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_call_is_in_its_second_or_in_what_is_older(
            ends in proptest::collection::vec(0u64..5000, 1..300),
        ) {
            let mut rates = Rates::default();
            for end in &ends {
                rates.add(&call(1, None, 0, end * NS + 5, 10));
            }
            let newest = ends.iter().max().copied().unwrap_or(0);
            let sum: u64 = rates.seconds().flat_map(|(_, s)| s).map(|r| r.count).sum();
            prop_assert_eq!(sum + rates.older.count, ends.len() as u64);
            for (second, by_family) in rates.seconds() {
                prop_assert!(second <= newest && second + SECONDS as u64 > newest);
                let here: u64 = by_family.iter().map(|r| r.count).sum();
                let most = ends.iter().filter(|e| **e == second).count() as u64;
                prop_assert!(here <= most, "second {}", second);
            }
        }
    }
}
