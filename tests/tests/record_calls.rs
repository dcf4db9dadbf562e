//! The recorder against a program that knows its calls: every call, path and byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::unskipped_by;
use phux_trace_tests::calls::{Did, MARK, Truth};
use phux_trace_tests::machine::{output_of, slowness};
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, procfs, wait_for};
use rustix::process::Signal;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);
const FAMILIES: &str = "fs,network,polling,ipc,aio";

/// A `phux-trace record` that records.
struct Recorder(Running);

impl Recorder {
    fn of(pid: u32, args: &[&str]) -> Recorder {
        let mut command = Command::new(bin("phux-trace"));
        command.args(["record", "-p", &pid.to_string()]).args(args);
        let mut running = Running::start(&mut command);
        let first = running.line(SOON * slowness());
        assert!(first.contains("\"recording\""), "{first}");
        Recorder(running)
    }

    /// Ends it as Ctrl-C does; gives its lines.
    fn stop(self) -> Vec<Value> {
        self.0.signal(Signal::INT);
        let ended = self.0.end(SOON * slowness());
        assert!(ended.status.success(), "{ended:?}");
        let parse =
            |line: &String| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        ended.stdout.iter().map(parse).collect()
    }
}

fn of_type<'a>(lines: &'a [Value], wanted: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |l| l["type"] == wanted)
}

/// What a line says of a call, as the program would say it.
fn did(call: &Value) -> Did {
    let text = |name: &str| call[name].as_str().map(String::from);
    Did {
        name: text("name").unwrap_or_default(),
        ret: match call["errno"].as_i64() {
            Some(errno) => -errno,
            None => call["ret"].as_i64().unwrap_or(i64::MIN),
        },
        path: text("path"),
        path2: text("path2"),
        bytes: call["bytes"].as_u64().unwrap_or(u64::MAX),
    }
}

/// The calls of a thread between its marks, without those that a mark is; the C library's futexes
/// are nobody's.
fn between_marks(calls: &[&Value]) -> Vec<Did> {
    let is_mark = |c: &Value| c["name"] == "lseek" && c["errno"] == 9 && c["fd"].is_null();
    let marks: Vec<usize> = (0..calls.len()).filter(|i| is_mark(calls[*i])).collect();
    let mut all = Vec::new();
    for pair in marks.chunks(2) {
        let [from, to] = pair else {
            panic!("a mark has no second one: {marks:?}")
        };
        all.extend(calls[from + 1..*to].iter().map(|c| did(c)));
    }
    all.retain(|c| c.name != "futex");
    all
}

/// The same call. Where the program cannot know a name it says none, or how it begins.
fn same(knows: &Did, told: &Did) -> bool {
    let path = match &knows.path {
        Some(begin) if begin.ends_with(':') => {
            told.path.as_ref().is_some_and(|p| p.starts_with(begin))
        }
        path => *path == told.path,
    };
    let path2 = knows.path2.is_none() || knows.path2 == told.path2;
    let rest = (&knows.name, knows.ret, knows.bytes) == (&told.name, told.ret, told.bytes);
    path && path2 && rest
}

/// What the program did is what was told, call by call. False where that could not be asked for.
fn held_against(truth: &Truth, lines: &[Value]) -> bool {
    if slowness() > 1 && was_skipped(lines) {
        // So many calls, and each instruction emulated: in none of the runs was every program run.
        told_or_missed(truth, lines);
        return false;
    }
    let losses: Vec<&Value> = of_type(lines, "loss")
        .filter(|l| l["class"] != "call_start")
        .collect();
    assert!(losses.is_empty(), "{losses:?}");
    let mut by_thread: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for call in of_type(lines, "call") {
        by_thread
            .entry(call["tid"].as_u64().expect("a tid"))
            .or_default()
            .push(call);
    }
    let mut knows: BTreeMap<u64, Vec<Did>> = BTreeMap::new();
    for thread in &truth.threads {
        let calls = knows.entry(u64::from(thread.tid)).or_default();
        calls.extend(thread.calls.iter().cloned());
    }
    let mut bytes = 0;
    for (tid, knows) in &knows {
        let told = between_marks(by_thread.get(tid).map_or(&[], |c| c));
        for (nth, (knows, told)) in knows.iter().zip(&told).enumerate() {
            assert!(
                same(knows, told),
                "thread {tid}, call {nth}:\ndid  {knows:?}\ntold {told:?}"
            );
            bytes += told.bytes;
        }
        assert_eq!(knows.len(), told.len(), "calls of thread {tid}");
    }
    let known: u64 = knows.values().flatten().map(|c| c.bytes).sum();
    assert_eq!(bytes, known);
    assert!(known > 0);
    sums_are_those_of_the_calls(lines);
    true
}

