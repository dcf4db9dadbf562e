//! `record -o`: what goes to the disk is what was seen, whatever ends the recorder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use phux_trace_tests::calls::Truth;
use phux_trace_tests::echoes::Typed;
use phux_trace_tests::machine::{output_of, slowness};
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(60);

/// A `phux-trace record -o` that records.
fn recorder(dir: &Path, pid: u32, args: &[&str]) -> Running {
    let mut command = Command::new(bin("phux-trace"));
    command
        .args(["record", "--json", "-p", &pid.to_string(), "-o"])
        .arg(dir)
        .args(args);
    let mut running = Running::start(&mut command);
    let first = running.line(SOON * slowness());
    assert!(first.contains("\"recording\""), "{first}");
    running
}

/// Ends it as Ctrl-C does; gives its lines.
fn stop(recorder: Running) -> Vec<Value> {
    recorder.signal(Signal::INT);
    let ended = recorder.end(SOON * slowness());
    assert!(ended.status.success(), "{ended:?}");
    values(&ended.stdout.join("\n"))
}

fn values(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    text.lines().map(parse).collect()
}

fn of_type<'a>(lines: &'a [Value], wanted: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |l| l["type"] == wanted)
}

fn phux_trace(args: &[&str], dir: &Path) -> Output {
    let (command, rest) = args.split_first().expect("a command");
    let mut program = Command::new(bin("phux-trace"));
    program.arg(command).arg(dir).args(rest);
    program
        .output()
        .unwrap_or_else(|e| panic!("{program:?}: {e}"))
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Lines of CSV without a header, cut at commas: for columns of numbers and plain words.
fn csv(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .skip(1)
        .map(|l| l.split(',').collect())
        .collect()
}

fn calls_of(dir: &Path, rounds: u32) -> Program {
    let mut command = Command::new(bin("io-calls"));
    command
        .arg("--dir")
        .arg(dir)
        .args(["--rounds", &rounds.to_string()]);
    Program::start(&mut command)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        found.push(entry.path());
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        }
    }
    found
}

/// Calls, failures, bytes, waits and sleeps by system call.
type Sums = BTreeMap<String, [u64; 5]>;

fn printed(lines: &[Value]) -> Sums {
    let sums = |l: &Value| {
        ["calls", "errors", "bytes", "wait_ns", "blocked_ns"]
            .map(|n| l[n].as_u64().expect("a number"))
    };
    let name = |l: &Value| l["name"].as_str().expect("a name").replace("io_uring:", "");
    let mut all = Sums::new();
    for l in of_type(lines, "syscall") {
        let to = all.entry(name(l)).or_default();
        to.iter_mut().zip(sums(l)).for_each(|(to, n)| *to += n);
    }
    all
}

/// Asks DuckDB, a reader of Parquet that shares nothing with ours; rows of CSV.
fn duckdb(sql: &str) -> Option<String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
    let python = cache.or(home)?.join("phux-trace/python/bin/python");
    if !python.is_file() {
        assert!(std::env::var_os("CI").is_none(), "{python:?} is not there");
        println!("skipped: no DuckDB (scripts/setup test brings it)");
        return None;
    }
    let ask = "import sys, csv, duckdb; w = csv.writer(sys.stdout); \
               c = duckdb.sql(sys.argv[1]); w.writerow(c.columns); w.writerows(c.fetchall())";
    let mut command = Command::new(python);
    let output = command.args(["-c", ask, sql]).output();
    Some(said(&output.unwrap_or_else(|e| panic!("{command:?}: {e}"))))
}

#[test]
fn what_another_reader_sums_up_is_what_was_printed() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let recording = dir.path().join("rec");
    let mut program = calls_of(dir.path(), 3);
    let families = "fs,network,polling,ipc,aio";
    let recorder = recorder(&recording, program.pid(), &["--families", families]);
    let _: Truth = program.work(SOON * slowness());
    let lines = stop(recorder);
    program.finish();
    let sql = format!(
        "SELECT name, count(*), count(*) FILTER (WHERE errno <> 0), sum(bytes), \
         sum(runq_ns), sum(blocked_ns) FROM read_parquet('{}/syscalls/*/*/*.parquet') \
         WHERE outcome <> 'under_way' GROUP BY name",
        recording.display()
    );
    let Some(answer) = duckdb(&sql) else { return };
    let recorded: Sums = csv(&answer)
        .into_iter()
        .map(|row| {
            let number = |i: usize| row[i].parse().unwrap_or_else(|e| panic!("{e}: {row:?}"));
            (row[0].to_owned(), [1, 2, 3, 4, 5].map(number))
        })
        .collect();
    assert_eq!(recorded, printed(&lines));
    assert!(recorded["read"][0] > 10, "{recorded:?}");
}

