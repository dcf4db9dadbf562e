//! Reports: the two examples of the format, the table of one, and what a delta makes of them.

use phux_perf::{PerfReport, Snapshot, Span, Unit, Value};

const SERVER: &str = include_str!("fixtures/server.json");
const SERVER_TABLE: &str = include_str!("fixtures/server.txt");
const CLIENT: &str = include_str!("fixtures/client.json");

fn read(json: &str) -> PerfReport {
    PerfReport::from_json(json).expect("a report")
}

fn histogram<'a>(report: &'a PerfReport, name: &str) -> &'a Snapshot {
    match report.get(name).map(|reading| &reading.value) {
        Some(Value::Histogram(snapshot)) => snapshot,
        other => panic!("{name} is {other:?}"),
    }
}

fn counter(report: &PerfReport, name: &str) -> u64 {
    match report.get(name).map(|reading| &reading.value) {
        Some(Value::Counter(value)) => *value,
        other => panic!("{name} is {other:?}"),
    }
}

fn set(report: &mut PerfReport, name: &str, value: Value) {
    let reading = report
        .metrics
        .iter_mut()
        .find(|reading| reading.name == name);
    reading.expect("the metric is there").value = value;
}

#[test]
fn json_comes_back_whole() {
    for (json, role, metrics) in [(SERVER, "server", 29), (CLIENT, "client", 23)] {
        let report = read(json);
        assert_eq!(
            (report.role.as_str(), report.metrics.len()),
            (role, metrics)
        );
        // Not only the same report, but the same JSON: every key, number and order of metrics.
        let written: serde_json::Value =
            serde_json::from_str(&report.to_json().expect("JSON")).expect("JSON");
        let original: serde_json::Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(written, original);
    }
}

#[test]
fn the_examples_add_up() {
    let server = read(SERVER);
    let read_bytes = histogram(&server, "pty.read.size").sum;
    assert_eq!(read_bytes, counter(&server, "pty.read.bytes"));
    assert_eq!(
        histogram(&server, "wire.write.bytes").sum,
        counter(&server, "wire.bytes_out")
    );
    for reading in server.metrics.iter().chain(&read(CLIENT).metrics) {
        if let Value::Histogram(snapshot) = &reading.value {
            let in_buckets: u64 = snapshot.nonempty().map(|(_, n)| n).sum();
            assert_eq!(in_buckets, snapshot.count, "{}", reading.name);
        }
    }
}

#[test]
fn the_table_reads_as_expected() {
    assert_eq!(read(SERVER).text_table(Span::SinceStart), SERVER_TABLE);
}

#[test]
fn the_table_of_an_interval_has_rates() {
    let earlier = read(SERVER);
    let mut later = earlier.clone();
    later.uptime_ms += 2_000;
    let process = later.process.as_mut().expect("the example has it");
    process.cpu_user_us += 15_000;
    process.cpu_system_us += 5_000;
    set(
        &mut later,
        "pty.read.bytes",
        Value::Counter(11_877_352 + 4_096),
    );
    set(&mut later, "input.events", Value::Counter(425));
    set(&mut later, "proc.clients", Value::Gauge(-1));
    let table = later.delta(&earlier).text_table(Span::Interval);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[0],
        "server pid 14407  last 2.0s  cpu 1.0% (user 15.0ms sys 5.0ms)  peak rss 39.2MiB  \
         ctx switches vol 0 invol 0"
    );
    for expected in [
        "pty.read.size                0     0.0      0B       0B       0B       0B",
        "pty.read.bytes          4.0KiB  2.0KiB       -        -        -        -",
        "input.events                 7     3.5       -        -        -        -",
        "proc.clients                -1   gauge       -        -        -        -",
    ] {
        assert!(lines.contains(&expected), "{expected:?} in\n{table}");
    }
}

#[test]
fn delta_subtracts_by_name() {
    let earlier = read(SERVER);
    let mut later = earlier.clone();
    later.uptime_ms += 10_000;
    later.captured_unix_ms += 10_000;
    set(&mut later, "input.events", Value::Counter(500));
    let mut waits = histogram(&later, "pty.queue_wait").clone();
    waits.record(14);
    waits.record(5000);
    set(&mut later, "pty.queue_wait", Value::Histogram(waits));
    // The order of a newer program's table differs, and it has a metric that the older one lacked.
    later.metrics.reverse();
    later.metrics.insert(0, read(CLIENT).metrics.swap_remove(0));

    let delta = later.delta(&earlier);
    assert_eq!(
        (delta.uptime_ms, delta.captured_unix_ms),
        (10_000, later.captured_unix_ms)
    );
    assert_eq!(counter(&delta, "input.events"), 82);
    assert_eq!(counter(&delta, "pty.read.bytes"), 0);
    assert_eq!(delta.get("proc.clients"), later.get("proc.clients"));
    assert_eq!(
        histogram(&delta, "echo.rtt").count,
        402,
        "new, so all of it"
    );
    assert_eq!(histogram(&delta, "wire.write"), &Snapshot::new());
    let waits = histogram(&delta, "pty.queue_wait");
    assert_eq!((waits.count, waits.sum, waits.min), (2, 5014, 14));
    assert_eq!(
        waits.percentile(100.0),
        5000,
        "the all-time maximum lies in the interval's bucket"
    );
    let process = delta.process.expect("both have it");
    assert_eq!(
        (process.cpu_user_us, process.max_rss_bytes),
        (0, 41_156_608)
    );
}

