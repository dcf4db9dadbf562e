//! The kernel side's sums as rows of `threads`, `buckets`, `blame` and `metrics`, and back. [`told`] writes what
//! came since the rows before; [`heard`] adds rows up again, in the run itself and in a replay.

mod heard;
mod told;

#[cfg(test)]
mod tests;

pub use heard::Heard;
pub use told::Told;

/// What a histogram or a culprit's row is of: column `scope`.
mod scope {
    pub(super) const THREAD: &str = "thread";
    pub(super) const PTY: &str = "pty";
    pub(super) const FLUSH: &str = "flush";
    pub(super) const HOP: &str = "hop";
    pub(super) const METRIC: &str = "metric";
    pub(super) const PROBE: &str = "probe";
}

/// The row of a histogram that has its count, sum, smallest and largest: column `bucket`.
const WHOLE: i32 = -1;
