//! Faults of the target, of phux-trace and of the machine: after each nothing of ours is left in the
//! kernel, the target is as it was, and what was told is true.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::bpf::BpfObjects;
use phux_trace_tests::report::Summed;
use phux_trace_tests::running::Ended;
use phux_trace_tests::truth::Program;
use phux_trace_tests::untouched::Untouched;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, procfs, wait_for};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
struct Changed {
    pid: u32,
    index: u32,
    reads: u64,
}

fn changes(what: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_changes"));
    command.args(["--what", what]);
    command
}

/// A process that sleeps until it is killed.
fn sleeper() -> Running {
    let sleeper = Running::start(Command::new("sleep").arg("1000"));
    let asleep = || {
        let pid = sleeper.pid();
        (procfs::comm(pid)? == "sleep" && procfs::sleeps(pid, pid)).then_some(())
    };
    wait_for(SOON, asleep).expect("asleep");
    sleeper
}

fn assert_all_reads(report: &Summed, truth: &Changed) {
    report.assert_nothing_lost();
    let row = report.pty(truth.index);
    assert_eq!(row.master_reads.size.count, truth.reads, "{truth:?}");
    assert_eq!(row.slave_writes.size.count, truth.reads, "{truth:?}");
}

#[test]
fn a_target_that_changes_its_user_is_traced_on() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program = Program::start(&mut changes("uid"));
    let attached = Attached::to(program.pid());
    let truth: Changed = program.work(SOON);
    let report = attached.stop();
    program.finish();
    assert_all_reads(&report, &truth);
}

#[test]
fn a_target_that_enters_a_namespace_is_traced_on() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program = Program::start(&mut changes("namespace"));
    let attached = Attached::to(program.pid());
    let truth: Changed = program.work(SOON);
    let report = attached.stop();
    program.finish();
    assert_all_reads(&report, &truth);
}

/// As a daemon does: the process that was named ends, its fork is the target as much as it was.
#[test]
fn a_target_that_forks_away_is_traced_on() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program = Running::start(&mut changes("fork-away"));
    let named = program.pid();
    assert_eq!(program.line(SOON), format!("ready {named}"));
    let attached = Attached::to(named);
    program.say("go");
    let truth: Changed = serde_json::from_str(&program.line(SOON)).expect("JSON");
    assert_ne!(truth.pid, named);
    assert!(procfs::is_alive(attached.pid()), "the run goes on");
    program.close_stdin();
    // The fork ends, and the run with it.
    let report = attached.end();
    let ended = program.end(SOON);
    assert_eq!(
        ended.status.code(),
        Some(5),
        "its status is its own: {ended:?}"
    );
    assert_all_reads(&report, &truth);
    let row = report.thread(truth.pid);
    assert_eq!((row.relation.as_str(), row.pid), ("target", truth.pid));
    let process = report
        .processes()
        .iter()
        .find(|p| p["pid"] == named)
        .cloned();
    assert_eq!(process.expect("the named one")["ended"], "exited 5");
}

/// However phux-trace ends, the target is as it was.
#[test]
fn the_target_is_as_it_was_however_the_run_ends() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let target = sleeper();
    let pid = target.pid();
    let as_it_was = Untouched::look(pid);
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let attached = Attached::to(pid);
        as_it_was.assert_still(pid);
        // Stopped in between, as by a Ctrl-Z.
        attached.signal(Signal::STOP);
        as_it_was.assert_still(pid);
        attached.signal(Signal::CONT);
        attached.signal(signal);
        let _ = attached.ended();
        as_it_was.assert_still(pid);
        before.assert_nothing_left();
    }
    // Its exit status is that which it would have had.
    target.signal(Signal::USR1);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(target.end(SOON).status.signal(), Some(10));
}

fn told(ended: &Ended, words: &[&str]) {
    for word in words {
        assert!(ended.stderr.contains(word), "no {word:?}: {ended:?}");
    }
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
}

#[test]
fn a_full_disk_ends_the_run_with_its_reason() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let target = sleeper();
    let as_it_was = Untouched::look(target.pid());
    for options in ["", "--json", "--interval 200ms", "--json --interval 200ms"] {
        let script = format!(
            "exec {} attach {options} -d 1s -p {} >/dev/full",
            bin("phux-trace").display(),
            target.pid()
        );
        let ended = Running::start(Command::new("sh").args(["-c", &script])).end(SOON);
        assert_eq!(ended.status.code(), Some(1), "{options}: {ended:?}");
        told(&ended, &["writing", "No space left"]);
        before.assert_nothing_left();
        as_it_was.assert_still(target.pid());
    }
}

