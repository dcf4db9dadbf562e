//! A process's metrics at one moment, or between two: what `GET_PERF` hands out.

mod json;
mod table;

pub use table::Span;

use crate::metric::{Handle, Metric, Unit};
use crate::process::{ProcessStats, uptime};
use crate::snapshot::Snapshot;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of the JSON shape that this crate writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The metrics of a process.
///
/// The numbers are read one by one while the process runs on, so related ones can differ by a
/// sample or so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerfReport {
    /// Version of the shape; [`SCHEMA_VERSION`] when captured here.
    pub schema_version: u32,
    /// "server", "client", or what an embedder calls itself.
    #[serde(default)]
    pub role: String,
    /// Process id, as the process itself sees it.
    #[serde(default)]
    pub pid: u32,
    /// Wall clock of the capture, in milliseconds since 1970.
    #[serde(default)]
    pub captured_unix_ms: u64,
    /// Milliseconds that the report covers: since the start of the process, or of the interval.
    #[serde(default)]
    pub uptime_ms: u64,
    /// The process as a whole; absent where the system does not say.
    #[serde(default)]
    pub process: Option<ProcessStats>,
    /// The metrics, in the order of the process's table.
    #[serde(with = "json")]
    pub metrics: Vec<Reading>,
}

/// One metric of a [`PerfReport`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Dotted name.
    pub name: String,
    /// Unit of the numbers.
    pub unit: Unit,
    /// The numbers.
    pub value: Value,
}

/// The value of a metric, by its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A distribution.
    Histogram(Snapshot),
    /// A number that only grows.
    Counter(u64),
    /// A number that says how it is now.
    Gauge(i64),
    /// A kind that this version does not know, or a value that is not of its kind: kept as it came,
    /// so that a report read and written again has lost nothing.
    Unknown {
        /// The kind's name.
        kind: String,
        /// The value.
        value: serde_json::Value,
    },
}

impl PerfReport {
    /// Reads the table now.
    pub fn capture(role: &str, table: &[Metric]) -> Self {
        let metrics = table
            .iter()
            .map(|metric| Reading {
                name: metric.name.to_owned(),
                unit: metric.unit,
                value: match metric.handle {
                    Handle::Histogram(histogram) => Value::Histogram(histogram.snapshot()),
                    Handle::Counter(counter) => Value::Counter(counter.get()),
                    Handle::Gauge(gauge) => Value::Gauge(gauge.get()),
                },
            })
            .collect();
        Self {
            schema_version: SCHEMA_VERSION,
            role: role.to_owned(),
            pid: std::process::id(),
            captured_unix_ms: millis(
                SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default(),
            ),
            uptime_ms: millis(uptime()),
            process: ProcessStats::capture(),
            metrics,
        }
    }

    /// Sets the table's histograms and counters to zero. Gauges say how it is now, and stay.
    pub fn reset(table: &[Metric]) {
        for metric in table {
            metric.reset();
        }
    }

    /// The metric of this name.
    pub fn get(&self, name: &str) -> Option<&Reading> {
        self.metrics.iter().find(|reading| reading.name == name)
    }

    /// What happened between `earlier` and this report.
    ///
    /// Metrics are matched by name. Counters and histograms subtract; one that went down was reset
    /// in between, and all of it is new. Gauges stay, and so does the peak memory. `uptime_ms`
    /// becomes the length of the interval. A metric that `earlier` lacks is all new.
    ///
    /// If `earlier` is of another process (another pid, or a longer uptime), the process was
    /// replaced in between and this whole report is new: it is the answer.
    pub fn delta(&self, earlier: &Self) -> Self {
        if self.pid != earlier.pid || self.uptime_ms < earlier.uptime_ms {
            return self.clone();
        }
        let before: HashMap<&str, &Value> = earlier
            .metrics
            .iter()
            .map(|reading| (reading.name.as_str(), &reading.value))
            .collect();
        let metrics = self
            .metrics
            .iter()
            .map(|reading| Reading {
                value: match before.get(reading.name.as_str()) {
                    Some(before) => reading.value.delta(before),
                    None => reading.value.clone(),
                },
                ..reading.clone()
            })
            .collect();
        Self {
            uptime_ms: self.uptime_ms - earlier.uptime_ms,
            process: match (self.process, earlier.process) {
                (Some(now), Some(before)) => Some(now.delta(&before)),
                _ => None,
            },
            metrics,
            ..self.clone()
        }
    }

    /// As JSON, on one line.
    ///
    /// # Errors
    /// None in practice: every part of a report has a JSON form.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// From JSON. Unknown keys are ignored, unknown kinds of metric kept as [`Value::Unknown`], and
    /// of the top level only `schema_version` and `metrics` must be there.
    ///
    /// # Errors
    /// The text is not JSON, or not a report.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

impl Value {
    fn delta(&self, earlier: &Self) -> Self {
        match (self, earlier) {
            (Self::Histogram(now), Self::Histogram(before)) => Self::Histogram(now.delta(before)),
            (&Self::Counter(now), &Self::Counter(before)) => {
                Self::Counter(now.checked_sub(before).unwrap_or(now))
            }
            _ => self.clone(),
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
