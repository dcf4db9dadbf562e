//! `report DIR` has the tables that the run had: threads and who ran instead, PTYs, hops, both views of phux.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::machine::slowness;
use phux_trace_tests::muxers::Phux;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(60);
const LETTERS: &str = "abcdefghijklmnopqrst";

fn recorder(dir: &Path, pid: u32) -> Running {
    let mut command = Command::new(bin("phux-trace"));
    command
        .args(["record", "--json", "-p", &pid.to_string(), "-o"])
        .arg(dir);
    let mut running = Running::start(&mut command);
    let first = running.line(SOON * slowness());
    assert!(first.contains("\"recording\""), "{first}");
    running
}

fn typed(phux: &Phux) {
    for letter in LETTERS.chars() {
        phux.type_text(&letter.to_string());
        phux.wait_for_text(&letter.to_string());
    }
}

fn values(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(parse).collect()
}

fn replayed(dir: &Path) -> Vec<Value> {
    let output = Command::new(bin("phux-trace"))
        .args(["report", "--json"])
        .arg(dir)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    values(&String::from_utf8_lossy(&output.stdout))
}

fn of_type<'a>(lines: &'a [Value], wanted: &str) -> Vec<&'a Value> {
    lines.iter().filter(|l| l["type"] == wanted).collect()
}

/// The PTY of the pane, whose master phux holds.
fn pane<'a>(lines: &'a [Value], phux: &Phux) -> &'a Value {
    let held = |p: &&Value| {
        let mut ends = p["master"].as_array().into_iter().flatten();
        ends.any(|e| e["pid"] == phux.server())
    };
    let ptys = of_type(lines, "pty");
    ptys.into_iter()
        .find(held)
        .unwrap_or_else(|| panic!("no pane: {lines:#?}"))
}

#[test]
fn the_tables_of_a_replay_are_those_of_the_run() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let recording = dir.path().join("rec");
    let phux = Phux::start("echo ready; stty -icanon; exec cat", "ready");
    let recorder = recorder(&recording, phux.server());
    typed(&phux);
    recorder.signal(Signal::INT);
    let ended = recorder.end(SOON * slowness());
    assert!(ended.status.success(), "{ended:?}");
    let live = values(&ended.stdout.join("\n"));
    let again = replayed(&recording);
    for table in [
        "run",
        "thread",
        "pty",
        "hop",
        "in_process",
        "echo",
        "cost",
        "verdict",
    ] {
        let (live, again) = (of_type(&live, table), of_type(&again, table));
        assert!(!live.is_empty(), "the run told no {table}");
        assert_eq!(live.len(), again.len(), "{table}");
        for (live, again) in live.iter().zip(again) {
            assert_eq!(*live, again, "{table}");
        }
    }

    // And what both say is true.
    let pty = pane(&again, &phux);
    let letters = LETTERS.len() as u64;
    assert_eq!(pty["master_writes"]["size"]["sum"], letters, "{pty}");
    assert_eq!(pty["master_writes"]["size"]["max"], 1, "{pty}");
    assert!(pty["flush_input"]["wait"]["count"].as_u64() >= Some(letters));
    let hop = of_type(&again, "hop")
        .into_iter()
        .find(|h| h["pid"] == phux.server() && h["metric"] == "pty.read.size")
        .expect("the hop");
    assert!(hop["value"]["count"].as_u64() >= Some(letters), "{hop}");
    assert_eq!(hop["unit"], "bytes", "{hop}");
    assert!(hop["sites"].as_u64() >= Some(1), "{hop}");
    let inside = of_type(&again, "in_process")
        .into_iter()
        .find(|p| p["pid"] == phux.server())
        .expect("the server");
    assert_eq!(inside["role"], "server");
    let rows = inside["rows"].as_array().expect("rows");
    let row = rows.iter().find(|r| r["metric"] == "pty.read.size");
    let row = row.expect("the metric of the hop");
    assert_eq!(row["inside"]["buckets"], row["outside"]["buckets"], "{row}");
    let threads = of_type(&again, "thread");
    let of_server = || threads.iter().filter(|t| t["pid"] == phux.server());
    assert!(of_server().any(|t| t["role"].is_string()), "{threads:?}");
    for t in of_server() {
        let blamed = t["ran_instead"].as_array().into_iter().flatten();
        let blamed: u64 = blamed.filter_map(|c| c["ns"].as_u64()).sum();
        assert_eq!(Some(blamed), t["wait"]["sum"].as_u64(), "{t}");
    }
    let placed = of_server().filter(|t| t["placement"]["cgroup_id"].is_u64());
    assert!(placed.count() > 0, "{threads:?}");
}

#[test]
fn a_killed_recording_has_the_tables_until_a_moment_before() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let recording = dir.path().join("rec");
    let phux = Phux::start("echo ready; stty -icanon; exec cat", "ready");
    let recorder = recorder(&recording, phux.server());
    typed(&phux);
    // Sums are read each second, and what is told goes to the journals each 0.4 s: a few of those.
    let mut states = BTreeSet::new();
    wait_for(SOON * slowness(), || {
        states.extend(journals(&recording.join("drains")));
        (states.len() >= 8).then_some(())
    })
    .expect("a journal that grows");
    recorder.signal(Signal::KILL);
    assert!(!recorder.end(SOON).status.success());
    let lines = replayed(&recording);
    let pty = of_type(&lines, "pty")
        .into_iter()
        .find(|p| p["master_writes"]["size"]["sum"] == LETTERS.len());
    assert!(pty.is_some(), "{lines:#?}");
    let hops = of_type(&lines, "hop");
    assert!(hops.iter().any(|h| h["metric"] == "pty.read.size"));
    let threads = of_type(&lines, "thread");
    assert!(threads.iter().any(|t| t["pid"] == phux.server()));
}

/// Which file, and how long it is.
fn journals(dir: &Path) -> Vec<(u64, u64)> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            found.extend(journals(&path));
        } else if path.extension().is_some_and(|e| e == "journal") {
            found.extend(fs::metadata(&path).map(|m| (m.ino(), m.len())));
        }
    }
    found
}
