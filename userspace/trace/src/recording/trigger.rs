//! The conditions of `record --ring … --on CONDITION`.

use std::collections::VecDeque;
use std::str::FromStr;

use crate::echo::Chain;

/// Echoes that a percentile is of: those of so long, ns.
const WINDOW_NS: u64 = 10_000_000_000;
/// And at most so many.
const MOST: usize = 65_536;

/// `echo.p99>10ms`: a percentile of the echoes of the last ten seconds is above a length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// 0 < p ≤ 100; 100 is the longest.
    percentile: f64,
    above_ns: u64,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        const FORM: &str = "is no condition: echo.p99>10ms, echo.max>100ms";
        let (what, length) = text.split_once('>').ok_or(FORM)?;
        let what = what.trim().strip_prefix("echo.").ok_or(FORM)?;
        let percentile = match what {
            "max" => 100.0,
            _ => {
                let number = what.strip_prefix('p').ok_or(FORM)?;
                number.parse::<f64>().map_err(|_| FORM)?
            }
        };
        if !(percentile > 0.0 && percentile <= 100.0) {
            return Err(FORM.into());
        }
        let above = crate::cli::duration(length)?;
        Ok(Condition {
            percentile,
            above_ns: u64::try_from(above.as_nanos()).unwrap_or(u64::MAX),
        })
    }
}

/// Looks whether a condition holds. Fires when it begins to hold.
#[derive(Debug)]
pub struct Trigger {
    condition: Condition,
    /// End and length of each echo.
    recent: VecDeque<(u64, u64)>,
    holds: bool,
}

impl Trigger {
    /// Does not hold yet.
    pub fn new(condition: Condition) -> Trigger {
        Trigger {
            condition,
            recent: VecDeque::new(),
            holds: false,
        }
    }

    /// These echoes have ended, and it is then: whether it fires. What was never answered counts as long as
    /// it was waited for.
    pub fn fires(&mut self, chains: &[Chain], now_ns: u64) -> bool {
        let ends = chains
            .iter()
            .map(|c| (c.begin.saturating_add(c.length_ns()), c.length_ns()));
        self.recent.extend(ends);
        let since = now_ns.saturating_sub(WINDOW_NS);
        self.recent.retain(|(end, _)| *end >= since);
        while self.recent.len() > MOST {
            self.recent.pop_front();
        }
        let mut lengths: Vec<u64> = self.recent.iter().map(|(_, length)| *length).collect();
        lengths.sort_unstable();
        let rank = (self.condition.percentile * lengths.len() as f64 / 100.0).ceil() as usize;
        let value = lengths.get(rank.saturating_sub(1));
        let holds = value.is_some_and(|v| *v > self.condition.above_ns);
        let fires = holds && !self.holds;
        self.holds = holds;
        fires
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(end: u64, length: u64) -> Chain {
        use crate::echo::{Actor, End, Link, LinkKind, Parts};
        let begin = end - length;
        Chain {
            id: 1,
            pty: crate::stats::PtyId {
                devpts: 1,
                index: 1,
            },
            bytes: 1,
            begin,
            end: End::Echoed { bytes: 1 },
            links: vec![Link {
                kind: LinkKind::Child,
                actor: Actor::default(),
                from: begin,
                until: end,
                parts: Parts::default(),
                ran_instead: Vec::new(),
                blocked_on: Vec::new(),
                major_faults: 0,
            }],
            confirmed: None,
            inexact: false,
        }
    }

    #[test]
    fn fires_once_when_it_begins_to_hold() {
        let condition: Condition = "echo.max > 10ms".parse().expect("a condition");
        let mut trigger = Trigger::new(condition);
        const S: u64 = 1_000_000_000;
        assert!(!trigger.fires(&[], S));
        assert!(!trigger.fires(&[chain(S, 10_000_000)], S), "not above");
        assert!(trigger.fires(&[chain(S, 10_000_001)], S));
        assert!(!trigger.fires(&[chain(S, 20_000_000)], 2 * S), "holds on");
        assert!(!trigger.fires(&[], 20 * S), "those are long ago");
        assert!(trigger.fires(&[chain(20 * S, 20_000_000)], 20 * S));
    }

    #[test]
    fn conditions_are_understood_or_refused() {
        let parsed: Condition = "echo.p99.9>1.5s".parse().expect("a condition");
        assert_eq!((parsed.percentile, parsed.above_ns), (99.9, 1_500_000_000));
        for bad in [
            "",
            "echo.p99",
            "echo.p0>1s",
            "echo.p101>1s",
            "p99>1s",
            "echo.p99>soon",
            "echo.x>1s",
        ] {
            assert!(bad.parse::<Condition>().is_err(), "{bad}");
        }
    }
}
