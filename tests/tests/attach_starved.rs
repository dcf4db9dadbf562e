//! phux-trace without what it needs to go on: memory, or its turn. Nothing of it stays in the kernel, the
//! target does not notice, and what it has written or summed up is right.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::bpf::BpfObjects;
use phux_trace_tests::echoes::Typed;
use phux_trace_tests::machine::slowness;
use phux_trace_tests::memory::MemoryLimit;
use phux_trace_tests::truth::Program;
use phux_trace_tests::untouched::Untouched;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, procfs, wait_for};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(60);

fn journals(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(journals(&path));
        } else if path.extension().is_some_and(|e| e == "journal") {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_recorder_that_the_kernel_kills_for_want_of_memory_leaves_a_readable_recording() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let dir = tempfile::tempdir().expect("a folder");
    let recording = dir.path().join("rec");
    let target =
        Running::start(Command::new("sh").args(["-c", "while :; do echo; done >/dev/null"]));
    let mut command = Command::new(bin("phux-trace"));
    command.args(["record", "--json", "-p", &target.pid().to_string(), "-o"]);
    let mut run = Running::start(command.arg(&recording));
    run.line(SOON * slowness());
    // The first one can be that of a moment in which nothing had come yet.
    let some = || {
        let mut sizes = journals(&recording.join("syscalls")).into_iter();
        sizes
            .any(|j| fs::metadata(j).is_ok_and(|m| m.len() > 32 << 10))
            .then_some(())
    };
    wait_for(SOON * slowness(), some).expect("rows on the disk");
    // It writes, so it has long been loaded.
    let maps = Untouched::look(target.pid()).maps;
    let Some(_limit) = MemoryLimit::of(run.pid(), 1 << 20) else {
        return;
    };
    let ended = run.end(SOON * slowness());
    assert_eq!(ended.status.signal(), Some(9), "{ended:?}");
    before.assert_nothing_left();
    assert!(procfs::is_alive(target.pid()));
    assert_eq!(Untouched::look(target.pid()).maps, maps);
    let output = Command::new(bin("phux-trace"))
        .arg("report")
        .arg(&recording)
        .output();
    let output = output.expect("runs");
    assert!(output.status.success(), "{output:?}");
    let rows = Command::new(bin("phux-trace"))
        .args(["export", "--csv", "syscalls"])
        .arg(&recording)
        .output()
        .expect("runs");
    let rows = String::from_utf8_lossy(&rows.stdout).lines().count();
    assert!(rows > 100, "{rows} rows");
}

/// However little of an address space it is given: it runs, or ends with a reason, and leaves nothing.
#[test]
fn an_address_space_that_is_too_small_ends_the_run_and_leaves_nothing() {
    if !need_root() || !need_tool("bpftool") || !need_tool("prlimit") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let target = Running::start(Command::new("sleep").arg("1000"));
    let asleep = || procfs::sleeps(target.pid(), target.pid()).then_some(());
    wait_for(SOON, asleep).expect("asleep");
    let as_it_was = Untouched::look(target.pid());
    let mut failed = 0;
    for megabytes in [48, 64, 80, 96, 128, 1024] {
        let limit = format!("--as={}", megabytes << 20);
        let mut command = Command::new("prlimit");
        command.arg(limit).arg(bin("phux-trace"));
        command.args([
            "attach",
            "--json",
            "-d",
            "500ms",
            "-p",
            &target.pid().to_string(),
        ]);
        let ended = Running::start(&mut command).end(SOON * slowness());
        if !ended.status.success() {
            failed += 1;
            assert!(
                !ended.stderr.is_empty(),
                "{megabytes} MiB: no reason: {ended:?}"
            );
        }
        assert!(ended.status.success() || megabytes < 1024, "{ended:?}");
        before.assert_nothing_left();
        as_it_was.assert_still(target.pid());
    }
    assert!(failed > 0, "48 MiB are enough by now: try less");
}

/// Stopped, as by Ctrl-Z, for longer than its rings last: what is told one by one is lost, and counted; the
/// sums are in the kernel, and whole.
#[test]
fn while_it_is_stopped_sums_go_on_and_lost_events_are_counted() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let typist = bin("typist").display().to_string();
    let mut command = Command::new(&typist);
    command.args([
        "--panes", "10", "--shows", "ready", "--keys", "8000", "--rate", "2000",
    ]);
    let mut program = Program::start(command.args(["--", &typist, "--echo"]));
    let attached = Attached::to(program.pid());
    attached.signal(Signal::STOP);
    let stopped = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", attached.pid())).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.starts_with('T').then_some(())
    };
    wait_for(SOON, stopped).expect("stopped");
    let truth: Typed = program.work(SOON * slowness());
    attached.signal(Signal::CONT);
    let report = attached.stop();
    program.finish();
    assert!(
        report.losses.contains_key("ring_full"),
        "{:?}",
        report.losses
    );
    let mut panes: Vec<u32> = truth.keys.iter().map(|k| k.pty).collect();
    panes.sort_unstable();
    panes.dedup();
    assert_eq!(panes.len(), 10);
    let written = panes
        .iter()
        .map(|pane| report.pty(*pane).master_writes.size.sum);
    assert_eq!(written.sum::<u64>(), truth.keys.len() as u64);
    before.assert_nothing_left();
}
