//! What the looking costs: own CPU time and memory, and the kernel's run-time statistics of our programs.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use aya::sys::{Stats, enable_stats};

use crate::probes::Probes;
use crate::report::model::{Cost, ProgramCost};

/// Keeps the account. The kernel counts run times only while this lives.
pub(crate) struct Meter {
    stats: Option<OwnedFd>,
    start: Reading,
    last: Reading,
}

/// The counters at one moment.
#[derive(Clone)]
struct Reading {
    daemon_ns: u64,
    /// Runs and ns, by program.
    programs: BTreeMap<String, (u64, u64)>,
}

impl Reading {
    fn now(probes: &Probes) -> Reading {
        Reading {
            daemon_ns: daemon_cpu_ns(),
            programs: run_times(probes),
        }
    }
}

impl Meter {
    /// Begins to count.
    pub(crate) fn start(probes: &Probes) -> Meter {
        let stats = enable_stats(Stats::RunTime).ok();
        let start = Reading::now(probes);
        Meter {
            stats,
            last: start.clone(),
            start,
        }
    }

    /// What it has cost since the last reading, or in the `whole` run.
    pub(crate) fn read(&mut self, probes: &Probes, whole: bool) -> Cost {
        let now = Reading::now(probes);
        let since = if whole { &self.start } else { &self.last };
        let mut programs: Vec<ProgramCost> = now
            .programs
            .iter()
            .map(|(name, (runs, ns))| {
                let (r, n) = since.programs.get(name).copied().unwrap_or_default();
                ProgramCost {
                    name: name.clone(),
                    runs: runs.saturating_sub(r),
                    ns: ns.saturating_sub(n),
                }
            })
            .filter(|p| p.runs != 0)
            .collect();
        programs.sort_by_key(|p| std::cmp::Reverse(p.ns));
        let cost = Cost {
            daemon_cpu_ns: now.daemon_ns.saturating_sub(since.daemon_ns),
            daemon_rss_bytes: rss_bytes(),
            bpf_ns: self
                .stats
                .is_some()
                .then(|| programs.iter().map(|p| p.ns).sum()),
            programs,
        };
        self.last = now;
        cost
    }
}

/// By name.
fn run_times(probes: &Probes) -> BTreeMap<String, (u64, u64)> {
    let mut by_name: BTreeMap<String, (u64, u64)> = BTreeMap::new();
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
