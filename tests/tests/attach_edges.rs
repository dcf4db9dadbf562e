//! `attach` where threads and PTYs do not live as they usually do; and sums that must come out.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::procfs::{self, Account};
use phux_trace_tests::report::Summed;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, exclusive, need_root, need_tool, wait_for};
use rustix::process::Signal;
use serde_json::Value;

const WORK: Duration = Duration::from_secs(120);

fn lives(what: &str, count: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lives"));
    command.args(["--what", what, "--count", count]);
    command
}

/// A thread that execs becomes its process's leader, under the pid and with the start time of the
/// one before it: two threads that must not be taken for one.
#[test]
fn a_thread_that_execs_keeps_its_figures_and_the_process_its_life() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program = Program::start(&mut lives("thread-exec", "150"));
    let pid = program.pid();
    let attached = Attached::to(pid);
    let account: Account = program.work(WORK);
    assert!(procfs::is_alive(attached.pid()), "the run goes on");
    let report = attached.stop();
    program.finish();
    report.assert_nothing_lost();
    let row = report.thread(pid);
    // The old leader's few switches are in this row too: it had the same id.
    assert!(
        (account.voluntary..account.voluntary + 10).contains(&row.voluntary),
        "{} voluntary switches here, {account:?}",
        row.voluntary
    );
    assert!(row.wait.count >= account.slices, "{row:?}");
    assert!(
        row.on_cpu_ns as f64 >= account.on_cpu_ns as f64 * 0.8,
        "{row:?}"
    );
    assert!(
        row.on_cpu_ns as f64 <= account.on_cpu_ns as f64 * 1.2 + 1e7,
        "{row:?}"
    );
    assert_eq!(ended(&report, pid), &Value::Null, "it lives");
}

fn ended(report: &Summed, pid: u32) -> &Value {
    let process = report.processes().iter().find(|p| p["pid"] == pid);
    &process.expect("the process")["ended"]
}

#[test]
fn a_process_whose_leader_has_ended_lives_on() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program = Running::start(&mut lives("leader-exits", "300"));
    let pid = program.pid();
    assert_eq!(program.line(WORK), format!("ready {pid}"));
    let attached = Attached::to(pid);
    program.say("go");
    let truth: Value = serde_json::from_str(&program.line(WORK)).expect("JSON");
    assert!(procfs::is_alive(attached.pid()), "the run goes on");
    program.close_stdin();
    // Now the process ends, and the run with it.
    let report = attached.end();
    let row = report.thread(truth["tid"].as_u64().expect("a tid") as u32);
    assert!(row.voluntary >= 300, "{row:?}");
    assert_eq!(ended(&report, pid), "exited 7");
}

/// Wherever a thread is, it is on a CPU, waits for one, or is blocked: the three fill its life.
#[test]
fn running_waiting_and_sleeping_fill_the_window() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    for options in [
        &["--count", "200"][..],
        &[
            "--count",
            "200",
            "--wake",
            "pipe",
            "--hog-process",
            "--work-us",
            "2000",
        ],
        &[
            "--count", "500", "--wake", "futex", "--no-hog", "--gap-us", "100",
        ],
    ] {
        let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_victim")).args(options));
        let attached = Attached::to(program.pid());
        let _: Value = program.work(WORK);
        let report = attached.stop();
        program.finish();
        report.assert_nothing_lost();
        assert_lives_fill(&report);
    }
}

/// With intervals each thread's row is of its interval: all rows together are of the whole window.
fn assert_lives_fill(report: &Summed) {
    let last = report.runs.last().expect("a report");
    assert_eq!(last["last"], true);
    let whole = last["window"]["duration_ns"].as_u64().expect("ns");
    for thread in report.threads.values().filter(|t| !t.exited) {
        let lived =
            thread.on_cpu_ns + thread.blocked_ns + thread.wait.sum + thread.waiting_ns.unwrap_or(0);
        let off = (lived as f64 - whole as f64).abs();
        // Tracing begins some ms before the window, for seeding.
        assert!(
            off <= whole as f64 * 0.02 + 5e7,
            "{lived} ns of {whole}: {thread:?}"
        );
    }
}

fn pty_lives(what: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pty-lives"));
    command.args(["--what", what]);
    command
}

/// Runs it; gives its truth and the report.
fn traced(command: &mut Command) -> (Vec<Value>, Summed) {
    let mut program = Program::start(command);
    let attached = Attached::to(program.pid());
    let truth = program.work(WORK);
    let report = attached.stop();
    program.finish();
    report.assert_nothing_lost();
    (truth, report)
}

fn assert_moved(io: &phux_trace_tests::report::Io, truth: &Value) {
    assert_eq!(
        io.size.count,
        truth["reads"].as_u64().expect("a count"),
        "{truth}"
    );
    assert_eq!(
        io.size.sum,
        truth["bytes"].as_u64().expect("a count"),
        "{truth}"
    );
}

fn index(truth: &Value) -> u32 {
    truth["index"].as_u64().expect("an index") as u32
}

