//! The traps that other tracers of the kernel fell into: one test each, on the live kernel, that
//! fails if we fall into it. Those that are tested elsewhere:
//!
//! - `1 << n` as a 32-bit int; clocks that run backwards; pid 0 as a culprit:
//!   `probe-ebpf/tests/kernel.rs`
//! - an interrupt in a task makes that task look like the waker:
//!   `attach_sched.rs`, `the_spinning_thread_is_who_ran_instead`
//! - one USDT name at many sites, each perhaps with a semaphore: `attach_hops.rs`,
//!   `a_name_at_many_sites_is_attached_at_all_and_every_semaphore_is_raised`; semaphores that stay
//!   raised: `attach_life.rs`, `nothing_is_left_in_the_kernel_however_it_ends`

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::report::Summed;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, procfs, wait_for};
use rustix::process::Signal;
use serde_json::Value;

const WORK: Duration = Duration::from_secs(120);

/// Pid 0 is shared by all CPUs: it is no thread, waits for nothing, and is nobody's culprit.
fn assert_idle_is_nobody(report: &Summed) {
    for thread in report.threads.values() {
        assert!(thread.pid != 0 || thread.threads > 1, "{thread:?}");
        assert!(!thread.comm.starts_with("swapper"), "{thread:?}");
        for culprit in &thread.ran_instead {
            assert!(!culprit.name.starts_with("swapper"), "{thread:?}");
            assert!(!culprit.pids.contains(&0), "{thread:?}");
        }
    }
}

/// The CPU in `sched_waking` is the previous one: it fires before the CPU is chosen. A thread that
/// sleeps on CPU 0 and is woken on CPU 1 waits for what runs on CPU 1.
#[test]
fn a_wait_is_blamed_on_the_cpu_that_was_waited_for() {
    if !need_root() || std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return;
    }
    let _alone = exclusive();
    let mut program = Program::start(
        Command::new(env!("CARGO_BIN_EXE_lives")).args(["--what", "wander", "--count", "200"]),
    );
    let attached = Attached::to(program.pid());
    let truth: Value = program.work(WORK);
    let report = attached.stop();
    program.finish();
    report.assert_nothing_lost();
    assert_idle_is_nobody(&report);
    let row = report.thread(truth["tid"].as_u64().expect("a tid") as u32);
    let behind = truth["behind_hog_ns"].as_u64().expect("ns") as f64;
    let all = truth["all_ns"].as_u64().expect("ns") as f64;
    let (hog, waited) = (row.blamed_on("hog") as f64, row.wait.sum as f64);
    // Whatever else ran on that CPU has its part; the CPU of before would give the hog nothing.
    assert!(
        hog >= behind * 0.4 && hog <= behind * 1.05 + 1e6,
        "{hog} blamed on the hog of {behind} behind it: {:?}",
        row.ran_instead
    );
    assert!(
        (waited - all).abs() <= all * 0.05 + 4e6,
        "{waited} of {all}"
    );
    assert!((row.blamed_ns() as f64 - waited).abs() <= waited * 0.05);
}

/// A filter in a wake-up probe must test who is woken, not who wakes.
#[test]
fn the_woken_thread_is_what_the_filter_tests() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    // This test (no target) wakes `first` (the target), which wakes `second` (no target).
    let mut pipeline = Running::start(Command::new("sh").args([
        "-c",
        // The pid of the first, then its output goes through the second.
        "exec 3<&0; sh -c 'echo $$; exec stdbuf -i0 -o0 cat <&3' | exec stdbuf -i0 -o0 cat",
    ]));
    let pid: u32 = pipeline.line(WORK).parse().expect("a pid");
    wait_for(WORK, || {
        (procfs::comm(pid)? == "cat" && procfs::sleeps(pid, pid)).then_some(())
    })
    .expect("the pipeline waits");
    let attached = Attached::to(pid);
    let count = 200;
    for nth in 0..count {
        wait_for(WORK, || procfs::sleeps(pid, pid).then_some(())).expect("it sleeps");
        pipeline.say(&nth.to_string());
        assert_eq!(pipeline.line(WORK), nth.to_string());
    }
    let report = attached.stop();
    report.assert_nothing_lost();
    assert_idle_is_nobody(&report);
    let traced: Vec<u32> = report.threads.keys().copied().collect();
    assert_eq!(traced, [pid], "who was woken by the target is no target");
    let me = procfs::comm(std::process::id()).expect("a name");
    let row = report.thread(pid);
    assert!(row.wait.count >= count, "{row:?}");
    let by_me = row
        .wakers
        .iter()
        .find(|w| w.name == me)
        .map_or(0, |w| w.count);
    assert!(by_me >= count * 9 / 10, "woken by {me}: {:?}", row.wakers);
}

