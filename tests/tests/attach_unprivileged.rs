//! `attach` by a user without privileges, on his own processes: a report from `/proc` and from the
//! processes themselves, which says first that it is one.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::machine::output_of;
use phux_trace_tests::nobody::Nobody;
use phux_trace_tests::procfs::Account;
use phux_trace_tests::report::{Pty, Summed};
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, exclusive, need_root, need_tool, procfs, wait_for};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

/// A run as nobody that has begun: its first interval has been reported.
fn attached(nobody: &Nobody, args: &[&str]) -> (Running, Vec<String>) {
    let mut command = nobody.command("phux-trace");
    command.args(["attach", "--json", "--interval", "300ms", "-d", "120s"]);
    let mut run = Running::start(command.args(args));
    let mut lines = Vec::new();
    while !lines
        .last()
        .is_some_and(|l: &String| l.contains("\"verdict\""))
    {
        lines.push(run.line(SOON));
    }
    (run, lines)
}

/// Ends it as Ctrl-C does.
fn stop((run, mut lines): (Running, Vec<String>)) -> (Summed, Vec<Value>) {
    run.signal(Signal::INT);
    let ended = run.end(SOON);
    assert!(ended.status.success(), "{ended:?}");
    assert!(
        ended.stderr.contains("Not traced") && ended.stderr.contains("CAP_BPF"),
        "said first: {ended:?}"
    );
    lines.extend(ended.stdout);
    let values = lines.iter().map(|l| serde_json::from_str(l).expect("JSON"));
    let last: Vec<Value> = values.collect();
    (Summed::read(lines.iter().map(String::as_str)), last)
}

/// The row of a thread in the last report.
fn row(lines: &[Value], tid: u32) -> &Value {
    let of = |l: &&Value| l["type"] == "thread" && l["tid"] == tid;
    lines
        .iter()
        .rev()
        .find(of)
        .unwrap_or_else(|| panic!("no thread {tid}"))
}

fn backend<'a>(report: &'a Summed, capability: &str) -> &'a Value {
    let all = report.runs.last().expect("a report")["backends"].as_array();
    let mut all = all.expect("backends").iter();
    all.find(|b| b["capability"] == capability)
        .expect(capability)
}

#[derive(Debug, Deserialize)]
struct Truth {
    victim: Victim,
}

#[derive(Debug, Deserialize)]
struct Victim {
    tid: u32,
    #[serde(flatten)]
    account: Account,
}

#[test]
fn waits_are_those_of_the_kernels_own_account() {
    if !need_root() || !need_tool("setpriv") {
        return;
    }
    let _alone = exclusive();
    let nobody = Nobody::with(&["phux-trace", "victim"]);
    let mut program =
        Program::start(
            nobody
                .command("victim")
                .args(["--count", "300", "--hog-process"]),
        );
    let run = attached(&nobody, &["-p", &program.pid().to_string()]);
    let truth: Truth = program.work(SOON);
    let (report, lines) = stop(run);
    program.finish();
    let row = row(&lines, truth.victim.tid);
    let account = &row["account"];
    let figure = |name: &str| account[name].as_u64().expect("a figure");
    // It sleeps before and after what it accounts for: a slice or two more at most.
    let (slices, wait) = (
        truth.victim.account.slices,
        truth.victim.account.run_delay_ns,
    );
    assert!(
        (slices..slices + 4).contains(&figure("count")),
        "{row} {truth:?}"
    );
    assert!(figure("sum") >= wait, "{row} {truth:?}");
    assert!(
        figure("sum") <= wait + wait / 10 + 20_000_000,
        "{row} {truth:?}"
    );
    assert_eq!(row["wait"]["count"], 0, "no distribution is made up: {row}");
    assert!(figure("longest") <= figure("sum") && figure("slow") <= figure("count"));
    // Starved by a hog on its CPU: 300 waits of milliseconds are felt, and sums prove it.
    let verdict = report.verdicts.last().expect("a verdict");
    if figure("sum") / figure("count") > 3_000_000 {
        assert_eq!(verdict["cause"], "run_queue", "{verdict}");
        let sentence = verdict["sentence"].as_str().expect("text");
        assert!(
            sentence.contains("victim") && sentence.contains("on average"),
            "{sentence}"
        );
    }
    // Each source is named, and what has none.
    let sched = backend(&report, "sched");
    assert!(
        sched["used"]
            .as_str()
            .is_some_and(|u| u.contains("schedstat")),
        "{sched}"
    );
    for capability in ["tty", "flush", "hop"] {
        let missing = backend(&report, capability);
        assert_eq!(missing["used"], Value::Null, "{missing}");
        assert!(
            missing["missing"]
                .as_str()
                .is_some_and(|m| m.contains("CAP_BPF")),
            "{missing}"
        );
    }
    assert!(report.runs.iter().all(|r| r["limited"].is_string()));
}

