//! `record -o` of very many threads: each is there.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::machine::slowness;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, bin, exclusive, need_root};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(180);

/// Records the program's work; gives the lines that the run printed, and its calls as CSV's rows.
fn recorded(dir: &Path, args: &[&str]) -> (Value, Vec<Value>, String) {
    let recording = dir.join("rec");
    let work = dir.join("work");
    std::fs::create_dir(&work).expect("a folder");
    let mut command = Command::new(bin("crowd"));
    command.arg("--dir").arg(&work).args(args);
    let mut program = Program::start(&mut command);
    let pid = program.pid().to_string();
    let mut command = Command::new(bin("phux-trace"));
    command.args(["record", "--json", "-p", &pid, "-o"]);
    let mut recorder = Running::start(command.arg(&recording));
    recorder.line(SOON * slowness());
    let truth: Value = program.work(SOON * slowness());
    recorder.signal(Signal::INT);
    let ended = recorder.end(SOON * slowness());
    assert!(ended.status.success(), "{}", ended.stderr);
    program.finish();
    let parse = |l: &String| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"));
    let lines: Vec<Value> = ended.stdout.iter().map(parse).collect();
    let lost: Vec<&Value> = lines
        .iter()
        .filter(|l| l["type"] == "loss" && l["class"] != "call_start")
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    let mut export = Command::new(bin("phux-trace"));
    let export = export.arg("export").arg(&recording);
    let output = export.args(["--csv", "syscalls"]).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    (truth, lines, rows)
}

/// The columns of these names, row by row. Paths have no commas here.
fn columns<'a, const N: usize>(
    csv: &'a str,
    names: [&'a str; N],
) -> impl Iterator<Item = [&'a str; N]> {
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let places = names.map(|n| {
        let place = head.iter().position(|h| *h == n);
        place.unwrap_or_else(|| panic!("no {n} in {head:?}"))
    });
    lines.map(move |line| {
        let cells: Vec<&str> = line.split(',').collect();
        places.map(|p| cells.get(p).copied().unwrap_or_default())
    })
}

#[test]
fn ten_thousand_threads_are_told_each() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let (truth, lines, rows) = recorded(dir.path(), &["--threads", "10000"]);
    assert_eq!(truth["read"], 10_000);
    let mut readers = BTreeSet::new();
    for [tid, comm, name, bytes, path] in columns(&rows, ["tid", "comm", "name", "bytes", "path"]) {
        if name == "read" && comm == "crowd-worker" && path.ends_with("/work/byte") {
            assert_eq!(bytes, "1");
            assert!(readers.insert(tid.to_owned()), "{tid} reads twice");
        }
    }
    assert_eq!(readers.len(), 10_000);
    // One by one, or summed by name: none is missing.
    let of_crowd = |l: &&Value| l["type"] == "thread" && l["comm"] == "crowd-worker";
    let threads: u64 = lines
        .iter()
        .filter(of_crowd)
        .filter_map(|l| l["threads"].as_u64())
        .sum();
    assert_eq!(threads, 10_000);
}