#[test]
fn a_killed_recorder_leaves_what_it_had_and_the_files_are_private() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let recording = dir.path().join("rec");
    let mut program = calls_of(dir.path(), 3);
    let recorder = recorder(&recording, program.pid(), &[]);
    let truth: Truth = program.work(SOON * slowness());
    let did: usize = truth.threads.iter().map(|t| t.calls.len()).sum();
    assert!(did > 0);
    // The journal holds what is in no row group yet, and is written over each 0.4 s: the second one since the
    // work is over has it all.
    let journals = || {
        let journal = |p: &PathBuf| p.extension().is_some_and(|e| e == "journal");
        let found = files(&recording).into_iter().filter(journal);
        let syscalls = found.filter(|p| p.starts_with(recording.join("syscalls")));
        syscalls
            .filter_map(|p| fs::metadata(p).ok())
            .map(|m| (m.ino(), m.len()))
            .collect::<Vec<_>>()
    };
    wait_for(SOON * slowness(), || (!journals().is_empty()).then_some(())).expect("a journal");
    let mut last = (journals(), std::time::Instant::now());
    wait_for(SOON * slowness(), || {
        let now = journals();
        if now != last.0 {
            last = (now, std::time::Instant::now());
        }
        (last.1.elapsed() > Duration::from_secs(1)).then_some(())
    })
    .expect("a journal that grows no more");
    recorder.signal(Signal::KILL);
    let ended = recorder.end(SOON);
    assert!(!ended.status.success(), "{ended:?}");
    program.finish();
    let unfinished = |p: &PathBuf| p.to_string_lossy().contains("/.part");
    assert!(files(&recording).iter().any(unfinished));

    let output = phux_trace(&["export", "--csv", "syscalls"], &recording);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("picked up"), "{stderr}");
    let rows = csv(&said(&output)).len();
    // The program calls more than it counts; of fewer families than it counts.
    assert!(rows > did / 3, "{rows} rows, {did} calls");
    assert!(!files(&recording).iter().any(unfinished));
    let again = phux_trace(&["export", "--csv", "syscalls"], &recording);
    assert_eq!(csv(&said(&again)).len(), rows, "no row comes twice");
    let report = said(&phux_trace(&["report"], &recording));
    assert!(report.contains("killed"), "{report}");
    for path in files(&recording).iter().chain([&recording]) {
        let mode = fs::metadata(path).expect("it is there").mode() & 0o777;
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{}", path.display());
    }
}