#[test]
fn tmux_of_an_ordinary_user() {
    if !need_root() || !need_tool("setpriv") || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let nobody = Nobody::with(&["phux-trace"]);
    let tmux = |args: &[&str]| {
        let mut tmux = nobody.command("tmux");
        output_of(tmux.args(["-f", "/dev/null"]).args(args))
    };
    tmux(&["new-session", "-d", "exec cat"]);
    let server: u32 = tmux(&["display-message", "-p", "#{pid}"])
        .trim()
        .parse()
        .expect("a pid");
    let run = attached(&nobody, &["tmux"]);
    for _ in 0..20 {
        tmux(&["send-keys", "-l", "x"]);
    }
    let (report, lines) = stop(run);
    // Its text, with what it is first.
    let mut text = nobody.command("phux-trace");
    let text = Running::start(text.args(["attach", "tmux", "-d", "0.3"])).end(SOON);
    tmux(&["kill-server"]);
    let server_row = row(&lines, server);
    assert_eq!(
        (&server_row["relation"], &server_row["role"]),
        (&"target".into(), &"server, only thread".into())
    );
    assert!(
        server_row["account"]["count"].as_u64() >= Some(5),
        "{server_row}"
    );
    let pane = report
        .ptys
        .values()
        .find(|p| Pty::held_by(&p.master, server))
        .expect("the pane");
    assert_eq!(pane.slave.first().map(|e| e.name.as_str()), Some("cat"));
    assert!(
        text.stdout
            .first()
            .is_some_and(|l| l.starts_with("Not traced: ")),
        "{text:?}"
    );
    for line in &text.stdout {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn phux_of_an_ordinary_user_is_asked_itself() {
    if !need_root() || !need_tool("setpriv") || !need_tool("script") {
        return;
    }
    let _alone = exclusive();
    let nobody = Nobody::with(&["phux-trace", "phux"]);
    let socket = nobody.home().join("s.sock").display().to_string();
    let phux = nobody.path("phux").display().to_string();
    let line = format!(
        "stty rows 24 cols 80; exec {phux} --socket {socket} new -s t -- sh -c 'stty -icanon; exec cat'"
    );
    let mut client = Running::start(nobody.command("script").args(["-qfc", &line, "/dev/null"]));
    let perf = || -> Option<Value> {
        let mut command = nobody.command("phux");
        let output = command
            .args(["--socket", &socket, "perf", "--json"])
            .output()
            .ok()?;
        serde_json::from_slice(&output.stdout).ok()
    };
    let written = |perf: &Value| -> u64 {
        let metrics = perf["metrics"].as_array().expect("metrics");
        let row = metrics.iter().find(|m| m["name"] == "input.pty_write");
        row.and_then(|r| r["value"]["count"].as_u64()).unwrap_or(0)
    };
    let perf_now = wait_for(SOON, perf).expect("the server answers");
    let server = perf_now["pid"].as_u64().expect("a pid") as u32;
    let run = attached(&nobody, &["phux"]);
    for _ in 0..20 {
        client.say("x");
    }
    wait_for(SOON, || {
        (written(&perf()?) > written(&perf_now)).then_some(())
    })
    .expect("keys arrive");
    let (report, _) = stop(run);
    output_of(
        nobody
            .command("phux")
            .args(["--socket", &socket, "kill", "t"]),
    );
    let inside = report.in_process(server);
    let rows = inside["rows"].as_array().expect("rows");
    let written = rows
        .iter()
        .find(|r| r["metric"] == "input.pty_write")
        .expect("the metric");
    assert!(written["inside"]["count"].as_u64() >= Some(1), "{written}");
    assert_eq!(written["outside"], Value::Null, "{written}");
    assert!(
        backend(&report, "in_process")["used"]
            .as_str()
            .is_some_and(|u| u.contains("GET_PERF"))
    );
    wait_for(SOON, || (!procfs::is_alive(server)).then_some(())).expect("the server ends");
}

#[test]
fn a_wrapped_command_and_what_it_starts() {
    if !need_root() || !need_tool("setpriv") {
        return;
    }
    let _alone = exclusive();
    let nobody = Nobody::with(&["phux-trace"]);
    let attach = |args: &[&str]| {
        let mut command = nobody.command("phux-trace");
        Running::start(command.arg("attach").args(args)).end(SOON)
    };
    let ended = attach(&["--json", "--", "sh", "-c", "sleep 1; exit 7"]);
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let names: Vec<&String> = ended
        .stdout
        .iter()
        .filter(|l| l.contains("\"run\""))
        .collect();
    assert!(
        names.iter().any(|l| l.contains("\"name\":\"sh\"")),
        "{names:?}"
    );
    assert_eq!(
        attach(&["-d", "300ms", "--", "sleep", "1000"])
            .status
            .code(),
        Some(124)
    );
    let missing = attach(&["--", "/no/such/program"]);
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    assert!(missing.stdout.is_empty(), "{missing:?}");
    let events = attach(&["--events", "--", "true"]);
    assert_eq!(events.status.code(), Some(1), "{events:?}");
    assert!(events.stderr.contains("--events"), "{events:?}");
    // What it started is ended with it.
    let ended = attach(&["-d", "1s", "--", "sh", "-c", "sleep 4711 & wait"]);
    assert_eq!(ended.status.code(), Some(124), "{ended:?}");
    let left = Command::new("pgrep").args(["-xf", "sleep 4711"]).output();
    assert!(
        left.is_ok_and(|o| o.stdout.is_empty()),
        "a child was left behind"
    );
}
