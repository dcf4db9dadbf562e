//! Two recordings compared.
mod common;

use common::run;
use phux_recording::diff::{Kind, Options as How, Verdict, diff, render};
use phux_recording::*;

/// 5,000 reads of about 10 µs and writes of about 20 µs, scattered; a hop; slices.
fn record(seed: u64, slower_writes: f64, more: Option<&'static str>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::create(dir.path(), run(), Options::default()).expect("a recorder");
    let mut state = seed;
    let mut scatter = |around: f64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (around * (0.5 + (state >> 33) as f64 / (1_u64 << 31) as f64)) as u64
    };
    for i in 0..5_000 {
        let mut call = |name: &'static str, around| Syscall {
            ts: i * 1_000,
            dur: scatter(around),
            name: Name::fixed(name),
            ..Syscall::default()
        };
        recorder.push(call("read", 10_000.0)).expect("a row");
        recorder
            .push(call("write", 20_000.0 * slower_writes))
            .expect("a row");
        if let Some(more) = more {
            recorder.push(call(more, 10.0)).expect("a row");
        }
        let slice = Slice {
            ts: 5_000_000 + i,
            runnable: 5_000_000 + i - scatter(1_000.0),
            comm: "\u{1b}[2Jevil".into(),
            ..Slice::default()
        };
        recorder.push(slice).expect("a row");
    }
    recorder.finish().expect("the end");
    dir
}

fn compare(a: &tempfile::TempDir, b: &tempfile::TempDir) -> diff::Diff {
    let open = |dir: &tempfile::TempDir| Dataset::open(dir.path()).expect("a recording");
    let (a, b) = (open(a), open(b));
    let id = |d: &Dataset| d.latest().expect("its row").0;
    diff((&a, id(&a)), (&b, id(&b)), &How::default()).expect("a comparison")
}

#[test]
fn what_became_slower_comes_first_and_nothing_else_is_called_a_regression() {
    let (a, b) = (record(1, 1.0, None), record(2, 1.5, Some("fsync")));
    let found = compare(&a, &b);
    assert_eq!(found.regressions, 3, "{}", render(&found, true));
    for change in &found.changes[..3] {
        assert_eq!((change.kind, &*change.name), (Kind::Syscall, "write"));
        assert_eq!(change.verdict, Verdict::Regression);
        let by = change.change.expect("a change");
        assert!((0.4..0.6).contains(&by), "{change:?}");
    }
    assert_eq!(found.alone.len(), 1);
    assert_eq!(
        (&*found.alone[0].name, found.alone[0].in_b),
        ("fsync", true)
    );
    let text = render(&found, true);
    assert!(text.starts_with("3 regressions, 0 improvements"), "{text}");
    assert!(text.contains("run queue  \\u{1b}[2Jevil"), "{text}");
    assert!(!text.contains('\u{1b}'));

    let back = compare(&b, &a);
    assert_eq!(back.regressions, 0);
    assert!(
        back.changes[..3]
            .iter()
            .all(|c| c.verdict == Verdict::Improvement)
    );
    let json = serde_json::to_value(&back).expect("JSON");
    assert_eq!(json["changes"][0]["verdict"], "improvement");
    assert_eq!(json["regressions"], 0);
}

#[test]
fn chance_is_no_regression() {
    for seed in 1..8 {
        let found = compare(&record(seed, 1.0, None), &record(seed + 100, 1.0, None));
        assert_eq!(found.regressions, 0, "{}", render(&found, true));
    }
}
