//! What the looking costs: own CPU time and memory, and the kernel's run-time statistics of our programs.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use aya::sys::{Stats, enable_stats};

use crate::probes::Probes;
use crate::report::model::{Cost, ProgramCost};

/// The kernel takes the time of each run, of everybody's programs, only while somebody asks for it, and
/// that costs as much as a small program: so we ask for so long ...
const SAMPLED: Duration = Duration::from_millis(100);
/// ... and then not for so long. What was counted stands for the rest.
const NOT_SAMPLED: Duration = Duration::from_millis(900);

/// Runs and ns, by program.
type RunTimes = BTreeMap<String, (u64, u64)>;

/// Keeps the account.
pub(crate) struct Meter {
    /// Held while run times are taken, with their counts at the beginning.
    sampling: Option<(OwnedFd, Instant, RunTimes)>,
    /// When that was last begun or ended.
    turned: Instant,
    whole: Account,
    interval: Account,
}

/// What was counted since `began`.
struct Account {
    began: Instant,
    daemon_ns: u64,
    /// Of the time since then, as long as run times were taken.
    sampled: Duration,
    counted: RunTimes,
}

impl Account {
    fn begin() -> Account {
        Account {
            began: Instant::now(),
            daemon_ns: daemon_cpu_ns(),
            sampled: Duration::ZERO,
            counted: RunTimes::new(),
        }
    }

    fn add(&mut self, sampled: Duration, counted: &RunTimes) {
        self.sampled += sampled;
        for (name, (runs, ns)) in counted {
            let sum = self.counted.entry(name.clone()).or_default();
            sum.0 += runs;
            sum.1 += ns;
        }
    }

    /// Scaled up from the time that was sampled to all of `elapsed`; `None` if none was.
    fn estimate(&self, elapsed: Duration) -> Option<Vec<ProgramCost>> {
        let sampled = self.sampled.as_nanos();
        let scaled = |n: u64| {
            let all = u128::from(n) * elapsed.as_nanos() / sampled.max(1);
            u64::try_from(all).unwrap_or(u64::MAX)
        };
        let rows = self.counted.iter().map(|(name, (runs, ns))| ProgramCost {
            name: name.clone(),
            runs: scaled(*runs),
            ns: scaled(*ns),
        });
        let mut programs: Vec<_> = rows.filter(|p| p.runs != 0).collect();
        programs.sort_by_key(|p| std::cmp::Reverse(p.ns));
        (sampled != 0).then_some(programs)
    }
}

impl Meter {
    /// Begins to count.
    pub(crate) fn start(probes: &Probes) -> Meter {
        let mut meter = Meter {
            sampling: None,
            turned: Instant::now(),
            whole: Account::begin(),
            interval: Account::begin(),
        };
        meter.begin_sample(probes);
        meter
    }

    /// To be called often: begins and ends the times in which the kernel takes run times.
    pub(crate) fn turn(&mut self, probes: &Probes) {
        let elapsed = self.turned.elapsed();
        match &self.sampling {
            Some(_) if elapsed >= SAMPLED => {
                self.count(probes);
                self.sampling = None;
                self.turned = Instant::now();
            }
            None if elapsed >= NOT_SAMPLED => self.begin_sample(probes),
            _ => (),
        }
    }

    fn begin_sample(&mut self, probes: &Probes) {
        self.turned = Instant::now();
        // Refused: the programs are not timed, and the report says so.
        self.sampling = enable_stats(Stats::RunTime)
            .ok()
            .map(|fd| (fd, self.turned, run_times(probes)));
    }

    /// Takes what has come since the last look, if run times are being taken.
    fn count(&mut self, probes: &Probes) {
        let Some((_, since, last)) = &mut self.sampling else {
            return;
        };
        let (now, counted) = (Instant::now(), run_times(probes));
        let sampled = now.saturating_duration_since(*since);
        let new = since_last(&counted, last);
        (*since, *last) = (now, counted);
        self.whole.add(sampled, &new);
        self.interval.add(sampled, &new);
    }

    /// What it has cost since the last reading, or in the `whole` run.
    pub(crate) fn read(&mut self, probes: &Probes, whole: bool) -> Cost {
        self.count(probes);
        let account = if whole { &self.whole } else { &self.interval };
        let elapsed = account.began.elapsed();
        let programs = account
            .estimate(elapsed)
            // Too short an interval to have been sampled: as the run was so far.
            .or_else(|| self.whole.estimate(elapsed));
        let cost = Cost {
            daemon_cpu_ns: daemon_cpu_ns().saturating_sub(account.daemon_ns),
            daemon_rss_bytes: rss_bytes(),
            kernel_bytes: probes.kernel_bytes(),
            bpf_ns: programs
                .as_ref()
                .map(|programs| programs.iter().map(|p| p.ns).sum()),
            programs: programs.unwrap_or_default(),
        };
        self.interval = Account::begin();
        cost
    }
}

fn since_last(now: &RunTimes, last: &RunTimes) -> RunTimes {
    now.iter()
        .map(|(name, (runs, ns))| {
            let (r, n) = last.get(name).copied().unwrap_or_default();
            let new = (runs.saturating_sub(r), ns.saturating_sub(n));
            (name.clone(), new)
        })
        .collect()
}

/// By name.
fn run_times(probes: &Probes) -> RunTimes {
    let mut by_name = RunTimes::new();
    for (name, runs, ns) in probes.run_times() {
        let sum = by_name.entry(name).or_default();
        sum.0 += runs;
        sum.1 += ns;
    }
    by_name
}

/// CPU time of this process so far, ns.
pub(crate) fn daemon_cpu_ns() -> u64 {
    phux_perf::ProcessStats::capture().map_or(0, |s| {
        (s.cpu_user_us + s.cpu_system_us).saturating_mul(1000)
    })
}

/// Its resident memory.
pub(crate) fn rss_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|s| s.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_that_was_sampled_stands_for_all() {
        let mut account = Account::begin();
        assert!(
            account.estimate(Duration::from_secs(1)).is_none(),
            "nothing was sampled"
        );
        let counts =
            |switch, wake| RunTimes::from([("switch".into(), switch), ("wake".into(), wake)]);
        let earlier = counts((1_000, 50_000), (7, 70));
        let later = counts((1_010, 56_000), (7, 70));
        account.add(Duration::from_millis(50), &since_last(&later, &earlier));
        account.add(Duration::from_millis(50), &since_last(&later, &earlier));
        let programs = account.estimate(Duration::from_secs(1)).expect("sampled");
        let rows: Vec<_> = programs
            .iter()
            .map(|p| (p.name.as_str(), p.runs, p.ns))
            .collect();
        assert_eq!(
            rows,
            [("switch", 200, 120_000)],
            "what never ran is left out"
        );
    }

    #[test]
    fn counts_that_went_back_are_none() {
        let last = RunTimes::from([("switch".into(), (5, 500))]);
        let now = RunTimes::from([("switch".into(), (4, 400)), ("new".into(), (1, 10))]);
        let new = since_last(&now, &last);
        assert_eq!(new["switch"], (0, 0));
        assert_eq!(new["new"], (1, 10));
    }
}
