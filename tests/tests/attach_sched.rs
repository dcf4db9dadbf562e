//! `attach` on a thread that shares its CPU with a hog: against the kernel's own account of the
//! thread, and against independent tools in the same window.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::{Attached, unskipped};
use phux_trace_tests::bpftrace::{Bpftrace, Tool};
use phux_trace_tests::machine::{find_tool, slowness};
use phux_trace_tests::procfs::{self, Account};
use phux_trace_tests::report::{Dist, Summed, Thread};
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, exclusive, need_root, need_tool, wait_for};
use rustix::process::Signal;
use serde::Deserialize;

const WORK: Duration = Duration::from_secs(120);

#[derive(Debug, Deserialize)]
struct Truth {
    wakes: u64,
    victim: Ident,
    hog: Option<Ident>,
}

#[derive(Debug, Deserialize)]
struct Ident {
    pid: u32,
    tid: u32,
    #[serde(flatten)]
    account: Account,
}

fn traced(options: &[&str]) -> (Truth, Summed) {
    unskipped(|| {
        let mut program = victim(options);
        let attached = Attached::for_sums(program.pid());
        let truth = program.work(WORK);
        let report = attached.stop();
        program.finish();
        (truth, report)
    })
}

fn victim(options: &[&str]) -> Program {
    Program::start(Command::new(env!("CARGO_BIN_EXE_victim")).args(options))
}

/// Counts are exact; times may differ by what lies between the kernel's stamp and the tracepoint.
fn assert_account(row: &Thread, account: &Account) {
    // The kernel counts no wait of a thread that is preempted on its way to sleep; that happens only
    // where the way is long.
    let uncounted = if slowness() > 1 {
        account.involuntary
    } else {
        0
    };
    assert!(
        (account.slices..=account.slices + uncounted).contains(&row.wait.count),
        "{} waits of {}: {account:?}",
        row.wait.count,
        row.comm
    );
    assert_eq!(
        row.voluntary, account.voluntary,
        "voluntary switches of {}",
        row.comm
    );
    assert_eq!(
        row.involuntary, account.involuntary,
        "involuntary switches of {}",
        row.comm
    );
    let slack = account.slices as f64 * 20_000.0 * f64::from(slowness());
    // The kernel begins to count when the thread is in a queue. We begin at its wake-up, from which
    // a CPU that has to leave idle first takes as long as it likes: that part is told as idle.
    let idle = row
        .ran_instead
        .iter()
        .filter(|c| c.kind == "idle")
        .map(|c| c.ns)
        .sum::<u64>();
    let waited = row.wait.sum.saturating_sub(idle);
    assert!(
        row.wait.sum as f64 >= account.run_delay_ns as f64 * 0.9 - slack,
        "waited {} ns here, {} ns there",
        row.wait.sum,
        account.run_delay_ns
    );
    assert!(
        waited as f64 <= account.run_delay_ns as f64 * 1.1 + slack,
        "waited {waited} ns besides {idle} ns of idle here, {} ns there",
        account.run_delay_ns
    );
    assert_near(row.on_cpu_ns, account.on_cpu_ns, 0.1, slack, "on CPU");
}

fn assert_near(ours: u64, theirs: u64, part: f64, slack: f64, what: &str) {
    let (a, b) = (ours as f64, theirs as f64);
    assert!(
        (a - b).abs() <= b * part + slack,
        "{what}: {ours} ns here, {theirs} ns there"
    );
}

/// The sum of blamed time is the sum of waits, and `hog` has the most of it.
fn assert_blames(row: &Thread, hog: &str) {
    let blamed = row.blamed_ns() as f64;
    let waited = row.wait.sum as f64;
    assert!(
        (blamed - waited).abs() <= waited * 0.05,
        "{blamed} blamed, {waited} waited: {row:?}"
    );
    let most = row
        .ran_instead
        .iter()
        .max_by_key(|c| c.ns)
        .expect("somebody ran instead");
    assert_eq!(most.name, hog, "{:?}", row.ran_instead);
    assert!(
        row.blamed_on(hog) as f64 > waited * 0.5,
        "{:?}",
        row.ran_instead
    );
}

#[test]
fn the_spinning_thread_is_who_ran_instead() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report) = traced(&["--count", "300"]);
    report.assert_nothing_lost();
    let row = report.thread(truth.victim.tid);
    assert_eq!(
        (row.comm.as_str(), row.relation.as_str()),
        ("victim", "target")
    );
    // Where the machine stands still at times, a timer can be over before the victim sleeps on it.
    assert!(row.wait.count >= truth.wakes || slowness() > 1);
    assert_account(row, &truth.victim.account);
    assert_blames(row, "spinner");
    let hog = truth.hog.expect("a hog");
    assert_account(report.thread(hog.tid), &hog.account);
    // A timer's interrupt strikes while the spinner runs: the spinner has woken nobody.
    let by = |name: &str| -> u64 {
        row.wakers
            .iter()
            .filter(|w| w.name == name)
            .map(|w| w.count)
            .sum()
    };
    assert!(
        by("interrupt") >= row.voluntary * 9 / 10,
        "{:?}",
        row.wakers
    );
    assert!(by("spinner") <= row.voluntary / 10, "{:?}", row.wakers);
}

#[test]
fn a_hog_of_another_process_is_named_with_its_pid() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report) = traced(&["--count", "300", "--wake", "pipe", "--hog-process"]);
    report.assert_nothing_lost();
    let row = report.thread(truth.victim.tid);
    assert_account(row, &truth.victim.account);
    assert_blames(row, "hog");
    let hog = truth.hog.expect("a hog");
    let named = row
        .ran_instead
        .iter()
        .find(|c| c.name == "hog")
        .expect("the hog");
    assert!(
        named.kind == "task" && named.pids.contains(&hog.pid),
        "{named:?}"
    );
    let woken: u64 = row
        .wakers
        .iter()
        .filter(|w| w.name == "victim")
        .map(|w| w.count)
        .sum();
    assert!(
        woken >= truth.wakes,
        "the ringer is a thread of the same program: {:?}",
        row.wakers
    );
}

