//! With the feature `disabled`, neither records nor probes are left, and everything else works.
#![cfg(all(target_os = "linux", feature = "disabled"))]

use object::{Object, ObjectSection};
use phux_perf::{Counter, Gauge, Metric, PerfReport, Snapshot, Unit, Value, hop, hops};

hops! {
    static SIZE: "off.size", Bytes, off__size;
}
static BYTES: Counter = Counter::new();
static CLIENTS: Gauge = Gauge::new();
static TABLE: &[Metric] = &[
    SIZE.metric(),
    Metric::counter("off.bytes", Unit::Bytes, &BYTES),
    Metric::gauge("off.clients", Unit::Count, &CLIENTS),
];

#[test]
fn nothing_is_recorded() {
    hop!(SIZE, 100_u64, 1_u64, 2_u64);
    drop(SIZE.timer(1, 2));
    BYTES.add(100);
    CLIENTS.set(3);
    let report = PerfReport::capture("off", TABLE);
    let values: Vec<_> = report
        .metrics
        .into_iter()
        .map(|reading| reading.value)
        .collect();
    let empty = [
        Value::Histogram(Snapshot::new()),
        Value::Counter(0),
        Value::Gauge(0),
    ];
    assert_eq!(values, empty);
}

#[test]
fn no_probe_is_left_in_the_file() {
    let file = std::fs::read(std::env::current_exe().expect("a path")).expect("a file");
    let file = object::File::parse(&*file).expect("an ELF file");
    let notes = file.section_by_name(".note.stapsdt");
    let notes = notes
        .map(|section| section.data().expect("data").to_vec())
        .unwrap_or_default();
    assert!(!notes.windows(5).any(|window| window == b"phux\0"));
}