#[test]
fn delta_survives_a_reset_and_a_restart() {
    let earlier = read(SERVER);
    let mut reset = earlier.clone();
    reset.uptime_ms += 1_000;
    set(&mut reset, "input.events", Value::Counter(3));
    let mut fresh = Snapshot::new();
    fresh.record(9);
    set(
        &mut reset,
        "pty.queue_wait",
        Value::Histogram(fresh.clone()),
    );
    let delta = reset.delta(&earlier);
    assert_eq!(counter(&delta, "input.events"), 3);
    assert_eq!(histogram(&delta, "pty.queue_wait"), &fresh);

    let mut restarted = earlier.clone();
    restarted.pid += 1;
    assert_eq!(
        restarted.delta(&earlier),
        restarted,
        "another process: all of it is new"
    );
}

#[test]
fn what_is_unknown_is_kept_or_ignored_and_never_an_error() {
    let json = r#"{
        "schema_version": 7, "role": "embedder", "stream_diagnostics": {"streams": []},
        "metrics": [
            {"name": "a", "unit": "furlongs", "kind": "counter", "value": 1, "note": "new key"},
            {"name": "b", "unit": "bytes", "kind": "sketch", "value": {"centroids": [1, 2]}},
            {"name": "c", "unit": "micros", "kind": "histogram", "value": {"count": 1}},
            {"name": "d", "unit": "micros", "kind": "histogram", "value":
                {"count": 3, "sum": 6, "min": 2, "max": 2, "p2": 0, "buckets":
                    [{"idx": 2, "count": 2, "exemplar": 1}, {"idx": 504, "count": 1}]}},
            {"name": "e", "unit": "count", "kind": "counter", "value": -1},
            {"name": "f", "unit": "count", "kind": "gauge", "value": -1}
        ]}"#;
    let report = read(json);
    assert_eq!(
        (report.schema_version, report.pid, report.process),
        (7, 0, None)
    );
    let kinds: Vec<_> = report
        .metrics
        .iter()
        .map(|reading| (reading.unit, &reading.value))
        .collect();
    assert_eq!(kinds[0], (Unit::Other, &Value::Counter(1)));
    for (index, kind) in [(1, "sketch"), (2, "histogram"), (4, "counter")] {
        assert!(
            matches!(kinds[index].1, Value::Unknown { kind: k, .. } if k == kind),
            "{:?}",
            kinds[index]
        );
    }
    assert_eq!(
        histogram(&report, "d").nonempty().collect::<Vec<_>>(),
        [(2, 2)]
    );
    assert_eq!(kinds[5].1, &Value::Gauge(-1));
    // Nothing of this upsets the table or a delta, and the unknown ones are written as they came.
    let table = report.text_table(Span::SinceStart);
    assert!(
        table.contains("\nb                            ?       -"),
        "{table}"
    );
    let again = read(&report.delta(&report).to_json().expect("JSON"));
    assert_eq!(again.get("b"), report.get("b"));

    for wrong in [
        "",
        "{}",
        "[]",
        r#"{"schema_version": 1}"#,
        r#"{"schema_version":1,"metrics":3}"#,
    ] {
        assert!(PerfReport::from_json(wrong).is_err(), "{wrong}");
    }
}

#[cfg(not(feature = "disabled"))]
mod own {
    use super::*;
    use phux_perf::{Counter, Gauge, Metric, hop, hops};

    hops! {
        static SIZE: "own.size", Bytes, own__size;
    }
    static BYTES: Counter = Counter::new();
    static CLIENTS: Gauge = Gauge::new();
    static TABLE: &[Metric] = &[
        SIZE.metric(),
        Metric::counter("own.bytes", Unit::Bytes, &BYTES),
        Metric::gauge("own.clients", Unit::Count, &CLIENTS),
    ];

    #[test]
    fn a_captured_report_is_of_this_process_and_reset_leaves_gauges_alone() {
        hop!(SIZE, 100_u64, 1_u64);
        BYTES.add(100);
        CLIENTS.set(2);
        let report = PerfReport::capture("test", TABLE);
        assert_eq!((report.schema_version, report.pid), (1, std::process::id()));
        assert!(report.process.is_some());
        let names: Vec<_> = report
            .metrics
            .iter()
            .map(|reading| reading.name.as_str())
            .collect();
        assert_eq!(names, ["own.size", "own.bytes", "own.clients"]);
        assert_eq!(histogram(&report, "own.size").sum, 100);
        assert_eq!(read(&report.to_json().expect("JSON")), report);

        PerfReport::reset(TABLE);
        let report = PerfReport::capture("test", TABLE);
        assert_eq!(histogram(&report, "own.size"), &Snapshot::new());
        assert_eq!(counter(&report, "own.bytes"), 0);
        assert_eq!(
            report.get("own.clients").map(|r| &r.value),
            Some(&Value::Gauge(2))
        );
    }
}
