//! The run watches what it costs, and makes itself cheaper where that is more than it may: first it drops
//! single events and with them the echoes, and keeps the sums; then it measures a share of the time only. The
//! target is never slowed down to stay within it, and a step that was taken is not taken back.
//!
//! What it costs: the time of its BPF programs, by the kernel's run-time statistics, and its own CPU time, as
//! a share of the machine's (wall time × CPUs). Where the kernel does not time programs (no CAP_SYS_ADMIN)
//! only its own time counts.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::cost::Meter;
use crate::cli::Percent;
use crate::probes::Probes;
use crate::report::model::{ThinLevel, Thinned};
use crate::report::units::duration;
use crate::source::live::monotonic_ns;

/// What is looked at: long enough that the beginning of a run, or one full ring, is no reason.
const WINDOW_NS: u64 = 3_000_000_000;
/// How long is measured at a time when only a share is. Long beside nearly every wait.
const ON: Duration = Duration::from_secs(1);
/// The smallest share.
const LEAST: f64 = 0.02;

/// What it has cost, and what it is to do about it: without a clock or a kernel of its own.
#[derive(Debug)]
struct Judge {
    /// Share of the machine's time, at most.
    limit: Option<f64>,
    cpus: f64,
    /// Time and cost so far, ns, of the last few looks.
    looks: VecDeque<(u64, u64)>,
    level: Option<ThinLevel>,
}

impl Judge {
    /// The cost so far is this, now. The level to go to, if any, and what share it has cost lately.
    fn look(&mut self, now_ns: u64, cost_ns: u64) -> Option<(ThinLevel, f64)> {
        let limit = self.limit?;
        self.looks.push_back((now_ns, cost_ns));
        // The youngest that is old enough stays in front.
        while self
            .looks
            .get(1)
            .is_some_and(|(at, _)| at + WINDOW_NS <= now_ns)
        {
            self.looks.pop_front();
        }
        let &(since, before) = self.looks.front()?;
        let wall = now_ns.saturating_sub(since);
        if wall < WINDOW_NS {
            return None;
        }
        let share = cost_ns.saturating_sub(before) as f64 / (wall as f64 * self.cpus);
        if share <= limit {
            return None;
        }
        let next = match self.level {
            None => ThinLevel::Aggregates,
            Some(ThinLevel::Aggregates) => ThinLevel::Sampled,
            Some(ThinLevel::Sampled) => return None,
        };
        self.level = Some(next);
        // What it costs from now on is to be judged by itself.
        self.looks.clear();
        Some((next, share))
    }
}

/// The share of the time that fits: half of it as a margin, since to stand still costs a little too.
fn fitting(limit: f64, cost: f64) -> f64 {
    (limit / cost / 2.0).clamp(LEAST, 0.5)
}

/// Measures for a while, then not, and so on.
#[derive(Debug)]
struct Duty {
    share: f64,
    turns_at: Instant,
    /// `None` while it measures; else since when it does not.
    paused_ns: Option<u64>,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Budget {
    judge: Judge,
    steps: Vec<Thinned>,
    duty: Option<Duty>,
}

impl Budget {
    pub(crate) fn new(limit: Percent) -> Budget {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Budget {
            judge: Judge {
                limit: limit.0.map(|percent| percent / 100.0),
                cpus: cpus as f64,
                looks: VecDeque::new(),
                level: None,
            },
            steps: Vec::new(),
            duty: None,
        }
    }

    /// Looks what it costs, and takes a step where that is too much.
    pub(super) fn look(&mut self, probes: &mut Probes, meter: &Meter) -> Option<Thinned> {
        let limit = self.judge.limit?;
        let (level, cost) = self.judge.look(monotonic_ns(), meter.total_ns())?;
        // Also when it goes on to sample: what was dropped stays so.
        probes.tell_sums_only();
        let mut measured_share = 1.0;
        if level == ThinLevel::Sampled {
            measured_share = fitting(limit, cost);
            self.duty = Some(Duty {
                share: measured_share,
                turns_at: Instant::now() + ON,
                paused_ns: None,
            });
        }
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let step = Thinned {
            unix_ns: unix.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
            level,
            cost_percent: cost * 100.0,
            budget_percent: limit * 100.0,
            measured_share,
        };
        self.steps.push(step.clone());
        Some(step)
    }

