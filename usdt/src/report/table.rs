//! A report as text, for a person.

use super::{PerfReport, Reading, Value};
use crate::metric::Unit;
use std::fmt::{self, Write};

/// The span of time that a [`PerfReport`] covers, which decides how its table reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Since the start of the process, as [`PerfReport::capture`] gives it: no rates.
    SinceStart,
    /// An interval, as [`PerfReport::delta`] gives it: with rates per second.
    Interval,
}

/// Narrowest column of names: fits `consumer.mailbox_full`.
const NAME_WIDTH: usize = 21;

impl PerfReport {
    /// The report as a table: a line about the process, a line of headings, a line per metric, and
    /// an empty line between groups of names (the part before the first dot).
    pub fn text_table(&self, span: Span) -> String {
        let mut text = String::new();
        // Writing into a String does not fail.
        let _ = self.write_table(&mut text, span);
        text
    }

    fn write_table(&self, out: &mut String, span: Span) -> fmt::Result {
        self.write_header(out, span)?;
        let width = self
            .metrics
            .iter()
            .map(|reading| reading.name.len())
            .max()
            .unwrap_or(0);
        let width = width.max(NAME_WIDTH);
        let headings = ["count", "rate/s", "p50", "p90", "p99", "max"].map(str::to_owned);
        write_row(out, width, "metric", &headings)?;
        let mut group = None;
        for reading in &self.metrics {
            let this = reading.name.split('.').next();
            if group.is_some() && group != Some(this) {
                out.push('\n');
            }
            group = Some(this);
            write_row(out, width, &reading.name, &self.cells(reading, span))?;
        }
        Ok(())
    }

    fn write_header(&self, out: &mut String, span: Span) -> fmt::Result {
        let word = match span {
            Span::SinceStart => "uptime",
            Span::Interval => "last",
        };
        write!(
            out,
            "{} pid {}  {word} {}",
            self.role,
            self.pid,
            duration(self.uptime_ms)
        )?;
        if let Some(process) = self.process {
            let cpu_us = process.cpu_user_us.saturating_add(process.cpu_system_us);
            let percent = cpu_us as f64 / (self.uptime_ms.max(1) as f64 * 1000.0) * 100.0;
            write!(
                out,
                "  cpu {percent:.1}% (user {} sys {})  peak rss {}  ctx switches vol {} invol {}",
                micros(process.cpu_user_us),
                micros(process.cpu_system_us),
                bytes(process.max_rss_bytes),
                process.voluntary_ctx_switches,
                process.involuntary_ctx_switches,
            )?;
        }
        out.push('\n');
        Ok(())
    }

    /// The cells after the name: count, rate and four figures of the distribution.
    fn cells(&self, reading: &Reading, span: Span) -> [String; 6] {
        let format = |value| in_unit(value, reading.unit);
        let none = || "-".to_owned();
        let rate = |value: u64, unit| match span {
            Span::Interval if self.uptime_ms > 0 => {
                per_second(value as f64 * 1000.0 / self.uptime_ms as f64, unit)
            }
            _ => none(),
        };
        match &reading.value {
            Value::Histogram(snapshot) => [
                snapshot.count.to_string(),
                rate(snapshot.count, Unit::Count),
                format(snapshot.percentile(50.0)),
                format(snapshot.percentile(90.0)),
                format(snapshot.percentile(99.0)),
                format(snapshot.max),
            ],
            Value::Counter(value) => [
                format(*value),
                rate(*value, reading.unit),
                none(),
                none(),
                none(),
                none(),
            ],
            Value::Gauge(value) => {
                let value = match u64::try_from(*value) {
                    Ok(value) => format(value),
                    Err(_) => value.to_string(),
                };
                [value, "gauge".to_owned(), none(), none(), none(), none()]
            }
            Value::Unknown { .. } => {
                std::array::from_fn(|i| if i == 0 { "?".into() } else { none() })
            }
        }
    }
}

fn write_row(out: &mut String, width: usize, name: &str, cells: &[String; 6]) -> fmt::Result {
    let [count, rate, p50, p90, p99, max] = cells;
    writeln!(
        out,
        "{name:<width$}{count:>9}{rate:>8}{p50:>8}{p90:>9}{p99:>9}{max:>9}"
    )
}

fn in_unit(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Micros => micros(value),
        Unit::Bytes => bytes(value),
        Unit::Count | Unit::Other => value.to_string(),
    }
}

/// `714us`, `4.2ms`, `1.3s`.
fn micros(us: u64) -> String {
    // The bounds lie where one decimal would round up to 1000 of the smaller unit.
    match us {
        0..1_000 => format!("{us}us"),
        1_000..999_950 => format!("{:.1}ms", us as f64 / 1e3),
        _ => format!("{:.1}s", us as f64 / 1e6),
    }
}

/// `51B`, `48.0KiB`, `11.3MiB`.
fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].iter();
    let mut unit = units.next().unwrap_or(&"");
    while value >= 1023.95 {
        let Some(larger) = units.next() else { break };
        value /= 1024.0;
        unit = larger;
    }
    format!("{value:.1}{unit}")
}

fn per_second(rate: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => bytes(rate.round() as u64),
        Unit::Micros => micros(rate.round() as u64),
        Unit::Count | Unit::Other if rate < 1000.0 => format!("{rate:.1}"),
        Unit::Count | Unit::Other => format!("{rate:.0}"),
    }
}

/// `9.5s`, `10m12s`, `3h05m`, `2d07h`.
fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}.{}s", ms % 1000 / 100),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_at_the_edges_of_their_units() {
        for (value, text) in [
            (0, "0us"),
            (999, "999us"),
            (1000, "1.0ms"),
            (999_949, "999.9ms"),
            (999_950, "1.0s"),
        ] {
            assert_eq!(micros(value), text);
        }
        for (value, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.0KiB"),
            (1024 * 1024 - 1, "1.0MiB"),
            (u64::MAX, "16.0EiB"),
        ] {
            assert_eq!(bytes(value), text);
        }
        for (ms, text) in [
            (9_540, "9.5s"),
            (60_000, "1m00s"),
            (612_000, "10m12s"),
            (11_100_000, "3h05m"),
            (198_000_000, "2d07h"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }
}
