//! The last calls, as they were.

use std::collections::VecDeque;

use crate::syscalls::Call;

/// How many are kept.
pub const RECENT: usize = 10_000;

/// The last [`RECENT`] calls.
#[derive(Debug, Default)]
pub struct Recent(VecDeque<Call>);

impl Recent {
    /// One more; the oldest goes.
    pub fn push(&mut self, call: &Call) {
        if self.0.len() >= RECENT {
            self.0.pop_front();
        }
        self.0.push_back(call.clone());
    }

    /// From the oldest to the newest.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.0.iter()
    }

    /// The newest so many, the oldest of them first.
    pub fn last(&self, most: usize) -> impl Iterator<Item = &Call> {
        self.0.range(self.0.len().saturating_sub(most)..)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