/// Tables of 10,240 entries miss the threads beyond in silence.
#[test]
fn eleven_thousand_threads_are_all_counted() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_spawn-storm")).args([
        "--bursts=1",
        "--threads=11000",
        "--sleeps=1",
        "--stay",
    ]));
    let attached = Attached::to(program.pid());
    let truth: Value = program.work(WORK);
    let report = attached.stop();
    assert_idle_is_nobody(&report);
    let tids: Vec<u32> = serde_json::from_value(truth["tids"].clone()).expect("numbers");
    assert_eq!(tids.len(), 11_000);
    let counted = |tid: &&u32| {
        // It ran at once, after the barrier and after its nap.
        report.threads.get(*tid).is_some_and(|t| t.wait.count >= 2)
    };
    let missed = tids.len() - tids.iter().filter(counted).count();
    let lost = report.losses.get("thread_state").copied().unwrap_or(0);
    assert!(missed as u64 <= lost, "{missed} missed, {lost} told");
    drop(program);
}

/// Threads that end faster than they are read: each is in the report, or in the losses.
#[test]
fn threads_that_end_in_a_storm_are_counted_or_told_as_lost() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_spawn-storm")).args([
        "--bursts=3",
        "--threads=4000",
        "--sleeps=1",
    ]));
    let attached = Attached::to(program.pid());
    let _: Value = program.work(WORK);
    let report = attached.stop();
    program.finish();
    assert_idle_is_nobody(&report);
    let rows = report.threads.values().chain(report.ended.values());
    let told: u64 = rows.filter(|t| t.exited).map(|t| t.threads).sum();
    // The class that holds ended threads; the others count what else had no room in this storm.
    let lost = report.losses.get("exit_ring").copied().unwrap_or(0);
    assert_eq!(told + lost, 12_000, "lost: {:?}", report.losses);
}

/// One failing program fails a whole skeleton: what a kernel refuses must not take the rest along.
#[test]
fn what_is_refused_does_not_take_the_rest_along() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program =
        Program::start(Command::new(env!("CARGO_BIN_EXE_victim")).args(["--count", "50"]));
    let mut run = Running::start(
        Command::new(bin("phux-trace"))
            .args([
                "attach",
                "--json",
                "--interval",
                "500ms",
                "-d",
                "180s",
                "--budget",
                "off",
                "-p",
            ])
            .arg(program.pid().to_string())
            .env("PHUX_TRACE_WITHOUT", "flush,uprobe,fentry"),
    );
    let mut lines = vec![run.line(WORK)];
    let truth: Value = program.work(WORK);
    run.signal(Signal::INT);
    let ended = run.end(WORK);
    program.finish();
    assert!(ended.status.success(), "{ended:?}");
    lines.extend(ended.stdout);
    let report = Summed::read(lines.iter().map(String::as_str));
    let row = report.thread(truth["victim"]["tid"].as_u64().expect("a tid") as u32);
    assert_eq!(Some(row.wait.count), truth["victim"]["slices"].as_u64());
    let backends = report.runs[0]["backends"].as_array().expect("backends");
    let missing = |capability: &str| {
        let found = backends.iter().find(|b| b["capability"] == capability);
        found.is_some_and(|b| b["missing"].is_string())
    };
    assert!(!missing("sched"), "{backends:?}");
    for capability in ["tty", "flush", "hop"] {
        assert!(missing(capability), "{capability}: {backends:?}");
    }
}

