//! The table of a program's metrics.

use crate::counter::{Counter, Gauge};
use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// What a metric's numbers are numbers of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unit {
    /// Microseconds.
    Micros,
    /// Bytes.
    Bytes,
    /// A plain number.
    Count,
    /// A unit that a newer program has and this one does not know.
    #[serde(other)]
    Other,
}

/// One row of a metric table: a name for a static.
///
/// A program has its table as a `static`, in the order in which it wants it read:
///
/// ```
/// use phux_perf::{Counter, Gauge, Metric, PerfReport, Unit};
/// phux_perf::hops! {
///     static PTY_READ_SIZE: "pty.read.size", Bytes, pty__read__size;
/// }
/// static PTY_READ_BYTES: Counter = Counter::new();
/// static CLIENTS: Gauge = Gauge::new();
/// static METRICS: &[Metric] = &[
///     PTY_READ_SIZE.metric(),
///     Metric::counter("pty.read.bytes", Unit::Bytes, &PTY_READ_BYTES),
///     Metric::gauge("proc.clients", Unit::Count, &CLIENTS),
/// ];
/// # fn main() {
/// let report = PerfReport::capture("server", METRICS);
/// # assert_eq!(report.metrics.len(), 3);
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Dotted name. Names are no contract: a reader ignores those it does not know.
    pub name: &'static str,
    /// Unit of the values.
    pub unit: Unit,
    /// Where the values are, which is also the metric's kind.
    pub handle: Handle,
}

/// The static behind a [`Metric`].
#[derive(Clone, Copy, Debug)]
pub enum Handle {
    /// A distribution.
    Histogram(&'static Histogram),
    /// A number that only grows.
    Counter(&'static Counter),
    /// A number that says how it is now.
    Gauge(&'static Gauge),
}

impl Metric {
    /// A row for a histogram. For a hop there is [`Hop::metric`](crate::Hop::metric).
    pub const fn histogram(name: &'static str, unit: Unit, handle: &'static Histogram) -> Self {
        Self {
            name,
            unit,
            handle: Handle::Histogram(handle),
        }
    }

    /// A row for a counter.
    pub const fn counter(name: &'static str, unit: Unit, handle: &'static Counter) -> Self {
        Self {
            name,
            unit,
            handle: Handle::Counter(handle),
        }
    }

    /// A row for a gauge.
    pub const fn gauge(name: &'static str, unit: Unit, handle: &'static Gauge) -> Self {
        Self {
            name,
            unit,
            handle: Handle::Gauge(handle),
        }
    }

    /// Empties a histogram, zeroes a counter; leaves a gauge alone, which says how it is now.
    pub fn reset(&self) {
        match self.handle {
            Handle::Histogram(histogram) => histogram.reset(),
            Handle::Counter(counter) => counter.reset(),
            Handle::Gauge(_) => {}
        }
    }
}
