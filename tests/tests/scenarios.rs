//! Why a terminal lags, made on purpose on one CPU where time is counted in instructions
//! (`scripts/vm/boot --det`): the waits, who ran instead, and the verdict, the same in every run.
//!
//! No time here is one of a real machine; what holds is how they relate.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::Attached;
use phux_trace_tests::classes::Class;
use phux_trace_tests::interference::Cgroup;
use phux_trace_tests::report::{Dist, Summed, Thread};
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, bin, procfs};
use serde_json::Value;

const WORK: Duration = Duration::from_secs(600);
const MS: u64 = 1_000_000;

/// How long a hog that takes turns is busy, and how long it sleeps.
const BUSY: u64 = 6 * MS;
const TURNS: [&str; 2] = ["--burst-us=6000", "--gap-us=4000"];

fn hog(turns: &[&str], class: Class) -> Running {
    let mut hog = Running::start(Command::new(bin("hog")).args(turns));
    hog.line(WORK);
    class.set(hog.pid()).expect("a class");
    hog
}

/// What came of it.
struct Echoes {
    report: Summed,
    server: u32,
    child: u32,
    index: u32,
}

/// A program with a PTY, whose child answers each of 60 keys after 3 ms, under `attach`; `begin` makes
/// the trouble, of the server's and the child's process.
fn echoes<T>(begin: impl FnOnce(u32, u32) -> T) -> Echoes {
    let options = ["--sizes", "1", "--input-sizes", "1", "--rounds", "60"];
    let mut program = Program::start(
        Command::new(bin("pty-sizes"))
            .args(options)
            .args(["--gap-us", "3000"]),
    );
    let server = program.pid();
    let attached = Attached::to(server);
    // When nobody else wants the CPU: there is but one.
    Class::Idle.set(attached.pid()).expect("a class of attach");
    let children = procfs::children(server);
    let [child] = children[..] else {
        panic!("one child: {children:?}");
    };
    let trouble = begin(server, child);
    let truth: Value = program.work(WORK);
    drop(trouble);
    let report = attached.stop();
    program.finish();
    Echoes {
        report,
        server,
        child,
        index: truth["ptys"][0]["index"].as_u64().expect("an index") as u32,
    }
}

impl Echoes {
    fn server(&self) -> &Thread {
        self.report.thread(self.server)
    }

    fn child(&self) -> &Thread {
        self.report.thread(self.child)
    }

    /// How long the flush worker waited for the CPU, towards the server.
    fn worker(&self) -> &Dist {
        &self.report.pty(self.index).flush_output.wait
    }

    /// Prints the figures for a reader, and for who compares one run with the next; gives the cause
    /// that the verdict names.
    fn cause(&self, scenario: &str) -> String {
        figures(scenario, "server", &self.server().wait);
        figures(scenario, "child", &self.child().wait);
        figures(scenario, "worker", self.worker());
        cause(&self.report, scenario)
    }
}

fn figures(scenario: &str, what: &str, wait: &Dist) {
    let (p50, p90) = (wait.percentile(50.0), wait.percentile(90.0));
    println!(
        "FIGURE {scenario} {what}: {} waits, p50 {p50} ns, p90 {p90} ns",
        wait.count
    );
}

fn cause(report: &Summed, scenario: &str) -> String {
    let verdict = report.verdicts.last().expect("a verdict");
    println!(
        "VERDICT {scenario}: {} {}",
        verdict["cause"], verdict["sentence"]
    );
    verdict["cause"].as_str().unwrap_or_default().to_owned()
}

/// `percent` of the waits of this are that long.
fn assert_wait(wait: &Dist, percent: f64, ns: std::ops::RangeInclusive<u64>) {
    let found = wait.percentile(percent);
    assert!(
        ns.contains(&found),
        "p{percent} is {found} ns, not in {ns:?}: {wait:?}"
    );
}

/// Most of what it waited is the hog's doing.
fn assert_blames_hog(thread: &Thread) {
    let share = thread.blamed_on("hog") as f64 / thread.wait.sum as f64;
    assert!(share > 0.8, "{share} of {thread:?}");
}

#[test]
#[ignore = "in counted time: scripts/vm-matrix scenarios"]
fn with_nothing_in_the_way_nobody_waits() {
    let echoes = echoes(|_, _| ());
    assert_eq!(echoes.cause("calm"), "nothing_wrong");
    assert_wait(&echoes.server().wait, 90.0, 0..=MS);
    assert_wait(&echoes.child().wait, 90.0, 0..=MS);
    assert_wait(echoes.worker(), 90.0, 0..=MS);
}

