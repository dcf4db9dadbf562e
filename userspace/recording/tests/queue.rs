//! The queue between who pushes and the writer, and the flight recorder.
mod common;

use std::time::Duration;

use common::{call, run, small, wait_until};
use phux_recording::*;

fn read(dir: &std::path::Path) -> (Vec<Syscall>, Vec<Loss>) {
    let dataset = Dataset::open(dir).expect("a recording");
    let (id, _) = dataset.latest().expect("its row");
    let calls = dataset.rows(id).expect("rows").collect::<Result<_, _>>();
    let losses = dataset.rows(id).expect("rows").collect::<Result<_, _>>();
    (calls.expect("rows"), losses.expect("rows"))
}

#[test]
fn a_live_view_sheds_and_the_recording_says_how_much() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options {
        mode: Mode::Shed,
        queue: 100,
        ..Options::default()
    };
    let recorder = Recorder::create(dir.path(), run(), options).expect("a recorder");
    let mut pushed = 0;
    while recorder.stats().shed.is_empty() {
        recorder.push(call(pushed)).expect("never an error");
        pushed += 1;
    }
    for _ in 0..20_000 {
        recorder.push(call(pushed)).expect("never an error");
        pushed += 1;
    }
    let stats = recorder.stats();
    recorder.finish().expect("the end");
    let (calls, losses) = read(dir.path());
    let shed: u64 = stats.shed.iter().map(|(_, n)| n).sum();
    assert_eq!(calls.len() as u64 + shed, pushed);
    let told: u64 = losses
        .iter()
        .inspect(|l| assert_eq!(&*l.class, "recorder_syscalls"))
        .map(|l| l.count)
        .sum();
    assert_eq!(told, shed);
}

#[test]
fn a_headless_recording_blocks_and_loses_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options {
        queue: 100,
        ..Options::default()
    };
    let recorder = Recorder::create(dir.path(), run(), options).expect("a recorder");
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for i in 0..5_000 {
                    recorder.push(call(i)).expect("a row");
                }
            });
        }
    });
    recorder.finish().expect("the end");
    let (calls, losses) = read(dir.path());
    assert_eq!((calls.len(), losses.len()), (15_000, 0));
}

#[test]
fn a_ring_writes_nothing_until_it_is_triggered_and_then_what_came_last() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options {
        ring: Some(Ring::of(Duration::from_secs(3600))),
        save: Duration::from_millis(10),
        ..small()
    };
    let recorder = Recorder::create(dir.path(), run(), options).expect("a recorder");
    for i in 0..10_000 {
        recorder.push(call(i)).expect("a row");
    }
    let dataset = Dataset::open(dir.path()).expect("the run's row is there");
    assert_eq!(dataset.files(Table::syscalls).expect("files").len(), 0);
    recorder.trigger();
    recorder.wait_for_dump();
    assert_eq!(read(dir.path()).0.len(), 10_000);

    // What was written once is not written again.
    for i in 10_000..10_500 {
        recorder.push(call(i)).expect("a row");
    }
    recorder.trigger();
    recorder.wait_for_dump();
    for i in 0..10 {
        recorder.push(call(i)).expect("a row");
    }
    assert_eq!(recorder.stats().dumps, 2);
    recorder.finish().expect("the end");
    let (calls, _) = read(dir.path());
    assert!(calls.iter().map(|c| c.bytes).eq((0..10_500).map(|i| i * 3)));
}

#[test]
fn a_ring_forgets_by_age_and_by_size() {
    let aged = Ring::of(Duration::from_millis(100));
    let tiny = Ring {
        keep: Duration::from_secs(3600),
        bytes: 200_000,
    };
    for ring in [aged, tiny] {
        let dir = tempfile::tempdir().expect("a folder");
        let options = Options {
            ring: Some(ring),
            save: Duration::from_millis(5),
            ..small()
        };
        let recorder = Recorder::create(dir.path(), run(), options).expect("a recorder");
        let mut pushed = 0;
        wait_until("old rows are gone", || {
            for _ in 0..2_000 {
                recorder.push(call(pushed)).expect("a row");
                pushed += 1;
            }
            if ring == tiny {
                return recorder.stats().ring_lost > 0;
            }
            pushed >= 10_000
        });
        if ring == aged {
            wait_until("all of it is too old", || {
                let stats = recorder.stats();
                stats.taken == pushed && stats.ring_bytes == 0
            });
            recorder.push(call(pushed)).expect("a row");
            pushed += 1;
        }
        recorder.trigger();
        recorder.wait_for_dump();
        recorder.finish().expect("the end");
        let (calls, losses) = read(dir.path());
        assert!(
            calls.len() as u64 <= pushed - 2_000,
            "{} of {pushed}",
            calls.len()
        );
        assert_eq!(calls.last().map(|c| c.bytes), Some((pushed - 1) * 3));
        let told = losses.iter().any(|l| &*l.class == "recorder_ring");
        assert_eq!(
            told,
            ring == tiny,
            "only what went before its time is a loss: {losses:?}"
        );
    }
}
