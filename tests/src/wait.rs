//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// How often a condition is looked at: short beside every deadline, long beside a poll's cost.
const STEP: Duration = Duration::from_millis(5);

/// Polls `cond` until it gives a value; `None` when `deadline` has passed first.
pub fn wait_for<T>(deadline: Duration, mut cond: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    loop {
        if let Some(value) = cond() {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_value_as_soon_as_there_is_one() {
        let mut left = 3;
        let got = wait_for(Duration::from_secs(5), || {
            left -= 1;
            (left == 0).then_some("there")
        });
        assert_eq!(got, Some("there"));
    }

    #[test]
    fn gives_up_at_the_deadline() {
        assert_eq!(wait_for(Duration::from_millis(20), || None::<()>), None);
    }
}