#[test]
fn without_a_hog_nobody_is_invented() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (truth, report) = traced(&["--count", "200", "--wake", "futex", "--no-hog"]);
    report.assert_nothing_lost();
    let row = report.thread(truth.victim.tid);
    assert_account(row, &truth.victim.account);
    assert_eq!(
        row.blamed_on("spinner") + row.blamed_on("hog"),
        0,
        "{:?}",
        row.ran_instead
    );
    assert!(
        row.ran_instead
            .iter()
            .all(|c| c.kind != "task" || !c.pids.contains(&0)),
        "{row:?}"
    );
    assert!(
        report.threads.values().all(|t| t.tid != 0),
        "the idle task is no thread of a target"
    );
    // Clocks of two CPUs that disagree must not make a wait of centuries.
    for thread in report.threads.values() {
        assert!(thread.wait.max < 600_000_000_000, "{thread:?}");
    }
}

/// An independent tool may see a wait more or less at the edges of its window.
fn assert_counts_agree(ours: u64, theirs: u64, tool: &str) {
    assert!(
        ours.abs_diff(theirs) as f64 <= (ours.max(theirs) as f64 * 0.01).max(1.0),
        "{ours} waits here, {theirs} with {tool}"
    );
}

/// p50 and p99 within one row of the other tool's histogram, in µs.
fn assert_percentiles_agree(ours: &Dist, rows: &[(u64, u64, u64)], tool: &str) {
    let all: u64 = rows.iter().map(|r| r.2).sum();
    for percent in [50.0, 99.0] {
        let mut seen = 0;
        let theirs = rows
            .iter()
            .position(|row| {
                seen += row.2;
                seen as f64 >= all as f64 * percent / 100.0
            })
            .expect("a row");
        let value = ours.percentile(percent) / 1000;
        let here = rows
            .iter()
            .position(|row| value <= row.1)
            .unwrap_or(rows.len());
        assert!(
            here.abs_diff(theirs) <= 1,
            "p{percent}: {value} µs here, {:?} with {tool}",
            rows[theirs]
        );
    }
}

/// All waits of the threads of one process, as one distribution.
fn all_waits(report: &Summed, pid: u32) -> Dist {
    let mut all = Dist::default();
    for thread in report.threads.values().filter(|t| t.pid == pid) {
        all.absorb(thread.wait.clone());
    }
    all
}

#[test]
fn bpftrace_in_the_same_window_agrees() {
    if !need_root() || !need_tool("bpftrace") {
        return;
    }
    let _alone = exclusive();
    let mut program = victim(&["--count", "400"]);
    let script = Bpftrace::start(
        &Tool::installed(),
        "runqlat-target.bt",
        &[&program.pid().to_string()],
    );
    let attached = Attached::to(program.pid());
    let truth: Truth = program.work(WORK);
    let report = attached.stop();
    let maps = script.stop();
    program.finish();
    report.assert_nothing_lost();
    for ident in [&truth.victim, truth.hog.as_ref().expect("a hog")] {
        let row = report.thread(ident.tid);
        let key = format!("{},{}", row.comm, ident.tid);
        assert_counts_agree(
            row.wait.count,
            maps.number("@waits", &key).unwrap_or(0),
            "bpftrace",
        );
        assert_percentiles_agree(&row.wait, &maps.hist("@wait_us", &key), "bpftrace");
    }
}

/// Rows of runqlat's output, `  4 -> 7  : 12  |***|`, as (smallest, largest, count).
fn rows_of_runqlat(lines: &[String]) -> Vec<(u64, u64, u64)> {
    lines
        .iter()
        .filter_map(|line| {
            let (range, rest) = line.split_once(':')?;
            let (min, max) = range.split_once("->")?;
            let count = rest.split_whitespace().next()?;
            Some((
                min.trim().parse().ok()?,
                max.trim().parse().ok()?,
                count.parse().ok()?,
            ))
        })
        .collect()
}

#[test]
fn runqlat_of_bcc_in_the_same_window_agrees() {
    if !need_root() || !need_tool("runqlat") {
        return;
    }
    let _alone = exclusive();
    let mut program = victim(&["--count", "400"]);
    let runqlat = find_tool("runqlat").expect("just found");
    let pid = program.pid().to_string();
    // Into a pipe it would keep its first line to itself until the end.
    let mut tool = Running::start(
        Command::new("stdbuf")
            .arg("-oL")
            .arg(runqlat)
            .args(["-p", &pid]),
    );
    // It says "Tracing" when everything is attached, then sleeps until Ctrl-C.
    let hello = tool.line(Duration::from_secs(60));
    assert!(hello.starts_with("Tracing"), "{hello}");
    let asleep = || procfs::sleeps(tool.pid(), tool.pid()).then_some(());
    wait_for(Duration::from_secs(10), asleep).expect("runqlat traces");
    let attached = Attached::to(program.pid());
    let _: serde_json::Value = program.work(WORK);
    let report = attached.stop();
    tool.signal(Signal::INT);
    let ended = tool.end(Duration::from_secs(30));
    report.assert_nothing_lost();
    let rows = rows_of_runqlat(&ended.stdout);
    let ours = all_waits(&report, program.pid());
    program.finish();
    assert_counts_agree(ours.count, rows.iter().map(|r| r.2).sum(), "runqlat");
    assert_percentiles_agree(&ours, &rows, "runqlat");
}
