//! The metrics. Few series: by capture and by a handful of words, never by process, file or PTY.

use phux_perf::{ProcessStats, Snapshot};

use crate::daemon::answer::CaptureRow;
use crate::daemon::captures::Captures;
use crate::record::Figures;

/// What a family is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Metrics of one name.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    pub(super) metrics: Vec<Metric>,
}

/// One series.
#[derive(Debug)]
pub(super) struct Metric {
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: Value,
}

/// What it says.
#[derive(Debug)]
pub(super) enum Value {
    Number(f64),
    Distribution(Box<Distribution>),
}

/// A histogram in the unit that Prometheus wants.
#[derive(Debug)]
pub(super) struct Distribution {
    pub(super) snapshot: Snapshot,
    pub(super) unit: Unit,
}

/// What a histogram's values are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Kept in ns, told in seconds.
    Seconds,
    Bytes,
}

impl Unit {
    /// As it is told.
    pub(super) fn of(self, value: u64) -> f64 {
        match self {
            // By division: 1e-9 is no number that a float has, and its error would be multiplied.
            Unit::Seconds => value as f64 / 1e9,
            Unit::Bytes => value as f64,
        }
    }
}

/// Everything there is to tell now.
pub(super) async fn of(captures: &Captures) -> Vec<Family> {
    let mut families = Families::default();
    families.daemon(captures);
    for (row, figures) in captures.figures().await {
        families.capture(&row, &figures);
    }
    families.0
}

#[derive(Debug, Default)]
pub(super) struct Families(pub(super) Vec<Family>);

