//! Between the live analysis and a recording: `record -o DIR` and what reads such a directory.
//!
//! [`events`] turns events into rows and back; [`sink`] writes what a run sees, [`replay`] reads it. Both
//! give it to the same [`analysis`], so that a recording is judged as the run was, and [`report`] tells it.
//! [`calls`] and [`chains`] are the rows of system calls and echoes, [`sums`] those of threads, PTYs, hops and
//! the target's own metrics, [`details`] what no table has; [`trigger`] the conditions of `--on`.

pub mod analysis;
pub mod calls;
pub mod chains;
pub mod details;
pub mod events;
pub mod replay;
pub mod report;
pub mod sink;
pub mod sums;
pub mod trigger;

use phux_recording::Record;

/// Takes rows of any table.
pub trait Put {
    /// Takes one.
    fn put<T: Record>(&mut self, row: T);
}