/// libbpf's hint to raise `ulimit -l` on EPERM sends people the wrong way.
#[test]
fn nobody_is_sent_to_ulimit() {
    if !need_root() || !need_tool("setpriv") {
        return;
    }
    let _alone = exclusive();
    let pid = std::process::id().to_string();
    // As root (some kernels refuse fentry even then), with half of what it takes, and with nothing.
    for caps in ["+all", "-all,+bpf", "-all,+bpf,+perfmon", "-all"] {
        for args in [
            &["attach", "-d", "200ms", "-p", &pid][..],
            &["doctor", "--json"],
        ] {
            let mut command = Command::new("setpriv");
            command.arg(format!("--bounding-set={caps}"));
            command
                .arg("--inh-caps=-all")
                .arg(bin("phux-trace"))
                .args(args);
            let ended = Running::start(&mut command).end(WORK);
            let said = format!("{}\n{}", ended.stdout.join("\n"), ended.stderr).to_lowercase();
            assert!(said.len() > 20, "{caps}: {args:?}: {said}");
            for word in ["ulimit", "rlimit", "memlock"] {
                assert!(!said.contains(word), "{caps}: {args:?}: {said}");
            }
        }
    }
}

/// The lines of `--events`, and the reports between them.
fn events_and_reports(lines: &[String]) -> (Vec<Value>, Summed) {
    let (mut events, mut reports) = (Vec::new(), Vec::new());
    for line in lines {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        if value["type"] == "event" {
            events.push(value);
        } else {
            reports.push(line.as_str());
        }
    }
    (events, Summed::read(reports))
}

/// One consumer of one ring loses events on a large machine: rings per CPU group, whose events are
/// told in the order of time.
#[test]
fn each_cpu_group_has_its_ring_and_the_order_is_that_of_time() {
    if !need_root() || !need_tool("taskset") {
        return;
    }
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a folder");
    let script = dir.path().join("both");
    let truth = |cpu: usize| dir.path().join(format!("truth-{cpu}"));
    let mut file = std::fs::File::create(&script).expect("created");
    for cpu in 0..2 {
        writeln!(
            file,
            "echo go | taskset -c {cpu} {} --rounds 400 --gap-us 200 --sizes 10,100 --input-sizes 1,2 >{} &",
            env!("CARGO_BIN_EXE_pty-sizes"),
            truth(cpu).display()
        )
        .expect("written");
    }
    writeln!(file, "wait").expect("written");
    let ended = Running::start(
        Command::new(bin("phux-trace"))
            .args(["attach", "--events", "--cpus-per-ring", "1"])
            .args(["--budget", "off", "--", "sh"])
            .arg(&script),
    )
    .end(WORK);
    assert!(ended.status.success(), "{ended:?}");
    let (events, report) = events_and_reports(&ended.stdout);
    report.assert_nothing_lost();
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    let mut by_cpu: BTreeMap<u64, u64> = BTreeMap::new();
    let mut last = 0;
    for event in &events {
        *by_cpu
            .entry(event["cpu"].as_u64().expect("a CPU"))
            .or_default() += 1;
        let kind = event["kind"].as_str().expect("a kind").to_owned();
        *calls.entry(kind).or_default() += 1;
        let at = event["unix_ns"].as_u64().expect("a time");
        assert!(at >= last, "out of order by {} ns: {event}", last - at);
        last = at;
    }
    let mut did = BTreeMap::from([("read", 0), ("write", 0)]);
    for cpu in 0..2 {
        let text = std::fs::read_to_string(truth(cpu)).expect("a truth");
        let line = text.lines().last().expect("a line");
        let truth: Value = serde_json::from_str(line).expect("JSON");
        let io = io_calls(&truth);
        *did.get_mut("read").expect("there") += io.0;
        *did.get_mut("write").expect("there") += io.1;
    }
    for kind in ["read", "write"] {
        assert_eq!(calls.get(kind), did.get(kind), "{kind}");
    }
    for cpu in 0..2 {
        assert!(by_cpu.get(&cpu).is_some_and(|n| *n > 1000), "{by_cpu:?}");
    }
}

/// (reads, writes) that pty-sizes made, those included that moved nothing.
fn io_calls(truth: &Value) -> (u64, u64) {
    let mut sums = (0, 0);
    for pty in truth["ptys"].as_array().expect("ptys") {
        for end in ["master", "slave"] {
            let calls = |op: &str, what: &str| pty[end][op][what].as_u64().expect("a count");
            sums.0 += calls("reads", "count") + calls("reads", "empty");
            sums.1 += calls("writes", "count") + calls("writes", "empty");
        }
    }
    sums
}