/// Whether a program of ours could not run somewhere, so that no count can be exact.
fn was_skipped(lines: &[Value]) -> bool {
    of_type(lines, "loss").any(|l| l["class"] == "missed")
}

/// As many calls of each name as the program made, or as many skipped programs as are missing.
fn told_or_missed(truth: &Truth, lines: &[Value]) {
    let mut missing: BTreeMap<&str, i64> = BTreeMap::new();
    for did in truth.threads.iter().flat_map(|t| &t.calls) {
        *missing.entry(&did.name).or_default() += 1;
    }
    for call in of_type(lines, "call") {
        if let Some(count) = call["name"].as_str().and_then(|n| missing.get_mut(n)) {
            *count -= 1;
        }
    }
    let missed: i64 = of_type(lines, "loss")
        .filter(|l| l["class"] == "missed")
        .filter_map(|l| l["count"].as_i64())
        .sum();
    let untold: i64 = missing.values().filter(|n| **n > 0).sum();
    println!("{untold} calls not told, {missed} programs skipped");
    assert!(untold <= missed, "{missing:?}, {missed} skipped");
}

/// The figures are of the calls that were told, and each way of summing them comes to the same.
fn sums_are_those_of_the_calls(lines: &[Value]) {
    let number = |v: &Value, name: &str| v[name].as_u64().unwrap_or(0);
    let told: Vec<&Value> = of_type(lines, "call")
        .filter(|c| c["end"] != "under way")
        .collect();
    let all: Vec<&Value> = of_type(lines, "recorded").collect();
    let [all] = all[..] else {
        panic!("one line of sums")
    };
    assert_eq!(number(all, "calls"), told.len() as u64);
    for what in ["bytes", "wait_ns", "blocked_ns"] {
        let sum: u64 = told.iter().map(|c| number(c, what)).sum();
        assert_eq!(number(all, what), sum, "{what}");
    }
    let errors = told.iter().filter(|c| !c["errno"].is_null()).count();
    assert_eq!(number(all, "errors"), errors as u64);
    for part in ["syscall", "process", "calling_thread"] {
        for what in ["calls", "bytes", "errors"] {
            let sum: u64 = of_type(lines, part).map(|l| number(l, what)).sum();
            assert_eq!(sum, number(all, what), "{what} by {part}");
        }
    }
    let by_file: u64 = of_type(lines, "file").map(|l| number(l, "calls")).sum();
    let with_file = told.iter().filter(|c| !c["path"].is_null()).count();
    assert_eq!(by_file, with_file as u64);
    let by_second: u64 = of_type(lines, "second").map(|l| number(l, "calls")).sum();
    assert_eq!(by_second, told.len() as u64);
    for call in told {
        let off = number(call, "wait_ns") + number(call, "blocked_ns");
        // io_uring's requests have no thread of their own.
        assert!(off <= number(call, "duration_ns"), "{call}");
        assert!(
            number(call, "gap_off_cpu_ns") <= number(call, "gap_ns"),
            "{call}"
        );
    }
}

fn program(dir: &Path, rounds: u32) -> Command {
    let mut command = Command::new(bin("io-calls"));
    command
        .arg("--dir")
        .arg(dir)
        .args(["--rounds", &rounds.to_string()]);
    command
}

#[test]
fn every_call_path_and_byte_is_accounted_for() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let run = || {
        let dir = tempfile::tempdir().expect("a folder");
        let mut program = Program::start(&mut program(dir.path(), 3));
        // It has said that it is ready before it waits; on a busy machine long before.
        wait_for(SOON, || {
            procfs::waits_in(program.pid(), libc::SYS_read).then_some(())
        })
        .expect("it waits for the word to start");
        let recorder = Recorder::of(program.pid(), &["--families", FAMILIES, "--events"]);
        let truth: Truth = program.work(SOON * slowness());
        let lines = recorder.stop();
        program.finish();
        (truth, lines)
    };
    let (truth, lines) = unskipped_by(run, |(_, lines)| was_skipped(lines));
    if !held_against(&truth, &lines) {
        return;
    }
    assert!(truth.uring, "this kernel has io_uring");
    // The read that it waited in when recording began; it waits in another one at the end.
    let losses: Vec<&Value> = of_type(&lines, "loss").collect();
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert_eq!(losses[0]["count"], 1);
    let under_way: Vec<&Value> = of_type(&lines, "call")
        .filter(|c| c["end"] == "under way")
        .collect();
    assert_eq!(under_way.len(), 1, "{under_way:?}");
    assert_eq!(under_way[0]["name"], "read");
    assert!(
        under_way[0]["blocked_ns"].as_u64() > Some(0),
        "{under_way:?}"
    );
}

