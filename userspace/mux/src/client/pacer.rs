//! Decides when to paint: at once after a key, else at most once per frame interval.

use std::time::{Duration, Instant};

use phux_perf::hop;

use crate::perf::client::{PACER_HOLD, PACER_LATE, PACER_REPLIES, PACER_WAITS};
use crate::perf::micros;

/// The longest time after a key in which output counts as the answer to it.
const GRACE_MAX: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Pacer {
    interval: Duration,
    grace_min: Duration,
    last_paint: Option<Instant>,
    /// Since when there is something to paint, and when it is due.
    dirty: Option<(Instant, Instant)>,
    typed: Option<Instant>,
    rtt: Duration,
    seq: u64,
}

impl Pacer {
    /// Intervals in milliseconds: `PHUX_FRAME_INTERVAL_MS` and `PHUX_INPUT_GRACE_MS`.
    pub(super) fn from_env() -> Self {
        let ms = |name: &str, default| {
            let set = std::env::var(name).ok().and_then(|v| v.parse().ok());
            Duration::from_millis(set.unwrap_or(default))
        };
        Self::new(
            ms("PHUX_FRAME_INTERVAL_MS", 16),
            ms("PHUX_INPUT_GRACE_MS", 20),
        )
    }

    fn new(interval: Duration, grace_min: Duration) -> Self {
        Self {
            interval,
            grace_min,
            last_paint: None,
            dirty: None,
            typed: None,
            rtt: Duration::ZERO,
            seq: 0,
        }
    }

    /// A key was sent.
    pub(super) fn typed(&mut self, now: Instant) {
        self.typed = Some(now);
    }

    /// The pane answered a key after so long.
    pub(super) fn answered(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    /// There is something to paint.
    pub(super) fn dirty(&mut self, now: Instant) {
        if self.dirty.is_some() {
            // A key typed since may have made it urgent.
            if self.replying(now) {
                self.dirty = self.dirty.map(|(since, _)| (since, now));
            }
            return;
        }
        let paced = self
            .last_paint
            .map_or(now, |last| now.max(last + self.interval));
        if self.replying(now) {
            PACER_REPLIES.increment();
            self.dirty = Some((now, now));
        } else {
            if paced > now {
                PACER_WAITS.increment();
            }
            self.dirty = Some((now, paced));
        }
    }

    fn replying(&self, now: Instant) -> bool {
        let grace = self.grace_min.max(2 * self.rtt).min(GRACE_MAX);
        self.typed
            .is_some_and(|typed| now.saturating_duration_since(typed) < grace)
    }

    /// When to paint next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.dirty.map(|(_, due)| due)
    }

    /// Whether to paint now; if so, it is taken as done.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        match self.dirty {
            Some((since, due)) if due <= now => {
                if due > since {
                    self.seq += 1;
                    hop!(PACER_HOLD, micros(since), 0u32, self.seq);
                    hop!(PACER_LATE, micros(due), 0u32, self.seq);
                }
                self.dirty = None;
                self.last_paint = Some(now);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn floods_are_paced_and_answers_are_not() {
        let start = Instant::now();
        let mut pacer = Pacer::new(16 * MS, 20 * MS);
        assert_eq!(pacer.due(), None);
        pacer.dirty(start);
        assert!(pacer.take(start), "the first paint is at once");
        pacer.dirty(start + MS);
        assert_eq!(pacer.due(), Some(start + 16 * MS));
        assert!(!pacer.take(start + 15 * MS));
        pacer.dirty(start + 10 * MS);
        assert!(pacer.take(start + 16 * MS));
        pacer.typed(start + 17 * MS);
        pacer.dirty(start + 18 * MS);
        assert!(pacer.take(start + 18 * MS));
        pacer.dirty(start + 37 * MS);
        assert!(!pacer.take(start + 33 * MS), "after the grace it is paced");
    }

    #[test]
    fn the_grace_grows_with_the_round_trip_up_to_a_limit() {
        let start = Instant::now();
        let mut pacer = Pacer::new(16 * MS, 20 * MS);
        pacer.typed(start);
        pacer.answered(60 * MS);
        assert!(pacer.replying(start + 119 * MS));
        assert!(!pacer.replying(start + 120 * MS));
        pacer.answered(1000 * MS);
        assert!(pacer.replying(start + 249 * MS));
        assert!(!pacer.replying(start + 250 * MS));
    }
}