/// A lost event is counted by its class, and no figure is smaller by it.
#[test]
fn an_event_without_room_is_counted_and_no_figure_misses_it() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut program = Program::start(
        Command::new(env!("CARGO_BIN_EXE_pty-sizes"))
            .args(["--flood", "8000000", "--buffer", "16"]),
    );
    let pid = program.pid().to_string();
    let mut run = Attached::start(&[
        "--events",
        "--no-echoes",
        "--cpus-per-ring",
        "1",
        "-p",
        &pid,
    ]);
    let mut lines = vec![run.line(WORK)];
    run.signal(Signal::STOP);
    let truth: Value = program.work(WORK);
    run.signal(Signal::CONT);
    run.signal(Signal::INT);
    let ended = run.end(WORK);
    program.finish();
    assert!(ended.status.success(), "{}", ended.stderr);
    lines.extend(ended.stdout);
    let (events, report) = events_and_reports(&lines);
    let lost = report.losses.get("ring_full").copied().unwrap_or(0);
    assert!(
        lost > 0,
        "the rings did not overflow: {} events",
        events.len()
    );
    assert_eq!(report.losses.len(), 1, "{:?}", report.losses);
    let index = truth["ptys"][0]["index"].as_u64().expect("an index") as u32;
    let row = report.pty(index);
    let (reads, writes) = io_calls(&truth);
    let in_figures = |io: &[&phux_trace_tests::report::Io]| -> u64 {
        io.iter().map(|io| io.size.count + io.empty).sum()
    };
    assert_eq!(in_figures(&[&row.master_reads, &row.slave_reads]), reads);
    assert_eq!(in_figures(&[&row.master_writes, &row.slave_writes]), writes);
    let flushes = row.flush_output.run.count + row.flush_input.run.count;
    assert_eq!(events.len() as u64 + lost, reads + writes + flushes);
}

/// The pid that a user types in a container is not the kernel's: inside, the inner ones count.
#[test]
fn inside_a_pid_namespace_the_inner_pids_are_told() {
    if !need_root() || !need_tool("unshare") {
        return;
    }
    let _alone = exclusive();
    let script = format!(
        "while sleep 0.05; do :; done & echo target $!; exec {} attach --json -d 2s -p $!",
        bin("phux-trace").display()
    );
    let ended = Running::start(Command::new("unshare").args([
        "-p",
        "-f",
        "--mount-proc",
        "sh",
        "-c",
        &script,
    ]))
    .end(WORK);
    assert!(ended.status.success(), "{ended:?}");
    let inner: u32 = ended.stdout[0]
        .strip_prefix("target ")
        .and_then(|p| p.parse().ok())
        .expect("a pid");
    assert!(inner < 100, "{inner} is no pid of a new namespace");
    let report = Summed::read(ended.stdout[1..].iter().map(String::as_str));
    assert_eq!(report.processes()[0]["pid"], inner);
    assert!(report.thread(inner).wait.count > 5);
    let outer = |t: &&phux_trace_tests::report::Thread| t.pid == 0 || t.pid > 10_000;
    assert_eq!(report.threads.values().find(outer).map(|t| t.pid), None);
}

/// And from outside, a target within is known by the outer pids.
#[test]
fn from_outside_a_pid_namespace_the_outer_pids_are_told() {
    if !need_root() || !need_tool("unshare") {
        return;
    }
    let _alone = exclusive();
    let mut outer = Running::start(
        Command::new("unshare")
            .args(["-p", "-f", env!("CARGO_BIN_EXE_pty-sizes")])
            .args(["--rounds", "50", "--input-sizes", "1"]),
    );
    let hello = outer.line(WORK);
    assert_eq!(hello, "ready 1", "it is the first of its namespace");
    let [pid] = procfs::children(outer.pid())[..] else {
        panic!("unshare has one child");
    };
    let attached = Attached::to(pid);
    outer.say("go");
    let truth: Value = serde_json::from_str(&outer.line(WORK)).expect("JSON");
    let [child] = procfs::children(pid)[..] else {
        panic!("pty-sizes has one child");
    };
    let report = attached.stop();
    report.assert_nothing_lost();
    assert!(
        report.threads.contains_key(&pid),
        "{:?}",
        report.threads.keys()
    );
    assert!(
        report.threads.contains_key(&child),
        "{:?}",
        report.threads.keys()
    );
    let row = report.pty(truth["ptys"][0]["index"].as_u64().expect("an index") as u32);
    assert!(row.master.iter().any(|e| e.pid == pid), "{row:?}");
    assert!(row.slave.iter().any(|e| e.pid == child), "{row:?}");
    outer.close_stdin();
}
