//! What can happen to a target, and to phux-trace, while it traces: nothing may hang, panic or be
//! left in the kernel.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::{Attached, unskipped};
use phux_trace_tests::bpf::BpfObjects;
use phux_trace_tests::machine::slowness;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{
    Running, bin, exclusive, need_root, need_tool, notes, procfs, running::Ended, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

/// Runs `phux-trace attach` with these arguments to its end.
fn attach(args: &[&str]) -> Ended {
    Running::start(Command::new(bin("phux-trace")).arg("attach").args(args)).end(SOON)
}

fn assert_plain_error(ended: &Ended, about: &str) {
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains(about), "no {about:?} in {ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    assert!(
        ended.stderr.lines().count() <= 12,
        "an error is a few lines: {ended:?}"
    );
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

#[test]
fn a_target_that_is_not_there_is_a_plain_error() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    assert_plain_error(&attach(&["no-such-program-runs"]), "no-such-program-runs");
    let dead = {
        let mut child = Command::new("true").spawn().expect("a child");
        child.wait().expect("ended");
        child.id().to_string()
    };
    assert_plain_error(&attach(&["-p", &dead]), &dead);
    assert_plain_error(&attach(&["-p", "4294967295"]), "4294967295");
}

#[test]
fn nothing_is_left_in_the_kernel_however_it_ends() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_sdt-many")).arg("--hits=5"));

    let attached = Attached::to(program.pid());
    let loaded = BpfObjects::now().beyond(&before);
    assert!(
        !loaded.programs.is_empty() && !loaded.maps.is_empty(),
        "{loaded:?}"
    );
    attached.stop();
    before.assert_nothing_left();

    // Only how it goes that no program has a say in differs from kernel to kernel.
    let all = [Signal::KILL, Signal::TERM, Signal::HUP];
    let signals = if slowness() > 1 { &all[..1] } else { &all[..] };
    for &signal in signals {
        let attached = Attached::to(program.pid());
        attached.signal(signal);
        let (ended, _) = attached.ended();
        assert!(
            signal == Signal::KILL || !ended.stderr.contains("panicked"),
            "{ended:?}"
        );
        before.assert_nothing_left();
    }
    // No semaphore of the target is still raised.
    let truth: Value = program.work(SOON);
    assert_eq!(
        truth["probes"][0]["fired"],
        serde_json::json!([0, 0, 0, 0, 0, 0, 0, 0])
    );
    program.finish();
}

#[test]
fn a_target_that_dies_ends_the_run_with_its_report() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let target = sleeper();
    let pid = target.pid();
    let attached = Attached::to(pid);
    target.signal(Signal::KILL);
    let report = attached.end();
    let process = report
        .processes()
        .iter()
        .find(|p| p["pid"] == pid)
        .expect("the target");
    let ended = process["ended"].as_str().expect("it ended");
    assert!(ended.contains("signal 9"), "{ended}");
}

#[test]
fn a_target_that_execs_is_followed_and_named() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let mut shell = Running::start(Command::new("sh").args(["-c", "read -r x; exec sleep 1000"]));
    let pid = shell.pid();
    wait_for(SOON, || procfs::sleeps(pid, pid).then_some(())).expect("reads");
    let attached = Attached::to(pid);
    shell.say("go");
    wait_for(SOON, || (procfs::comm(pid)? == "sleep").then_some(())).expect("execs");
    let report = attached.stop();
    let text = format!("{:?} {:?}", report.processes(), report.notes());
    assert!(text.contains("sleep"), "the exec is told: {text}");
    assert!(report.thread(pid).wait.count > 0);
}

