//! The view from inside: a phux server's own histograms, over GET_PERF, laid beside the ones that
//! its probes filled in the kernel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use phux_perf::{PerfReport, Snapshot, Unit, Value};

use super::hops::Hops;
use crate::report::model::{Dist, InProcess, InProcessRow};
use crate::target::listening;

/// A starved server answers late; one that does not answer must not hold the report up. For all
/// servers of the target together, since the window is open meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is left of [`PATIENCE`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience(Instant);

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience(Instant::now() + PATIENCE)
    }

    fn left(self) -> Result<Duration, String> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err("not asked: the servers before it took too long".into())
        } else {
            Ok(left)
        }
    }
}

/// What the kernel has of each hop, by process and hop id.
type Outside = BTreeMap<(u32, u32), Snapshot>;

/// A server that hands out its own histograms, as it was when the window began.
#[derive(Debug)]
pub(crate) struct Inside {
    pid: u32,
    socket: PathBuf,
    before: PerfReport,
    outside_before: Outside,
}

impl Inside {
    /// Asks the server. `outside` reads what the kernel has, at the same moment.
    ///
    /// # Errors
    /// In words, for the report: it has no socket, no GET_PERF, or does not answer.
    pub(crate) fn begin(
        pid: u32,
        patience: Patience,
        outside: impl FnOnce() -> Outside,
    ) -> Result<Inside, String> {
        let mut refusals = Vec::new();
        for socket in listening::sockets(pid) {
            match ask(&socket, patience) {
                Ok(before) => {
                    return Ok(Inside {
                        pid,
                        socket,
                        before,
                        outside_before: outside(),
                    });
                }
                Err(e) => refusals.push(e),
            }
        }
        Err(refusals
            .pop()
            .unwrap_or_else(|| "it listens on no socket that can be reached".into()))
    }

    /// Asks again and lays both views beside each other: what came since [`Inside::begin`].
    pub(crate) fn end(
        &self,
        patience: Patience,
        outside: impl FnOnce() -> Outside,
        hops: &Hops,
    ) -> Looked {
        let after = match ask(&self.socket, patience) {
            Ok(after) => after,
            Err(why) => return missing(self.pid, why),
        };
        let outside = outside();
        let since = after.delta(&self.before);
        let mut seen: BTreeMap<String, Snapshot> = BTreeMap::new();
        for ((pid, id), now) in &outside {
            let Some(hop) = hops.get(*id).filter(|_| *pid == self.pid) else {
                continue;
            };
            let then = self
                .outside_before
                .get(&(*pid, *id))
                .cloned()
                .unwrap_or_default();
            seen.entry(hop.metric())
                .or_default()
                .merge(&now.delta(&then));
        }
        let rows = since.metrics.iter().filter_map(|m| {
            let Value::Histogram(inside) = &m.value else {
                return None;
            };
            Some(Metric {
                name: m.name.clone(),
                unit: unit(m.unit).to_owned(),
                inside: inside.clone(),
                outside: seen.get(&m.name).cloned(),
            })
        });
        Looked {
            pid: self.pid,
            role: since.role.clone(),
            metrics: rows.collect(),
            missing: None,
        }
    }
}

/// Both views of one process, of the time between two looks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looked {
    pub(crate) pid: u32,
    /// What it calls itself.
    pub(crate) role: String,
    pub(crate) metrics: Vec<Metric>,
    /// Why its own view is not to be had.
    pub(crate) missing: Option<String>,
}

/// One of its histograms.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) inside: Snapshot,
    /// As the kernel has it; `None`: no such probe.
    pub(crate) outside: Option<Snapshot>,
}

impl Looked {
    /// As the report has it.
    pub(crate) fn row(&self) -> InProcess {
        let rows = self.metrics.iter().map(|m| InProcessRow {
            metric: m.name.clone(),
            unit: m.unit.clone(),
            inside: Dist::from(&m.inside),
            outside: m.outside.as_ref().map(Dist::from),
            differing: m.outside.as_ref().map(|o| differing(&m.inside, o)),
            unexplained: None,
        });
        InProcess {
            pid: self.pid,
            role: self.role.clone(),
            rows: rows.collect(),
            missing: self.missing.clone(),
        }
    }
}

/// A process whose own view is not to be had, and why.
pub(crate) fn missing(pid: u32, why: String) -> Looked {
    Looked {
        pid,
        missing: Some(why),
        ..Looked::default()
    }
}

/// As the JSON of the process itself names it.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Micros => "micros",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
        _ => "other",
    }
}

/// Samples that are in a bucket of one and not of the other.
fn differing(a: &Snapshot, b: &Snapshot) -> u64 {
    (0..phux_perf::BUCKETS)
        .map(|i| a.bucket(i).abs_diff(b.bucket(i)))
        .sum()
}

fn ask(socket: &Path, patience: Patience) -> Result<PerfReport, String> {
    let json = phux_wire::get_perf(socket, "phux-trace", false, patience.left()?)
        .map_err(|e| e.to_string())?;
    PerfReport::from_json(&json).map_err(|e| format!("its report is not understood: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_that_only_one_side_has_counts() {
        let (mut a, mut b) = (Snapshot::default(), Snapshot::default());
        for v in [1, 2, 2, 900] {
            a.record(v);
        }
        assert_eq!(differing(&a, &a), 0);
        for v in [1, 2, 5000] {
            b.record(v);
        }
        assert_eq!(differing(&a, &b), 3);
    }
}
