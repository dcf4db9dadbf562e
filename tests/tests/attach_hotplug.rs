//! CPUs that are taken away and come back while we trace. In a guest only: it is the whole machine's.

use std::fs;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::machine::slowness;
use phux_trace_tests::{Running, exclusive, need_root, procfs, wait_for};

const SOON: Duration = Duration::from_secs(60);
const CPU1: &str = "/sys/devices/system/cpu/cpu1/online";

/// Time that a thread has had a CPU, in ticks.
fn ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_ascii_whitespace().nth(11)?.parse().ok()
}

#[test]
fn a_cpu_that_goes_and_comes_back_changes_no_figure() {
    let guest = fs::read_to_string("/proc/cmdline").is_ok_and(|l| l.contains("phux_guest="));
    if !guest {
        println!("skipped: CPUs are taken away in a guest of scripts/vm-matrix only");
        return;
    }
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    // One only: with more of them an attach takes minutes in an emulated guest.
    let busy = Running::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    let pid = busy.pid();
    let attached = Attached::to(pid);
    let goes_on = |why: &str| {
        let now = ticks(pid).expect("it lives");
        wait_for(SOON * slowness(), || (ticks(pid)? > now + 10).then_some(())).expect(why);
    };
    for _ in 0..2 {
        fs::write(CPU1, "0").expect("cpu1 goes");
        goes_on("runs on the other");
        fs::write(CPU1, "1").expect("cpu1 is back");
        goes_on("runs on both");
    }
    assert!(procfs::is_alive(attached.pid()), "the run goes on");
    let report = attached.stop();
    report.assert_nothing_lost();
    let window = report.runs.last().expect("a report")["window"]["duration_ns"].as_u64();
    let (window, row) = (window.expect("ns"), report.thread(pid));
    // It runs or waits all the time.
    let lived = row.on_cpu_ns + row.wait.sum + row.waiting_ns.unwrap_or(0);
    assert!(
        lived.abs_diff(window) < window / 10,
        "{lived} of {window}: {row:?}"
    );
    assert!(row.wait.count > 0, "{row:?}");
}