/// Part of the kernel side is refused: the rest works, and the report says what is missing.
#[test]
fn a_program_that_is_refused_leaves_the_others() {
    if !need_root() || !need_tool("bpftool") || !need_tool("setpriv") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_sdt-many")).arg("--hits=5"));
    // CAP_SYSLOG shows addresses, without which the flush work cannot be told from other work.
    let mut run = Command::new("setpriv");
    run.args(["--bounding-set", "-syslog", "--inh-caps", "-syslog"]);
    run.arg(bin("phux-trace"));
    run.args(["attach", "--json", "--interval", "300ms", "-d", "60s", "-p"]);
    let mut run = Running::start(run.arg(program.pid().to_string()));
    let first = run.line(SOON);
    let first: Value = serde_json::from_str(&first).expect("JSON");
    let truth: Value = program.work(SOON);
    run.signal(Signal::INT);
    let ended = run.end(SOON);
    assert!(ended.status.success(), "{ended:?}");
    let flush = first["backends"].as_array().expect("backends").iter();
    let flush = flush
        .clone()
        .find(|b| b["capability"] == "flush")
        .expect("flush");
    if flush["used"].is_null() {
        assert!(
            flush["missing"]
                .as_str()
                .is_some_and(|m| m.contains("CAP_SYSLOG")),
            "{flush}"
        );
    }
    let fired = truth["probes"][0]["fired"][0].as_u64();
    assert_eq!(fired, Some(5), "hops are seen all the same: {truth}");
    program.finish();
    before.assert_nothing_left();
}

/// Another tracer, in words of the command line; `{}` is the target's pid.
const TRACERS: [(&str, &str); 4] = [
    ("strace", "strace -f -qq -o /dev/null -p {}"),
    (
        "perf",
        "perf record -q -e sched:sched_switch -e sched:sched_waking -o /dev/null -p {}",
    ),
    (
        "gdb",
        "gdb -q -nx -batch -ex 'set pagination off' -p {} -ex continue",
    ),
    (
        "bpftrace",
        "bpftrace -p {} -e 'usdt:*:phux:many__bare { @ = count(); } tracepoint:sched:sched_switch { @s = count(); } \
         interval:ms:50 { printf(\"up\\n\"); }'",
    ),
];

/// Whether the other tracer has hold of the target.
fn holds(tracer: &mut Running, name: &str, pid: u32) -> Option<()> {
    match name {
        "strace" | "gdb" => {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let by = status.lines().find_map(|l| l.strip_prefix("TracerPid:"))?;
            // gdb stops the target first, and lets it go on.
            (by.trim() != "0" && procfs::sleeps(pid, pid)).then_some(())
        }
        // Its own line tells.
        "bpftrace" => {
            while tracer.line(SOON) != "up" {}
            Some(())
        }
        _ => {
            let links = std::fs::read_dir(format!("/proc/{}/fd", tracer.pid())).ok()?;
            let events = links
                .flatten()
                .filter_map(|l| std::fs::read_link(l.path()).ok());
            let events = events.filter(|l| l.to_string_lossy().contains("perf_event"));
            (events.count() >= 2).then_some(())
        }
    }
}

#[test]
fn another_tracer_on_the_same_target_disturbs_neither() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    for (name, line) in TRACERS {
        if !need_tool(name) {
            continue;
        }
        let before = BpfObjects::now();
        let mut program =
            Program::start(Command::new(env!("CARGO_BIN_EXE_sdt-many")).arg("--hits=40"));
        let pid = program.pid();
        let line = line.replace("{}", &pid.to_string());
        let mut other = Running::start(Command::new("sh").args(["-c", &format!("exec {line}")]));
        wait_for(SOON, || holds(&mut other, name, pid))
            .unwrap_or_else(|| panic!("{name} holds it"));
        let attached = Attached::to(pid);
        let truth: Value = program.work(SOON);
        let report = attached.stop();
        report.assert_nothing_lost();
        for (nth, probe) in ["many__own", "many__shared", "many__bare"]
            .iter()
            .enumerate()
        {
            let sites = truth["probes"][nth]["fired"].as_array().expect("sites");
            assert!(sites.iter().all(|n| n == 40), "{name}: {truth}");
            let hop = report.hop(pid, probe);
            assert_eq!(hop.value.count, 40 * sites.len() as u64, "beside {name}");
        }
        assert!(other.is_running(), "{name} goes on");
        other.signal(if name == "gdb" {
            Signal::TERM
        } else {
            Signal::INT
        });
        other.end(SOON);
        program.finish();
        before.assert_nothing_left();
    }
}