#[test]
#[ignore = "in counted time: scripts/vm-matrix scenarios"]
fn a_hog_of_a_lower_class_is_no_hog() {
    let echoes = echoes(|_, _| hog(&[], Class::Idle));
    assert_eq!(echoes.cause("idle-hog"), "nothing_wrong");
    assert_wait(&echoes.server().wait, 90.0, 0..=MS);
    assert_wait(&echoes.child().wait, 90.0, 0..=MS);
    assert_wait(echoes.worker(), 90.0, 0..=MS);
}

#[test]
#[ignore = "in counted time: scripts/vm-matrix scenarios"]
fn an_idle_class_target_waits_for_a_hog() {
    let echoes = echoes(|server, child| {
        Class::Idle.set(server).expect("a class");
        Class::Idle.set(child).expect("a class");
        hog(&TURNS, Class::Nice(0))
    });
    assert_eq!(echoes.cause("idle-target"), "low_priority");
    // The answer falls anywhere in a turn of the hog, and waits for its end.
    assert_wait(&echoes.child().wait, 90.0, MS..=BUSY + MS);
    assert_blames_hog(echoes.child());
}

#[test]
#[ignore = "in counted time: scripts/vm-matrix scenarios"]
fn a_nice_target_waits_for_a_hog() {
    let echoes = echoes(|server, child| {
        Class::Nice(19).set(server).expect("a class");
        Class::Nice(19).set(child).expect("a class");
        hog(&[], Class::Nice(0))
    });
    assert_eq!(echoes.cause("nice-target"), "low_priority");
    assert_wait(&echoes.child().wait, 90.0, MS..=20 * MS);
    assert_blames_hog(echoes.child());
}

#[test]
#[ignore = "in counted time: scripts/vm-matrix scenarios"]
fn who_sleeps_much_gets_past_a_hog_of_its_class() {
    let echoes = echoes(|_, _| hog(&[], Class::Nice(0)));
    echoes.cause("hog");
    assert_wait(&echoes.server().wait, 90.0, 0..=MS);
    assert_wait(&echoes.child().wait, 90.0, 0..=MS);
    assert_wait(echoes.worker(), 90.0, 0..=MS);
}

#[test]
#[ignore = "in counted time: scripts/vm-matrix scenarios"]
fn a_real_time_hog_makes_everybody_wait() {
    let echoes = echoes(|_, _| hog(&TURNS, Class::Fifo(10)));
    assert_eq!(echoes.cause("fifo-hog"), "hog_on_child");
    assert_wait(&echoes.child().wait, 90.0, MS..=BUSY + MS);
    assert_blames_hog(echoes.child());
}

/// A server and a child with real-time priority still wait for the kernel's worker, which has none.
#[test]
#[ignore = "in counted time: scripts/vm-matrix scenarios"]
fn a_starved_worker_delays_a_real_time_server() {
    let echoes = echoes(|server, child| {
        Class::Fifo(20).set(server).expect("a class");
        Class::Fifo(20).set(child).expect("a class");
        hog(&TURNS, Class::Fifo(10))
    });
    echoes.cause("starved-worker");
    assert_wait(&echoes.server().wait, 90.0, 0..=MS);
    assert_wait(&echoes.child().wait, 90.0, 0..=MS);
    assert_wait(echoes.worker(), 90.0, MS..=BUSY + MS);
}

#[test]
#[ignore = "in counted time: scripts/vm-matrix scenarios"]
fn a_quota_makes_a_thread_wait_with_nobody_on_the_cpu() {
    let options = [
        "--no-hog",
        "--count",
        "60",
        "--gap-us",
        "1000",
        "--work-us",
        "3000",
    ];
    let mut program = Program::start(Command::new(bin("victim")).args(options));
    let attached = Attached::to(program.pid());
    Class::Idle.set(attached.pid()).expect("a class of attach");
    // It works for 3 of 4 ms, and may for 20 of 100.
    let (quota, period) = (Duration::from_millis(20), Duration::from_millis(100));
    let _quota = Cgroup::with_quota(&[program.pid()], quota, period);
    let truth: Value = program.work(WORK);
    let report = attached.stop();
    program.finish();
    let tid = truth["victim"]["tid"].as_u64().expect("a tid") as u32;
    let victim = report.thread(tid);
    figures("quota", "victim", &victim.wait);
    assert_eq!(cause(&report, "quota"), "quota_throttling");
    // 180 ms of work in 20 ms a period: eight times the rest of the period is waited for.
    assert!(
        (400 * MS..=900 * MS).contains(&victim.wait.sum),
        "{victim:?}"
    );
    assert_wait(&victim.wait, 99.0, 50 * MS..=100 * MS);
    assert_eq!(victim.blamed_on("hog"), 0, "{victim:?}");
}