#[test]
fn threads_and_forks_that_come_in_bursts_are_followed() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let ((target, truth), report) = unskipped(|| {
        let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_spawn-storm")).args([
            "--bursts",
            "5",
            "--threads",
            "100",
            "--forks",
            "5",
            "--execs",
            "5",
        ]));
        let target = program.pid();
        let attached = Attached::to(target);
        let truth: Value = program.work(SOON);
        let report = attached.stop();
        program.finish();
        ((target, truth), report)
    });
    report.assert_nothing_lost();
    let ids =
        |name: &str| -> Vec<u32> { serde_json::from_value(truth[name].clone()).expect("numbers") };
    let tids = ids("tids");
    assert_eq!(tids.len(), 500);
    for tid in &tids {
        let thread = report.thread(*tid);
        assert_eq!((thread.pid, thread.relation.as_str()), (target, "target"));
        // It ran at once, and again after each of its two naps; where the machine stands still at
        // times, a nap can be over before it begins.
        let naps = if slowness() > 1 { 0 } else { 2 };
        assert!(
            thread.wait.count > naps && thread.voluntary >= naps && thread.exited,
            "{thread:?}"
        );
    }
    for pid in ids("forked") {
        let thread = report.thread(pid);
        assert_eq!(
            (thread.pid, thread.relation.as_str()),
            (pid, "target"),
            "{thread:?}"
        );
    }
    // What the target started, and has ended, stands in one row by name.
    let execed = &report.ended["true"];
    assert_eq!((execed.relation.as_str(), execed.exited), ("peer", true));
    assert_eq!(execed.threads, ids("execed").len() as u64);
    assert!(execed.wait.count >= execed.threads, "{execed:?}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_live_target_with_hostile_notes_is_traced_all_the_same() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let dir = tempfile::tempdir().expect("a folder");
    for (nth, (what, bytes)) in notes::hostile().into_iter().enumerate() {
        let path = dir.path().join(format!("hostile-{nth}"));
        notes::write(&path, &bytes).expect("written");
        let mut target = Running::start(&mut Command::new(&path));
        let pid = target.pid();
        wait_for(SOON, || procfs::sleeps(pid, pid).then_some(())).expect(what);
        let mut run = Attached::start(&["-p", &pid.to_string()]);
        // A report comes, whatever stands in the file.
        let first = run.line(SOON);
        assert!(
            first.starts_with('{') && !first.contains(char::is_control),
            "{what}: {first}"
        );
        run.signal(Signal::INT);
        let ended = run.end(SOON);
        assert!(ended.status.success(), "{what}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{what}: {ended:?}");
        assert!(
            !ended.stderr.contains('\x1b'),
            "{what}: control characters reach the terminal"
        );
        assert!(target.is_running(), "{what}: the target was harmed");
    }
    before.assert_nothing_left();
}

#[test]
fn what_is_refused_is_named_with_what_it_costs() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let target = sleeper();
    let report = Attached::without("fentry,flush,uprobe", target.pid()).stop();
    let backends = report.runs.last().expect("a report")["backends"].clone();
    for (capability, used) in [("tty", true), ("flush", false), ("hop", false)] {
        let all = backends.as_array().expect("backends");
        let backend = all
            .iter()
            .find(|b| b["capability"] == capability)
            .unwrap_or_else(|| panic!("no {capability} in {backends}"));
        let missing = backend["missing"].as_str().expect("what is missing");
        for told in ["left out", "Lost: ", "What would bring it: "] {
            assert!(missing.contains(told), "{missing}");
        }
        assert_eq!(backend["used"].is_string(), used, "{backend}");
    }
}

#[test]
fn a_wrapped_command_passes_its_status_on() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let code = |args: &[&str]| attach(args).status.code();
    assert_eq!(code(&["--", "true"]), Some(0));
    assert_eq!(code(&["--", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["--", "sh", "-c", "kill -TERM $$"]), Some(128 + 15));
    assert_eq!(code(&["-d", "500ms", "--", "sleep", "1000"]), Some(124));
    let missing = attach(&["--", "/no/such/program"]);
    assert!(
        !missing.status.success() && missing.stderr.contains("/no/such/program"),
        "{missing:?}"
    );
}

#[test]
fn every_line_is_valid_by_the_schema_that_it_prints() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let printed = Running::start(Command::new(bin("phux-trace")).arg("schema")).end(SOON);
    let schema: Value = serde_json::from_str(&printed.stdout.join("\n")).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a sound schema");
    let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_pty-sizes")).args([
        "--input-sizes",
        "1",
        "--rounds",
        "50",
    ]));
    let attached = Attached::to(program.pid());
    let _: Value = program.work(SOON);
    attached.signal(Signal::INT);
    let (ended, first) = attached.ended();
    program.finish();
    let lines: Vec<Value> = std::iter::once(&first)
        .chain(&ended.stdout)
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    for line in &lines {
        let errors: Vec<String> = validator.iter_errors(line).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?} in {line:#}");
    }
    for kind in ["run", "thread", "pty", "cost", "verdict"] {
        assert!(
            lines.iter().any(|l| l["type"] == kind),
            "no line of type {kind}"
        );
    }
}
