//! The client's own telemetry, which does not travel on the wire: it goes to the log, when the
//! session ends and, with `PHUX_RENDER_PROF=1`, once a second.

use std::time::{Duration, Instant};

use phux_perf::{PerfReport, Value};

use crate::perf::client::METRICS;

/// At most one `render_prof` line in this time.
const PROF_INTERVAL: Duration = Duration::from_secs(1);

/// Writes `render_prof` lines while the session runs, if asked for.
#[derive(Debug)]
pub(super) struct RenderProf {
    next: Option<Instant>,
    before: PerfReport,
}

impl RenderProf {
    pub(super) fn from_env() -> Self {
        let wanted = std::env::var("PHUX_RENDER_PROF").is_ok_and(|v| v == "1");
        let next = wanted.then(|| Instant::now() + PROF_INTERVAL);
        Self {
            next,
            before: PerfReport::capture("client", METRICS),
        }
    }

    /// When the next line is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Writes a line about the time since the last one, if it is due.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        self.next = Some(now + PROF_INTERVAL);
        let report = PerfReport::capture("client", METRICS);
        log_report("render_prof:", &report.delta(&self.before));
        self.before = report;
    }
}

/// The line at the end of a session.
pub(super) fn session_perf() {
    log_report("session perf:", &PerfReport::capture("client", METRICS));
}

/// The summary that upstream writes, and the whole report behind it.
fn log_report(head: &str, report: &PerfReport) {
    let figure = |name: &str, of: fn(&Value) -> u64| {
        report.get(name).map_or(0, |reading| of(&reading.value))
    };
    let count = |name| figure(name, count);
    let p = |name, of| figure(name, of);
    let json = report.to_json().unwrap_or_default();
    log::info!(
        "{head} echo n={} p50={}us p99={}us max={}us; vt_apply p99={}us; \
        paint.full n={} p50={}us p99={}us; frames={} painted={} pacer_waits={} stdout_drops={} \
        perf={json}",
        count("echo.rtt"),
        p("echo.rtt", p50),
        p("echo.rtt", p99),
        p("echo.rtt", max),
        p("vt_apply", p99),
        count("paint.full"),
        p("paint.full", p50),
        p("paint.full", p99),
        count("frames.received"),
        count("frames.painted"),
        count("pacer.waits"),
        count("stdout.drops"),
    );
}

fn count(value: &Value) -> u64 {
    match value {
        Value::Histogram(h) => h.count,
        Value::Counter(n) => *n,
        _ => 0,
    }
}

fn p50(value: &Value) -> u64 {
    if let Value::Histogram(h) = value {
        h.percentile(50.0)
    } else {
        0
    }
}

fn p99(value: &Value) -> u64 {
    if let Value::Histogram(h) = value {
        h.percentile(99.0)
    } else {
        0
    }
}

fn max(value: &Value) -> u64 {
    if let Value::Histogram(h) = value {
        h.max
    } else {
        0
    }
}