#[test]
fn rings_of_single_cpus_tell_the_same() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let run = || {
        let dir = tempfile::tempdir().expect("a folder");
        let mut program = Program::start(&mut program(dir.path(), 2));
        let args = ["--families", FAMILIES, "--events", "--cpus-per-ring", "1"];
        let recorder = Recorder::of(program.pid(), &args);
        let truth: Truth = program.work(SOON * slowness());
        (truth, recorder.stop())
    };
    let (truth, lines) = unskipped_by(run, |(_, lines)| was_skipped(lines));
    held_against(&truth, &lines);
}

/// Runs a command under `record` and gives its lines.
fn recorded(args: &[&str], command: &[&str]) -> Vec<Value> {
    let mut record = Command::new(bin("phux-trace"));
    record
        .args(["record", "--json"])
        .args(args)
        .arg("--")
        .args(command);
    let ended = Running::start(&mut record).end(SOON * slowness());
    let json = ended.stdout.iter().filter(|l| l.starts_with('{'));
    let lines: Vec<Value> = json
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")))
        .collect();
    assert!(lines.len() > 1, "{ended:?}");
    lines
}

/// Calls, failures and bytes by system call.
fn by_syscall(lines: &[Value]) -> BTreeMap<&str, (u64, u64, u64)> {
    let number = |l: &Value, name: &str| l[name].as_u64().expect("a number");
    of_type(lines, "syscall")
        .map(|l| {
            let figures = (number(l, "calls"), number(l, "errors"), number(l, "bytes"));
            (l["name"].as_str().expect("a name"), figures)
        })
        .collect()
}

// What it says at its end would tell how long it took, in more or fewer bytes.
const DD: [&str; 6] = [
    "dd",
    "if=/dev/zero",
    "of=/dev/null",
    "bs=7",
    "count=3000",
    "status=none",
];

#[test]
fn what_the_kernel_sums_up_is_what_it_would_have_told() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let told = recorded(&[], &DD);
    let summed = recorded(&["--aggregate", "fs"], &DD);
    let (told_by_call, summed_by_call) = (by_syscall(&told), by_syscall(&summed));
    assert_eq!(told_by_call, summed_by_call);
    let (calls, _, bytes) = summed_by_call["write"];
    assert!((3000..3010).contains(&calls), "{summed_by_call:?}");
    assert!((21_000..21_500).contains(&bytes), "{summed_by_call:?}");
    // Both have a histogram that holds every call.
    for lines in [&told, &summed] {
        for line in of_type(lines, "syscall") {
            let buckets = line["latency_ns"]["buckets"].as_array().expect("buckets");
            let in_buckets: u64 = buckets.iter().filter_map(|b| b["count"].as_u64()).sum();
            assert_eq!(Some(in_buckets), line["calls"].as_u64(), "{line}");
        }
    }
    assert_eq!(
        of_type(&summed, "file").count(),
        0,
        "there is no file of a sum"
    );
}

#[test]
fn filters_leave_what_was_asked_for() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let script = "cat /etc/hostname; dd if=/dev/zero of=/dev/null bs=3 count=10 2>/dev/null";
    let command = ["sh", "-c", script];
    let lines = recorded(&["--events", "--comm", "dd"], &command);
    let comms: Vec<&str> = of_type(&lines, "call")
        .filter_map(|c| c["comm"].as_str())
        .collect();
    assert!(
        comms.len() >= 20 && comms.iter().all(|c| *c == "dd"),
        "{comms:?}"
    );
    let lines = recorded(&["--events", "--syscall", "write,close"], &command);
    let names: Vec<&str> = of_type(&lines, "call")
        .filter_map(|c| c["name"].as_str())
        .collect();
    assert!(
        names.contains(&"write") && names.contains(&"close"),
        "{names:?}"
    );
    assert!(
        names.iter().all(|n| ["write", "close"].contains(n)),
        "{names:?}"
    );
    // The files have names though nobody asked for the calls that opened them.
    let zeros = of_type(&lines, "call").filter(|c| c["path"] == "/dev/null" && c["bytes"] == 3);
    assert_eq!(zeros.count(), 10);
    let nobody = recorded(&["--events", "--tid", "1"], &command);
    assert_eq!(of_type(&nobody, "call").count(), 0);
}