    /// When it begins, or ceases, to measure.
    pub(super) fn turns_at(&self) -> Option<Instant> {
        self.duty.as_ref().map(|d| d.turns_at)
    }

    /// Does so.
    pub(super) fn turn(&mut self, probes: &mut Probes) {
        let Some(duty) = &mut self.duty else {
            return;
        };
        let now_ns = monotonic_ns();
        if duty.paused_ns.take().is_some() {
            probes.resume(now_ns);
            duty.turns_at = Instant::now() + ON;
        } else {
            probes.pause(now_ns);
            duty.paused_ns = Some(now_ns);
            duty.turns_at = Instant::now() + ON.mul_f64(1.0 / duty.share - 1.0);
        }
    }

    /// Since when nothing is measured, if so: CLOCK_MONOTONIC.
    pub(super) fn paused_ns(&self) -> Option<u64> {
        self.duty.as_ref().and_then(|d| d.paused_ns)
    }

    /// For the report.
    pub(super) fn notes(&self) -> Vec<String> {
        self.steps.iter().map(told).collect()
    }
}

/// A step in words.
pub(super) fn told(step: &Thinned) -> String {
    let at = UNIX_EPOCH + Duration::from_nanos(step.unix_ns);
    let what = match step.level {
        ThinLevel::Aggregates => {
            "no echoes and single events any more; the sums of threads, PTYs and hops go on"
                .to_owned()
        }
        ThinLevel::Sampled => format!(
            "of the time {:.0}% is measured, {} at a time: counts and sums are of that share; waits and \
             calls that were cut are in none",
            step.measured_share * 100.0,
            duration(u64::try_from(ON.as_nanos()).unwrap_or(0)),
        ),
    };
    format!(
        "thinned at {}: it cost {:.1}% of the machine, and may cost {}% (--budget); from then on {what}",
        humantime::format_rfc3339_seconds(at),
        step.cost_percent,
        step.budget_percent,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn judge(limit: Option<f64>) -> Judge {
        Judge {
            limit,
            cpus: 2.0,
            looks: VecDeque::new(),
            level: None,
        }
    }

    /// Looks each half second for so long, at this cost in ms a second; the level at its end, and when it came.
    fn run(judge: &mut Judge, from: u64, seconds: u64, cost_ms: u64) -> Vec<(u64, ThinLevel, f64)> {
        let mut steps = Vec::new();
        for half in 0..=seconds * 2 {
            let now = from * SECOND + half * SECOND / 2;
            let cost = now / 1000 * cost_ms;
            if let Some((level, share)) = judge.look(now, cost) {
                steps.push((now / SECOND, level, share));
            }
        }
        steps
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(run(&mut judge(Some(0.01)), 100, 600, 19), []);
        assert_eq!(run(&mut judge(None), 100, 600, 2000), []);
    }

    #[test]
    fn it_goes_step_by_step_and_each_is_judged_by_itself() {
        let mut judge = judge(Some(0.01));
        let steps = run(&mut judge, 100, 60, 100);
        let levels: Vec<_> = steps.iter().map(|s| (s.0, s.1)).collect();
        assert_eq!(
            levels,
            [(103, ThinLevel::Aggregates), (106, ThinLevel::Sampled)]
        );
        assert!(steps.iter().all(|s| (s.2 - 0.05).abs() < 1e-6), "{steps:?}");
    }

    #[test]
    fn a_burst_that_is_over_soon_is_no_reason() {
        let mut judge = judge(Some(0.01));
        // 40 ms of cost at once, in three seconds of two CPUs: 0.7 %.
        for half in 0..40 {
            let cost = if half < 10 { 0 } else { SECOND / 25 };
            assert_eq!(judge.look(half * SECOND / 2, cost), None);
        }
    }

    #[test]
    fn the_share_fits_the_budget_with_a_margin() {
        assert!((fitting(0.01, 0.05) - 0.1).abs() < 1e-9);
        assert!((fitting(0.01, 0.0101) - 0.495).abs() < 0.01);
        assert!((fitting(0.01, 1.0) - LEAST).abs() < 1e-9);
    }
}