#[test]
fn a_number_that_is_used_again_keeps_every_read() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report) = traced(&mut pty_lives("reopen"));
    for pty in &truth {
        let row = report.pty(index(pty));
        assert_moved(&row.master_reads, pty);
        assert_eq!(row.slave_writes.size.sum, row.master_reads.size.sum);
        // It came and went between two looks at who holds what: who used it is known all the same.
        for end in [&row.master, &row.slave] {
            let names: Vec<&str> = end.iter().map(|e| e.name.as_str()).collect();
            assert_eq!(names, ["pty-lives"], "{row:?}");
        }
        assert_eq!(
            row.flush_output.wait.max,
            row.flush_output.wait.max.min(10_000_000_000)
        );
    }
    let notes = &report.runs.last().expect("a report")["notes"];
    assert!(
        !notes.to_string().contains("holds no PTY"),
        "what was true at the start alone is not said: {notes:?}"
    );
}

#[test]
fn a_hang_up_at_either_end_is_no_read() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report) = traced(&mut pty_lives("hangup"));
    assert_eq!(report.ptys.len(), 2, "{:?}", report.ptys.keys());
    for pty in &truth {
        assert_eq!(pty["failed"], 1, "{truth:?}");
        let row = report.pty(index(pty));
        assert_moved(&row.master_reads, pty);
        assert_eq!(row.slave_reads.size.count, 0, "{row:?}");
    }
    assert_eq!(report.pty(index(&truth[0])).master_reads.empty, 1);
}

#[test]
fn keys_read_through_dev_tty_are_reads_of_the_slave() {
    if !need_root() || !need_tool("setsid") {
        return;
    }
    let _alone = exclusive();
    let (truth, report) = traced(&mut pty_lives("dev-tty"));
    assert_moved(&report.pty(index(&truth[0])).slave_reads, &truth[0]);
}

/// Two mounts of devpts each have a PTY of the same number.
#[test]
fn one_number_in_two_devpts_instances_is_two_ptys() {
    if !need_root() || !need_tool("unshare") {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a folder");
    let script = format!(
        "mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts {dir} && \
         exec {bin} --what two --devpts {dir}",
        dir = dir.path().display(),
        bin = env!("CARGO_BIN_EXE_pty-lives")
    );
    let (truth, report) = traced(Command::new("unshare").args(["-m", "sh", "-c", &script]));
    let rows: Vec<_> = report
        .ptys
        .values()
        .filter(|p| p.index == index(&truth[0]))
        .collect();
    assert_eq!(rows.len(), 2, "{:?}", report.ptys.keys());
    for pty in &truth {
        let of = |row: &&&phux_trace_tests::report::Pty| {
            Some(row.master_reads.size.sum) == pty["bytes"].as_u64()
        };
        let row = rows.iter().find(of).expect("a row for each");
        assert_moved(&row.master_reads, pty);
    }
}

#[test]
fn a_thousand_ptys_are_ordinary() {
    if !need_root() || !need_tool("prlimit") {
        return;
    }
    let _alone = exclusive();
    let mut program = Program::start(Command::new("prlimit").args([
        "--nofile=8192",
        env!("CARGO_BIN_EXE_pty-sizes"),
        "--ptys=1000",
        "--sizes=7",
        "--input-sizes=1",
        "--gap-us=0",
    ]));
    let attached = Attached::to(program.pid());
    let truth: Value = program.work(WORK);
    let report = attached.stop();
    program.finish();
    report.assert_nothing_lost();
    let ptys = truth["ptys"].as_array().expect("ptys");
    assert_eq!(ptys.len(), 1000);
    for pty in ptys {
        let row = report.pty(index(pty));
        assert_eq!(
            (row.master_reads.size.sum, row.slave_reads.size.sum),
            (7, 1)
        );
    }
}

/// While one CPU writes, the flush work is queued again between its start and the moment when the
/// start is seen: each run has a wait of its own all the same.
#[test]
fn every_flush_of_a_flood_has_its_wait() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program =
        Program::start(Command::new(env!("CARGO_BIN_EXE_pty-sizes")).args(["--flood", "8000000"]));
    let attached = Attached::to(program.pid());
    let truth: Value = program.work(WORK);
    let report = attached.stop();
    program.finish();
    report.assert_nothing_lost();
    let row = report.pty(index(&truth["ptys"][0]));
    let flush = &row.flush_output;
    assert!(flush.run.count > 500, "{flush:?}");
    assert_eq!(flush.wait.count, flush.run.count, "a wait for each run");
}

/// A target that is stopped and killed in the middle of everything.
#[test]
fn a_storm_that_is_killed_ends_the_run() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program = Running::start(Command::new(env!("CARGO_BIN_EXE_spawn-storm")).args([
        "--bursts=1000",
        "--threads=50",
        "--forks=5",
        "--execs=5",
    ]));
    program.line(WORK);
    let attached = Attached::to(program.pid());
    program.say("go");
    let pid = program.pid();
    wait_for(WORK, || (procfs::threads(pid).len() > 20).then_some(())).expect("a storm");
    program.signal(Signal::KILL);
    let report = attached.end();
    assert_eq!(ended(&report, pid), "killed by signal 9");
}
