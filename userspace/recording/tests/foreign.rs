//! What others make of a recording: pyarrow, DuckDB, Perfetto's own messages.
mod common;
#[path = "../benches/mix.rs"]
mod mix;

use std::path::PathBuf;
use std::process::Command;

use common::run;
use phux_recording::*;
use serde_json::{Value, json};

/// The Python of the virtual environment that `scripts/setup test` makes.
fn python() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
        PathBuf::from,
    );
    let python = cache.join("phux-trace/python/bin/python3");
    if python.exists() {
        return Some(python);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "{}: scripts/setup test makes it",
        python.display()
    );
    println!(
        "skipped: no {}; scripts/setup test makes it",
        python.display()
    );
    None
}

#[test]
fn pyarrow_and_duckdb_find_the_same_sums_and_perfetto_knows_its_messages() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let recorder = Recorder::create(dir.path(), run(), Options::default()).expect("a recorder");
    let id = recorder.run();
    let calls = mix::calls(100_000);
    for (call, i) in calls.iter().zip(0..) {
        // Now and then one that began long before it ended.
        let early = if i % 1_000 == 7 { 40_000_000 } else { 0 };
        let call = Syscall {
            ts: call.ts - early,
            ..call.clone()
        };
        recorder.push(call).expect("a row");
        if i % 100 == 0 {
            let slice = Slice {
                ts: 1_000 + i * 20,
                dur: 10,
                runnable: 990 + i * 20,
                tid: 2_000,
                pid: 1_000,
                comm: "worker-0".into(),
                waker_tid: 5,
                end_state: Name::fixed("S"),
                ..Slice::default()
            };
            recorder.push(slice).expect("a row");
            let hop = Hop {
                ts: 1_005 + i * 20,
                tid: 2_000,
                pid: 1_000,
                name: Name::fixed("pty__read__size"),
                nargs: 2,
                arg0: i,
                ..Hop::default()
            };
            recorder.push(hop).expect("a row");
        }
    }
    recorder.finish().expect("the end");
    let dataset = Dataset::open(dir.path()).expect("a recording");
    let trace = dir.path().join("trace.pftrace");
    let file = std::fs::File::create(&trace).expect("a file");
    export::perfetto(&dataset, id, std::io::BufWriter::new(file)).expect("a trace");

    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read_back.py"))
        .arg(dir.path())
        .arg(&trace)
        .output()
        .expect("Python");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    let mut seqs = 0;
    let rows: Vec<Syscall> = dataset
        .rows(id)
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("rows");
    rows.iter().for_each(|r| seqs += r.seq);
    let paths: std::collections::BTreeSet<&str> = calls.iter().map(|c| &*c.path).collect();
    let wanted = json!({
        "rows": calls.len(),
        "bytes": calls.iter().map(|c| c.bytes).sum::<u64>(),
        "dur": calls.iter().map(|c| c.dur).sum::<u64>(),
        "ret": calls.iter().map(|c| c.ret).sum::<i64>(),
        "seq": seqs,
        "hosts": ["testhost"],
        "paths": paths.len(),
    });
    let mut by_pyarrow = found[0].clone();
    let groups = by_pyarrow.as_object_mut().and_then(|o| o.remove("groups"));
    assert_eq!(groups, Some(json!(2)), "100,000 rows are two row groups");
    assert_eq!(by_pyarrow, wanted, "pyarrow");
    assert_eq!(found[1], wanted, "DuckDB");
    let trace = &found[2];
    assert_eq!(trace["slices"], calls.len());
    assert_eq!(
        (&trace["instants"], &trace["switches"], &trace["wakings"]),
        (&json!(1_000), &json!(2_000), &json!(1_000))
    );
    assert_eq!(
        trace["threads"].as_array().map(Vec::len),
        Some(10),
        "{trace}"
    );
}
