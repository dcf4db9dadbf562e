//! Timing a scope.

use crate::histogram::Histogram;
use crate::hop::{Hop, Probe};
#[cfg(not(feature = "disabled"))]
use std::time::Instant;

/// A clock reading, or nothing where recording is compiled out.
#[derive(Debug, Clone, Copy)]
struct Started(#[cfg(not(feature = "disabled"))] Instant);

impl Started {
    #[inline(always)]
    fn now() -> Self {
        Self(
            #[cfg(not(feature = "disabled"))]
            Instant::now(),
        )
    }

    #[inline(always)]
    fn micros(self) -> u64 {
        #[cfg(not(feature = "disabled"))]
        return u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX);
        #[cfg(feature = "disabled")]
        return 0;
    }
}

/// Records the microseconds from its start to its drop into a histogram.
///
/// Two clock reads, which cost more than the record itself.
#[derive(Debug)]
#[must_use = "a timer that is dropped at once measures nothing"]
pub struct Timer<'a> {
    histogram: Option<&'a Histogram>,
    started: Started,
}

impl<'a> Timer<'a> {
    /// Starts the clock.
    #[inline(always)]
    pub fn start(histogram: &'a Histogram) -> Self {
        Self {
            histogram: Some(histogram),
            started: Started::now(),
        }
    }

    /// Ends the timer without recording.
    pub fn cancel(mut self) {
        self.histogram = None;
    }
}

impl Drop for Timer<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(histogram) = self.histogram {
            histogram.record(self.started.micros());
        }
    }
}

/// As [`Timer`], for a hop: its drop records and fires the probe. Made by [`Hop::timer`].
#[derive(Debug)]
#[must_use = "a timer that is dropped at once measures nothing"]
pub struct HopTimer<'a, P: Probe> {
    hop: Option<&'a Hop<P>>,
    started: Started,
    id: u64,
    sequence: u64,
}

impl<'a, P: Probe> HopTimer<'a, P> {
    #[inline(always)]
    pub(crate) fn start(hop: &'a Hop<P>, id: u64, sequence: u64) -> Self {
        Self {
            hop: Some(hop),
            started: Started::now(),
            id,
            sequence,
        }
    }

    /// Ends the timer without recording.
    pub fn cancel(mut self) {
        self.hop = None;
    }
}

impl<P: Probe> Drop for HopTimer<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(hop) = self.hop {
            hop.record(self.started.micros(), self.id, self.sequence);
        }
    }
}

#[cfg(all(test, not(feature = "disabled")))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn drop_records_the_elapsed_micros() {
        let histogram = Histogram::new();
        let outer = Instant::now();
        let timer = Timer::start(&histogram);
        while outer.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        let at_least = 1_900;
        drop(timer);
        let at_most = outer.elapsed().as_micros() as u64;
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.count, 1);
        assert!(
            (at_least..=at_most).contains(&snapshot.sum),
            "{} us",
            snapshot.sum
        );
    }

    #[test]
    fn a_cancelled_timer_records_nothing() {
        let histogram = Histogram::new();
        Timer::start(&histogram).cancel();
        assert!(histogram.snapshot().is_empty());
    }
}