#[test]
fn a_call_that_never_returns_is_told_as_such() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let args = ["--events", "--families", "time,process", "-d", "1s"];
    let lines = recorded(&args, &["sleep", "1000"]);
    let slept: Vec<&Value> = of_type(&lines, "call")
        .filter(|c| c["name"] == "clock_nanosleep")
        .collect();
    assert_eq!(slept.len(), 1, "{lines:?}");
    // The kernel says that it is to be begun again, and then the signal ends the thread.
    assert_eq!(
        slept[0]["errno"], 516,
        "ERESTART_RESTARTBLOCK: {}",
        slept[0]
    );
    assert!(
        slept[0]["blocked_ns"].as_u64() > Some(500_000_000),
        "{}",
        slept[0]
    );
    let lines = recorded(&["--events", "--families", "process"], &["true"]);
    let last = of_type(&lines, "call").last().expect("some calls");
    assert_eq!(
        (&last["name"], &last["end"]),
        (&"exit_group".into(), &"thread ended".into())
    );
    let execs = of_type(&lines, "call").filter(|c| c["name"] == "execve" && c["ret"] == 0);
    let paths: Vec<&Value> = execs.map(|c| &c["path"]).collect();
    assert_eq!(paths.len(), 1);
    assert!(
        paths[0].as_str().is_some_and(|p| p.ends_with("/true")),
        "{paths:?}"
    );
}

#[test]
fn strace_sees_the_same_calls() {
    if !need_root() || !need_tool("strace") {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a folder");
    let logs = tempfile::tempdir().expect("a folder");
    let mut traced = Command::new("strace");
    traced
        .args(["-ff", "-qq", "-o"])
        .arg(logs.path().join("log"))
        .arg(bin("io-calls"))
        .arg("--dir")
        .arg(dir.path())
        .arg("--no-uring");
    let mut running = Running::start(&mut traced);
    assert!(running.line(SOON).starts_with("ready "));
    running.say("go");
    let truth: Truth = serde_json::from_str(&running.line(SOON)).expect("its log");
    running.close_stdin();
    assert!(running.end(SOON).status.success());
    for thread in &truth.threads {
        let log = logs.path().join(format!("log.{}", thread.tid));
        let text = std::fs::read_to_string(&log).expect("a log of each thread");
        let recorded: Vec<&str> = thread.calls.iter().map(|c| c.name.as_str()).collect();
        let seen = by_strace(&text, &recorded);
        let knows: Vec<(String, i64)> = thread
            .calls
            .iter()
            .map(|c| (c.name.clone(), c.ret))
            .collect();
        assert_eq!(seen, knows, "thread {}", thread.tid);
    }
    // And the program's own account is what the recorder is held against in the tests above.
    assert!(!output_of(Command::new("strace").arg("-V")).is_empty());
}

/// Names and results between the marks of those calls that are `recorded`.
fn by_strace(text: &str, recorded: &[&str]) -> Vec<(String, i64)> {
    let mark = format!("lseek({MARK}, ");
    let lines = text.lines();
    let mut inside = false;
    let mut calls = Vec::new();
    for line in lines {
        if line.starts_with(&mark) {
            inside = !inside;
            continue;
        }
        let Some((name, rest)) = line.split_once('(') else {
            continue;
        };
        if !inside || !recorded.contains(&name) {
            continue;
        }
        let result = rest.rsplit_once(" = ").map_or("", |(_, r)| r);
        let mut words = result.split_ascii_whitespace();
        let number = words.next().unwrap_or("");
        let number = match number.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).unwrap_or(i64::MIN),
            None => number.parse().unwrap_or(i64::MIN),
        };
        let ret = match (number, words.next()) {
            (-1, Some(errno)) => -errno_of(errno),
            _ => number,
        };
        calls.push((name.to_owned(), ret));
    }
    calls
}

fn errno_of(name: &str) -> i64 {
    i64::from(match name {
        "EBADF" => libc::EBADF,
        "ENOENT" => libc::ENOENT,
        "ENOTDIR" => libc::ENOTDIR,
        "EFAULT" => libc::EFAULT,
        other => panic!("an errno that this test does not know: {other}"),
    })
}
