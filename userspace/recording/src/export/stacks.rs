//! Syscalls summed by thread, call and path: what a flame graph is drawn from.

use std::collections::BTreeMap;
use std::io::Write;

use crate::store::RunId;
use crate::text::harmless;
use crate::{Dataset, Error, Name, Syscall};

/// Paths that are told apart; those that come later are summed as [`OTHERS`].
const MOST: usize = 100_000;
const OTHERS: &str = "(others)";

/// What the width of a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Calls.
    Count,
    /// Bytes moved.
    Bytes,
    /// Time in calls, ns.
    Time,
    /// Time asleep in calls, ns.
    Blocked,
    /// Time that calls waited for a CPU, ns.
    RunQueue,
}

impl Weight {
    /// For people and for speedscope.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Count => "calls",
            Weight::Bytes => "bytes",
            Weight::Time => "time",
            Weight::Blocked => "blocked",
            Weight::RunQueue => "run queue",
        }
    }

    pub(super) fn is_time(self) -> bool {
        matches!(self, Weight::Time | Weight::Blocked | Weight::RunQueue)
    }

    fn of(self, r: &Syscall) -> u64 {
        match self {
            Weight::Count => 1,
            Weight::Bytes => r.bytes,
            Weight::Time => r.dur,
            Weight::Blocked => r.blocked_ns,
            Weight::RunQueue => r.runq_ns,
        }
    }
}

/// Weights by stack: command, syscall, path.
#[derive(Debug, Clone, PartialEq)]
pub struct Stacks {
    /// What was summed.
    pub weight: Weight,
    pub(super) by: BTreeMap<[Name; 3], u64>,
}

impl Stacks {
    /// Sums a recording's syscalls.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn of(dataset: &Dataset, run: RunId, weight: Weight) -> Result<Stacks, Error> {
        let mut by = BTreeMap::new();
        for row in dataset.rows::<Syscall>(run)? {
            let row = row?;
            let value = weight.of(&row);
            if value == 0 {
                continue;
            }
            let name = if row.io_uring {
                format!("io_uring {}", row.name).into()
            } else {
                row.name
            };
            let mut stack = [row.comm, name, row.path];
            if by.len() >= MOST && !by.contains_key(&stack) {
                stack[2] = Name::fixed(OTHERS);
            }
            *by.entry(stack).or_insert(0) += value;
        }
        Ok(Stacks { weight, by })
    }

    /// The frames of each stack, the root first, with their weight; empty frames left out.
    pub(super) fn frames(&self) -> impl Iterator<Item = (Vec<String>, u64)> {
        self.by.iter().map(|(stack, weight)| {
            let frames = stack.iter().filter(|f| !f.is_empty());
            (frames.map(|f| harmless(f)).collect(), *weight)
        })
    }
}

/// Writes collapsed stacks, one a line: `comm;syscall;path weight`.
///
/// # Errors
/// When `out` cannot be written.
pub fn folded(stacks: &Stacks, mut out: impl Write) -> Result<(), Error> {
    let failed = |e| Error::io("cannot write the stacks", e);
    for (frames, weight) in stacks.frames() {
        // The format's own separators cannot be part of a frame.
        let frames: Vec<String> = frames.iter().map(|f| f.replace(';', ":")).collect();
        writeln!(out, "{} {weight}", frames.join(";")).map_err(failed)?;
    }
    out.flush().map_err(failed)
}