#[test]
fn a_replay_says_what_the_run_said() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let (socket, recording) = (dir.path().join("s"), dir.path().join("rec"));
    let socket = socket.display().to_string();
    let tmux = |args: &[&str]| {
        let mut command = Command::new("tmux");
        output_of(command.args(["-S", &socket]).args(args).env_remove("TMUX"))
    };
    let program = format!("{} --echo", bin("typist").display());
    let mut command = Command::new(bin("typist"));
    command.args([
        "--keys", "60", "--shows", "ready", "--", "tmux", "-S", &socket,
    ]);
    command.args(["-f", "/dev/null", "new-session", &program, ";"]);
    command.args(["set", "-g", "status", "off"]);
    let mut typist = Program::start(&mut command);
    let server = tmux(&["display-message", "-p", "#{pid}"]);
    let server = server.trim().parse().expect("a pid");
    let recorder = recorder(&recording, server, &[]);
    let typed: Typed = typist.work(SOON);
    let lines = stop(recorder);
    tmux(&["kill-server"]);
    typist.finish();

    let replayed = values(&said(&phux_trace(&["report", "--json"], &recording)));
    for part in ["echo", "verdict"] {
        let live: Vec<&Value> = of_type(&lines, part).collect();
        let again: Vec<&Value> = of_type(&replayed, part).collect();
        assert_eq!(live.len(), 1, "{lines:?}");
        assert_eq!(live, again);
    }
    let echo = of_type(&lines, "echo").next().expect("one");
    assert_eq!(
        echo["inputs"].as_u64(),
        Some(typed.keys.len() as u64),
        "{echo}"
    );
    assert_eq!(echo["ends"]["echoed"], echo["inputs"], "{echo}");
    let verdict = of_type(&lines, "verdict").next().expect("one");
    assert_ne!(verdict["cause"], "no_data", "{verdict}");

    let echoes = values(&said(&phux_trace(&["echo", "--json"], &recording)));
    let chains: Vec<&Value> = of_type(&echoes, "chain").collect();
    assert_eq!(chains.len(), typed.keys.len());
    let longest = chains.iter().filter_map(|c| c["length_ns"].as_u64()).max();
    assert_eq!(longest, echo["length"]["max"].as_u64());
    let rows = said(&phux_trace(&["export", "--csv", "echoes"], &recording));
    assert_eq!(csv(&rows).len(), typed.keys.len());
    assert!(csv(&rows).iter().all(|r| r.contains(&"echoed")), "{rows}");
    let same = Command::new(bin("phux-trace"))
        .arg("diff")
        .args([&recording, &recording])
        .output();
    assert!(same.expect("it runs").status.success());
}

#[test]
fn a_full_disk_ends_it_and_what_was_written_is_intact() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let recording = dir.path().join("rec");
    // A limit on the size of a file is met as a full disk is.
    let script = "trap '' XFSZ; ulimit -f \"$1\"; shift; exec \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash", "1536"]);
    command
        .arg(bin("phux-trace"))
        .args(["record", "--json", "-o"])
        .arg(&recording);
    command.args([
        "--",
        "dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=1",
        "count=2000000",
    ]);
    let ended = Running::start(&mut command).end(SOON * slowness());
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("no space left"), "{}", ended.stderr);
    let rows = said(&phux_trace(&["export", "--csv", "syscalls"], &recording));
    // The limit is met by a row group or by the journal, whichever is the first to grow so large.
    assert!(csv(&rows).len() >= 10_000, "{}", csv(&rows).len());
    let report = said(&phux_trace(&["report"], &recording));
    assert!(report.contains("no space left"), "{report}");
}

#[test]
fn under_sudo_the_recording_is_the_callers() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let nobody = 65_534;
    chown(dir.path(), Some(nobody), Some(nobody)).expect("root may");
    let recording = dir.path().join("rec");
    let mut command = Command::new(bin("phux-trace"));
    command
        .env("SUDO_UID", nobody.to_string())
        .env("SUDO_GID", nobody.to_string());
    command
        .args(["record", "-o"])
        .arg(&recording)
        .args(["--", "true"]);
    let ended = Running::start(&mut command).end(SOON * slowness());
    assert!(ended.status.success(), "{ended:?}");
    let all = files(&recording);
    assert!(all.len() > 4, "{all:?}");
    for path in all.iter().chain([&recording]) {
        let meta = fs::metadata(path).expect("it is there");
        assert_eq!(
            (meta.uid(), meta.gid()),
            (nobody, nobody),
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_flight_recorder_writes_when_its_condition_holds_and_not_before() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    for (condition, fires) in [("echo.max>1ns", true), ("echo.max>1h", false)] {
        let recording = dir.path().join(fires.to_string());
        let typist_bin = bin("typist").display().to_string();
        let mut command = Command::new(bin("typist"));
        command.args([
            "--keys",
            "30",
            "--shows",
            "ready",
            "--",
            &typist_bin,
            "--echo",
        ]);
        let mut typist = Program::start(&mut command);
        let args = ["--ring", "60s", "--on", condition];
        let recorder = recorder(&recording, typist.pid(), &args);
        let _: Typed = typist.work(SOON);
        let lines = stop(recorder);
        typist.finish();
        let echo = of_type(&lines, "echo").next().expect("one");
        assert_eq!(echo["inputs"], 30, "{echo}");
        let rows = said(&phux_trace(&["export", "--csv", "pty"], &recording));
        assert_eq!(!csv(&rows).is_empty(), fires, "{rows}");
    }
}
