//! How a run is begun and ended by others: signals, limits, and a `/proc` that shows little.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::bpf::BpfObjects;
use phux_trace_tests::running::Ended;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, procfs, wait_for};
use rustix::process::{Resource, Signal, getrlimit};

const SOON: Duration = Duration::from_secs(60);

/// Runs a shell line in which `$TRACE` is phux-trace.
fn shell(script: &str) -> Command {
    let mut sh = Command::new("sh");
    sh.args(["-c", script]).env("TRACE", bin("phux-trace"));
    sh
}

fn assert_told(ended: &Ended, status: i32, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(status), "{ended:?}");
    for word in words {
        assert!(ended.stderr.contains(word), "no {word:?}: {ended:?}");
    }
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
}

#[test]
fn a_command_that_is_missing_is_wrong_usage() {
    let ended = Running::start(&mut shell("exec $TRACE attach --")).end(SOON);
    assert_told(&ended, 2, &["after --", "Usage: phux-trace attach"]);
}

/// nohup ignores SIGHUP, and a script's background jobs ignore SIGINT: both must stay so.
#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let target = Running::start(Command::new("sleep").arg("1000"));
    let script = "trap '' HUP INT; exec $TRACE attach --json --interval 500ms -d 120s -p $PID";
    let mut run = Running::start(shell(script).env("PID", target.pid().to_string()));
    let first = run.line(SOON);
    assert!(first.contains("\"run\""), "{first}");
    run.signal(Signal::HUP);
    run.signal(Signal::INT);
    // Reports go on: both were delivered before the next two.
    for _ in 0..2 {
        while !run.line(SOON).contains("\"verdict\"") {}
    }
    assert!(run.is_running());
    run.signal(Signal::TERM);
    let ended = run.end(SOON);
    assert!(ended.status.success(), "{ended:?}");
}

/// A report that nobody takes: the second signal ends the run all the same.
#[test]
fn a_second_signal_ends_at_once_and_leaves_nothing() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    // It ignores SIGTERM, so that phux-trace waits for it before it ends.
    let script =
        "exec $TRACE attach -- sh -c 'trap \"\" TERM INT; echo up; while :; do sleep 1; done'";
    let mut run = Running::start(&mut shell(script));
    assert_eq!(run.line(SOON), "up");
    let pid = run.pid();
    run.signal(Signal::TERM);
    // The first one is taken once the command is asked to end: SIGTERM pends nowhere any more.
    wait_for(SOON, || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let pending = status.lines().find_map(|l| l.strip_prefix("ShdPnd:"))?;
        (u64::from_str_radix(pending.trim(), 16).ok()? == 0).then_some(())
    })
    .expect("taken");
    run.signal(Signal::INT);
    let ended = run.end(SOON);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(
        ended.status.signal(),
        Some(2),
        "no report any more: {ended:?}"
    );
    assert!(!ended.stdout.iter().any(|l| l.contains("THREADS")));
    before.assert_nothing_left();
}

#[test]
fn open_files_are_raised_for_us_and_not_for_the_command() {
    if !need_root() || !need_tool("prlimit") {
        return;
    }
    let _alone = exclusive();
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    assert!(hard >= 256, "this machine allows {hard} files");
    let script = "ulimit -Sn 32; exec $TRACE attach -d 60s -- sh -c 'ulimit -Sn'";
    let ended = Running::start(&mut shell(script)).end(SOON);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.stdout.first().map(String::as_str), Some("32"));

    let ended = Running::start(&mut shell("ulimit -n 32; exec $TRACE attach -- true")).end(SOON);
    assert_told(&ended, 1, &["RLIMIT_NOFILE", "32", "ulimit -Hn"]);
}

/// `/proc` that is empty, or that of another pid namespace, is told as such.
#[test]
fn a_proc_that_shows_nothing_is_told() {
    if !need_root() || !need_tool("unshare") {
        return;
    }
    let run = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c", script]);
        Running::start(unshare.env("TRACE", bin("phux-trace"))).end(SOON)
    };
    // Only what a program needs to start from.
    let ended = run("umount -l /proc && exec $TRACE attach tmux");
    assert_told(&ended, 1, &["/proc", "mount"]);
    let ended = run("mount -t tmpfs none /proc && exec $TRACE list");
    assert_told(&ended, 1, &["/proc", "mount -t proc proc /proc"]);
    if !need_tool("setpriv") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let copy = dir.path().join("phux-trace");
    std::fs::copy(bin("phux-trace"), &copy).expect("copied");
    let mut open = Command::new("chmod");
    open.args(["-R", "a+rX"]).arg(dir.path());
    assert!(open.status().expect("chmod").success());
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c"]);
    unshare.arg("mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups $TRACE attach no-such-program");
    let ended = Running::start(unshare.env("TRACE", &copy)).end(SOON);
    assert_told(&ended, 1, &["no-such-program", "hidepid"]);
}

/// Its terminal gone: SIGHUP, and neither output nor error can be written any more.
#[test]
fn a_terminal_that_goes_away_leaves_nothing() {
    if !need_root() || !need_tool("bpftool") || !need_tool("script") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let target = Running::start(Command::new("sleep").arg("1000"));
    let line = format!(
        "exec {} attach --interval 200ms -p {}",
        bin("phux-trace").display(),
        target.pid()
    );
    let mut script = Command::new("script");
    script.args(["-qfc", &line, "/dev/null"]).process_group(0);
    let script = Running::start(&mut script);
    let tracer = wait_for(SOON, || {
        let child = *procfs::children(script.pid()).first()?;
        (procfs::comm(child)? == "phux-trace").then_some(child)
    })
    .expect("starts");
    wait_for(SOON, || {
        let loaded = BpfObjects::now().beyond(&before);
        (loaded.links.len() > 10).then_some(())
    })
    .expect("traces");
    script.signal(Signal::KILL);
    wait_for(SOON, || (!procfs::is_alive(tracer)).then_some(())).expect("it ends");
    before.assert_nothing_left();
    assert!(
        procfs::sleeps(target.pid(), target.pid()),
        "the target goes on"
    );
}

/// Stopped and continued, as by Ctrl-Z and fg: the report is of the whole time, losses included.
#[test]
fn a_run_that_is_stopped_and_continued_reports() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let target = Running::start(Command::new("sleep").arg("1000"));
    let attached = Attached::to(target.pid());
    attached.signal(Signal::STOP);
    let stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", attached.pid())).ok()?;
        let state = stat.rsplit(')').next()?.trim_start().chars().next()?;
        (state == 'T').then_some(())
    };
    wait_for(SOON, stopped).expect("stopped");
    assert!(procfs::sleeps(target.pid(), target.pid()), "not the target");
    attached.signal(Signal::CONT);
    attached.stop();
}
