//! What is measured, as a person and a tool see it.

mod harness;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use harness::{Terminal, World, count, wait_until};
use phux_perf::{PerfReport, Promotion, Value, promote_current_thread};

/// The names of the table of upstream's first version with GET_PERF that have a counterpart here.
const UPSTREAM: &[&str] = &[
    "pty.read.size",
    "pty.read.bytes",
    "pty.reader.blocked",
    "pty.queue_wait",
    "pty.burst.bytes",
    "pty.burst.chunks",
    "pty.vt_apply",
    "echo.server",
    "input.events",
    "input.pty_write",
    "consumer.mailbox_full",
    "pump.frames",
    "pump.bytes",
    "pump.frame.bytes",
    "pump.lagged",
    "pump.gap_resync",
    "wire.write",
    "wire.write.bytes",
    "wire.bytes_out",
    "cmd.handle",
    "attach.handle",
    "proc.clients",
    "proc.panes",
    "proc.sessions",
    "proc.sched_interactive",
];

/// Those of later versions that have one.
const LATER: &[&str] = &[
    "pty.vt_parse",
    "pty.post_apply",
    "pty.yield_wait",
    "input.credit_waits",
    "input.credit_wait",
    "input.credit_timeouts",
    "input.writer.queue_wait",
    "input.writer.full",
    "wire.encode",
    "wire.batch.frames",
    "bootstrap.synth",
];

#[test]
fn the_table_has_upstreams_names_in_upstreams_order() {
    let world = World::with_server(&[]);
    let report = world.perf();
    assert_eq!((report.role.as_str(), report.schema_version), ("server", 1));
    assert_eq!(
        u64::from(report.pid),
        world.server_pid().as_raw_nonzero().get() as u64
    );
    let names: Vec<&str> = report.metrics.iter().map(|m| m.name.as_str()).collect();
    let known: Vec<&str> = names
        .iter()
        .copied()
        .filter(|n| UPSTREAM.contains(n))
        .collect();
    assert_eq!(known, UPSTREAM);
    for name in &names {
        let upstreams = UPSTREAM.contains(name) || LATER.contains(name);
        assert!(upstreams, "{name} is no name of upstream's");
    }
    for name in LATER {
        assert!(names.contains(name), "{name}");
    }
    let table = world.ok(&["perf"]);
    let heading = table.lines().nth(1).expect("headings");
    let columns: Vec<&str> = heading.split_whitespace().collect();
    assert_eq!(
        columns,
        ["metric", "count", "rate/s", "p50", "p90", "p99", "max"]
    );
    for name in names {
        assert!(
            table
                .lines()
                .any(|line| line.split(' ').next() == Some(name)),
            "{name}"
        );
    }
}

#[test]
fn a_watch_shows_each_interval_by_itself() {
    let world = World::with_server(&[]);
    let shell = world.shell("w");
    let mut watch = world.command(&["perf", "--watch", "0.1", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("phux perf");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    let mut next = || {
        let line = lines.next().expect("another interval").expect("UTF-8");
        PerfReport::from_json(&line).expect("a report")
    };
    let first = next();
    assert!(
        first.uptime_ms < 10_000,
        "an interval and not the uptime: {}",
        first.uptime_ms
    );
    shell.line("echo mo''re");
    shell.wait_for_row("more");
    wait_until("the bytes show in an interval", || {
        count(&next(), "pty.read.bytes") > 0
    });
    wait_until("and are over in a later one", || {
        count(&next(), "pty.read.bytes") == 0
    });
    assert_eq!(count(&next(), "proc.sessions"), 1);
    watch.kill().expect("it runs until it is interrupted");
    watch.wait().expect("wait");
    assert!(!world.run(&["perf", "--watch", "0.01"]).status.success());
}

#[test]
fn a_busy_server_shows_at_the_hops_in_front_of_it() {
    let world = World::with_server(&[]);
    let client = world.shell("busy");
    let before = world.perf();
    // Each of these costs the parser far more than its bytes cost the reader.
    client.line(
        "yes \"$(printf '\\033[999S\\033[2J\\033[999T%080d' 0)\" | head -c 700000; clear; echo qu''iet",
    );
    client.wait_for_row("quiet");
    let during = world.perf().delta(&before);
    assert!(count(&during, "pty.reader.blocked") > 0);
    match &during.get("pty.queue_wait").expect("in the table").value {
        Value::Histogram(h) => assert!(h.percentile(90.0) > 1000, "{} us", h.percentile(90.0)),
        other => panic!("{other:?}"),
    }
    match &during.get("pty.burst.chunks").expect("in the table").value {
        Value::Histogram(h) => assert!(h.max > 4 && h.max <= 64, "{}", h.max),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_gauge_says_what_the_scheduler_gave() {
    // In a thread of its own: it stays promoted.
    let possible = std::thread::spawn(promote_current_thread)
        .join()
        .expect("no panic");
    for (scheduler, wanted) in [
        ("interactive", u64::from(possible != Promotion::None)),
        ("normal", 0),
    ] {
        let world = World::with_server(&["--scheduler", scheduler]);
        let _client = world.shell("g");
        assert_eq!(
            count(&world.perf(), "proc.sched_interactive"),
            wanted,
            "{scheduler}"
        );
    }
}

#[test]
fn render_prof_is_at_most_a_line_a_second() {
    let world = World::with_server(&[]);
    let mut command = world.command(&["new", "-s", "prof", "--", "sh", "-c", "echo go; exec cat"]);
    command.env("PHUX_RENDER_PROF", "1");
    let started = std::time::Instant::now();
    let client = Terminal::start(command, 80, 24);
    client.wait_for_row("go");
    wait_until("a line", || {
        world.client_logs().contains("render_prof: echo n=")
    });
    let lines = world.client_logs().matches("render_prof:").count();
    assert!(lines as u64 <= started.elapsed().as_secs() + 1, "{lines}");
}

#[test]
fn servers_started_at_once_are_one() {
    let world = World::empty();
    let start = |n: u32| {
        let name = format!("s{n}");
        let mut command = world.command(&["new", "-d", "-s", &name, "--", "sleep", "1000"]);
        command.stdin(Stdio::null()).spawn().expect("phux")
    };
    let clients: Vec<_> = (0..4).map(start).collect();
    for mut client in clients {
        assert!(client.wait().expect("wait").success());
    }
    assert_eq!(world.sessions().len(), 4);
}

#[test]
fn another_user_is_refused_even_if_the_modes_let_him_in() {
    if !rustix::process::geteuid().is_root() || Command::new("setpriv").arg("-h").output().is_err()
    {
        assert!(std::env::var_os("CI").is_none(), "needs root and setpriv");
        println!("skipped: needs root and setpriv");
        return;
    }
    let world = World::with_server(&[]);
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("chmod");
    };
    let socket = world.socket();
    open(world.dir.path());
    open(socket.parent().expect("a directory"));
    open(&socket);
    let program = world.dir.path().join("phux");
    std::fs::copy(env!("CARGO_BIN_EXE_phux"), &program).expect("copy");
    let stranger = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .arg("--socket")
        .arg(&socket)
        .arg("ls")
        .output()
        .expect("setpriv");
    let error = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(!stranger.status.success());
    assert!(error.contains("closed the connection"), "{error}");
    wait_until("the log tells", || {
        world.log().contains("refused a client of user 65534")
    });
    world.ok(&["ls"]);
}