/// Two tracers of which one does not tell the kernel of a probe's semaphore cannot share it: what
/// cannot be had is told, and the rest is there.
#[test]
fn a_probe_that_another_tracer_holds_is_told() {
    if !need_root() || !need_tool("bpftool") || !need_tool("bpftrace") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_sdt-many")).arg("--hits=40"));
    let pid = program.pid();
    let line = "usdt:*:phux:many__own { @ = count(); } interval:ms:50 { printf(\"up\\n\"); }";
    let mut other = Command::new("bpftrace");
    let mut other = Running::start(other.args(["-p", &pid.to_string(), "-e", line]));
    holds(&mut other, "bpftrace", pid);
    let attached = Attached::to(pid);
    let truth: Value = program.work(SOON);
    let report = attached.stop();
    other.signal(Signal::INT);
    other.end(SOON);
    program.finish();
    let fired = |n: usize| truth["probes"][n]["fired"].to_string();
    // A bpftrace that leaves semaphores to the kernel shares it; one that does not is named.
    if !fired(0).contains("40,40,40,40,40,40,40,40") {
        let notes = report.notes().join("\n");
        assert!(
            notes.contains("many__own") && notes.contains("Another tracer"),
            "{notes}"
        );
    }
    assert_eq!(
        fired(1),
        "[40,40,40,40]",
        "its other probes are had: {truth}"
    );
    assert_eq!(report.hop(pid, "many__shared").value.count, 160);
    before.assert_nothing_left();
}

/// A library that sets the wall clock back by an hour for one program, a second after it was first read.
const STEPPED: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static int (*real)(clockid_t, struct timespec *);
int clock_gettime(clockid_t id, struct timespec *t)
{
    static time_t first;
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int r = real(id, t);
    if (r || id != CLOCK_REALTIME) return r;
    if (!first) first = t->tv_sec;
    if (t->tv_sec > first) t->tv_sec -= 3600;
    return r;
}
"#;

/// A wall clock that is set back while the run lasts: no time of the report is of it.
#[test]
fn a_clock_that_is_stepped_changes_no_figure() {
    if !need_root() || !need_tool("gcc") {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a folder");
    let (source, library) = (dir.path().join("clock.c"), dir.path().join("clock.so"));
    std::fs::write(&source, STEPPED).expect("written");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source);
    assert!(gcc.status().expect("gcc").success());
    let target = sleeper();
    let mut run = Command::new(bin("phux-trace"));
    run.args(["attach", "--json", "--interval", "500ms", "-d", "3s", "-p"]);
    run.arg(target.pid().to_string())
        .env("LD_PRELOAD", &library);
    let ended = Running::start(&mut run).end(SOON);
    assert!(ended.status.success(), "{ended:?}");
    assert_windows_follow_each_other(&ended, 3_000_000_000);
}

/// In a time namespace CLOCK_MONOTONIC is another than the kernel's own, which all events have.
#[test]
fn a_time_namespace_changes_no_figure() {
    if !need_root() || !need_tool("unshare") {
        return;
    }
    let _alone = exclusive();
    let busy = Running::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    for offset in ["100000", "-50"] {
        let mut run = Command::new("unshare");
        run.args(["--time", "--monotonic", offset, "--"])
            .arg(bin("phux-trace"));
        run.args(["attach", "--json", "--interval", "500ms", "-d", "2s", "-p"]);
        let ended = Running::start(run.arg(busy.pid().to_string())).end(SOON);
        assert!(ended.status.success(), "{offset}: {ended:?}");
        assert_windows_follow_each_other(&ended, 2_000_000_000);
        let report = Summed::read(ended.stdout.iter().map(String::as_str));
        report.assert_nothing_lost();
        let window = report.runs.last().expect("a report")["window"]["duration_ns"].as_u64();
        let (window, row) = (window.expect("ns"), report.thread(busy.pid()));
        // It runs or waits all the time, and did so for some ms before the window, too.
        let lived = row.on_cpu_ns + row.wait.sum + row.waiting_ns.unwrap_or(0);
        assert!(
            lived.abs_diff(window) < window / 10,
            "{offset}: {lived} of {window}: {row:?}"
        );
    }
}

/// The windows of a run's reports: each begins where the one before ended, and the last is of the whole.
fn assert_windows_follow_each_other(ended: &Ended, whole_ns: u64) {
    let runs: Vec<Value> = ended
        .stdout
        .iter()
        .filter_map(|l| serde_json::from_str(l).ok())
        .filter(|l: &Value| l["type"] == "run")
        .collect();
    let number = |run: &Value, name: &str| run["window"][name].as_u64().expect("a figure");
    let (last, intervals) = runs.split_last().expect("reports");
    assert!(intervals.len() >= 2, "{runs:?}");
    let mut at = number(last, "start_unix_ms");
    for run in intervals {
        let start = number(run, "start_unix_ms");
        assert!(start.abs_diff(at) <= 2, "{start} after {at}: {run}");
        at = start + number(run, "duration_ns") / 1_000_000;
    }
    let lasted = number(last, "duration_ns");
    assert!(
        (whole_ns..whole_ns * 5).contains(&lasted),
        "{lasted} ns of {whole_ns}"
    );
}