impl Families {
    fn add(
        &mut self,
        (name, help, kind): (&'static str, &'static str, Kind),
        labels: Vec<(&'static str, String)>,
        value: Value,
    ) {
        let metric = Metric { labels, value };
        match self.0.iter_mut().find(|f| f.name == name) {
            Some(family) => family.metrics.push(metric),
            None => self.0.push(Family {
                name,
                help,
                kind,
                metrics: vec![metric],
            }),
        }
    }

    fn number(&mut self, what: (&'static str, &'static str, Kind), value: f64) {
        self.add(what, Vec::new(), Value::Number(value));
    }

    fn daemon(&mut self, captures: &Captures) {
        use Kind::{Counter, Gauge};
        let build = (
            "phux_trace_build_info",
            "Version of phux-trace, as a label.",
            Gauge,
        );
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        self.add(build, version, Value::Number(1.0));
        let rows = captures.rows();
        let running = rows.iter().filter(|r| !r.state.is_over()).count();
        self.number(
            ("phux_trace_captures", "Captures under way.", Gauge),
            running as f64,
        );
        let stored = captures.stored();
        let bytes: u64 = stored.iter().map(|s| s.bytes).sum();
        let recordings = (
            "phux_trace_recordings",
            "Recordings on the disk, those under way included.",
            Gauge,
        );
        self.number(recordings, stored.len() as f64);
        let on_disk = (
            "phux_trace_recordings_bytes",
            "What they take on the disk.",
            Gauge,
        );
        self.number(on_disk, bytes as f64);
        let removed = (
            "phux_trace_recordings_removed_total",
            "Recordings removed because they were too old, or all of them too large.",
            Counter,
        );
        self.number(removed, captures.removed() as f64);
        if let Some(own) = ProcessStats::capture() {
            let cpu = (own.cpu_user_us + own.cpu_system_us) as f64 / 1e6;
            let what = (
                "process_cpu_seconds_total",
                "CPU time of the daemon itself, its BPF programs not included.",
                Counter,
            );
            self.number(what, cpu);
        }
        let resident = (
            "process_resident_memory_bytes",
            "Resident memory of the daemon.",
            Gauge,
        );
        self.number(resident, crate::attach::cost::rss_bytes() as f64);
    }

    /// One capture that records.
    pub(super) fn capture(&mut self, row: &CaptureRow, figures: &Figures) {
        use Kind::{Counter, Gauge};
        let labels = |more: &[(&'static str, &str)]| {
            let mut labels = vec![
                ("capture", row.name.clone()),
                ("target", row.target.clone()),
            ];
            labels.extend(more.iter().map(|(k, v)| (*k, (*v).to_owned())));
            labels
        };
        let mut number = |what, more: &[(&'static str, &str)], value: f64| {
            self.add(what, labels(more), Value::Number(value));
        };
        let rows = (
            "phux_trace_capture_rows_total",
            "Rows that were recorded.",
            Counter,
        );
        number(rows, &[], row.rows as f64);
        let ring = (
            "phux_trace_capture_ring_bytes",
            "What a flight recorder holds in memory.",
            Gauge,
        );
        number(ring, &[], row.ring_bytes as f64);
        let dumps = (
            "phux_trace_capture_dumps_total",
            "How often a flight recorder was written out.",
            Counter,
        );
        number(dumps, &[], row.dumps as f64);
        for loss in &figures.losses {
            let what = (
                "phux_trace_capture_lost_total",
                "What was lost, by class: see the table losses of the recording.",
                Counter,
            );
            number(what, &[("class", &loss.class)], loss.count as f64);
        }
        if let Some(ns) = figures.bpf_ns {
            let what = (
                "phux_trace_capture_bpf_seconds_total",
                "Time that the capture's BPF programs took.",
                Counter,
            );
            number(what, &[], ns as f64 / 1e9);
        }
        let echoes = &figures.echoes;
        for (end, count) in [
            ("echoed", echoes.echoed),
            ("silent", echoes.silent),
            ("unread", echoes.unread),
            ("late", echoes.late),
            ("undelivered", echoes.undelivered),
            ("lost", echoes.lost),
        ] {
            let what = (
                "phux_trace_inputs_total",
                "Keys, or pastes, and what became of them.",
                Counter,
            );
            number(what, &[("end", end)], count as f64);
        }
        for (family, (_, errors)) in &figures.calls {
            let what = (
                "phux_trace_syscall_errors_total",
                "System calls of the target that failed, by family.",
                Counter,
            );
            number(what, &[("family", family)], *errors as f64);
        }
        self.distributions(figures, &labels);
    }

    fn distributions(
        &mut self,
        figures: &Figures,
        labels: &impl Fn(&[(&'static str, &str)]) -> Vec<(&'static str, String)>,
    ) {
        let mut add = |name, help, more: &[(&'static str, &str)], snapshot: &Snapshot, unit| {
            let snapshot = snapshot.clone();
            let distribution = Value::Distribution(Box::new(Distribution { snapshot, unit }));
            self.add((name, help, Kind::Histogram), labels(more), distribution);
        };
        add(
            "phux_trace_echo_seconds",
            "From a key's write to the read of its echo.",
            &[],
            &figures.echo,
            Unit::Seconds,
        );
        for (whose, waits) in &figures.waits {
            add(
                "phux_trace_runqueue_wait_seconds",
                "Waits of runnable threads for a CPU: the target's, and those of who is at the other ends of its PTYs.",
                &[("threads", whose)],
                waits,
                Unit::Seconds,
            );
        }
        for ((end, operation), moved) in &figures.moved {
            let more = [("end", *end), ("operation", *operation)];
            add(
                "phux_trace_pty_io_seconds",
                "Reads and writes of PTYs that moved bytes: how long they took, sleep included.",
                &more,
                &moved.duration,
                Unit::Seconds,
            );
            add(
                "phux_trace_pty_io_bytes",
                "Reads and writes of PTYs: what each moved.",
                &more,
                &moved.size,
                Unit::Bytes,
            );
        }
        for (phase, flush) in [("wait", &figures.flush_wait), ("run", &figures.flush_run)] {
            add(
                "phux_trace_pty_flush_seconds",
                "Flush work of PTYs: how long it was queued, and how long it ran.",
                &[("phase", phase)],
                flush,
                Unit::Seconds,
            );
        }
        for (family, (duration, _)) in &figures.calls {
            add(
                "phux_trace_syscall_seconds",
                "System calls of the target, by family.",
                &[("family", family)],
                duration,
                Unit::Seconds,
            );
        }
    }
}

#[cfg(test)]
pub(super) fn sample() -> Vec<Family> {
    use crate::daemon::answer::State;
    let mut echo = Snapshot::new();
    for ns in [0, 900, 1_500_000, 1_500_000, 40_000_000_000] {
        echo.record(ns);
    }
    let mut figures = Figures {
        echo,
        bpf_ns: Some(1_500_000_000),
        ..Figures::default()
    };
    let mut size = Snapshot::new();
    (1..=100).for_each(|n| size.record(n));
    figures.moved.entry(("master", "read")).or_default().size = size;
    let row = CaptureRow {
        name: "lag".into(),
        target: "a \"tmux\"\\\n".into(),
        state: State::Recording,
        dir: "/d".into(),
        start_unix_ms: 0,
        rows: 7,
        lost: 0,
        ring_bytes: 0,
        dumps: 0,
        error: None,
    };
    let mut families = Families::default();
    families.capture(&row, &figures);
    families.0
}
