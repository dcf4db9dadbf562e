//! `phux-trace daemon`: captures by its socket, figures for Prometheus, recordings that outlast it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::bpf::BpfObjects;
use phux_trace_tests::daemon::{Daemon, http};
use phux_trace_tests::echoes::Typed;
use phux_trace_tests::machine::slowness;
use phux_trace_tests::nobody::{Nobody, capabilities_of};
use phux_trace_tests::protobuf::{all, delimited};
use phux_trace_tests::truth::Program;
use phux_trace_tests::untouched::Untouched;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, procfs, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(60);
const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                        encoding=delimited,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// A typist and its echoing programs on PTYs, before the first key.
fn typist(keys: u32) -> Program {
    let typist = bin("typist").display().to_string();
    let mut command = Command::new(&typist);
    command.args(["--keys", &keys.to_string(), "--shows", "ready"]);
    Program::start(command.args(["--", &typist, "--echo"]))
}

fn name(answer: &Value) -> String {
    answer["name"].as_str().expect("a name").to_owned()
}

/// What `phux-trace report --json` says of it, by type of line.
fn report(dir: &Path) -> Vec<Value> {
    let mut command = Command::new(bin("phux-trace"));
    let output = command
        .args(["report", "--json"])
        .arg(dir)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let parse = |l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"));
    text.lines().map(parse).collect()
}

/// Lines of a metric, without their labels `capture` and `target`: those of one capture.
fn metrics(daemon: &Daemon, name: &str) -> BTreeMap<String, f64> {
    let scraped = daemon.scrape("*/*");
    assert!(scraped.head.contains("200 OK"), "{}", scraped.head);
    assert!(
        scraped.head.contains("text/plain; version=0.0.4"),
        "{}",
        scraped.head
    );
    let text = String::from_utf8(scraped.body).expect("text");
    let of_name = text.lines().filter_map(|l| l.strip_prefix(name));
    of_name
        .filter_map(|l| l.strip_prefix('{')?.split_once("} "))
        .map(|(labels, value)| {
            let kept = labels
                .split(',')
                .filter(|l| !l.starts_with("capture=") && !l.starts_with("target="));
            let labels = kept.collect::<Vec<_>>().join(",");
            (labels, value.parse().expect("a number"))
        })
        .collect()
}

#[test]
fn a_live_terminal_is_captured_and_its_echoes_are_told_to_prometheus() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let dir = TempDir::new().expect("a folder");
    let daemon = Daemon::start(dir.path(), &[]);
    let keys = 40;
    let mut typist = typist(keys);
    let started = daemon.done(&format!(
        r#"{{"command":"start","pid":{},"families":["fs","polling"]}}"#,
        typist.pid()
    ));
    assert_eq!(started["state"], "recording", "{started}");
    let _: Typed = typist.work(SOON * slowness());
    let inputs = || {
        let ends = metrics(&daemon, "phux_trace_inputs_total");
        (ends[r#"end="echoed""#] == f64::from(keys)).then_some(ends)
    };
    let ends = wait_for(SOON * slowness(), inputs).expect("each key is told");
    assert_eq!(ends.values().sum::<f64>(), f64::from(keys), "{ends:?}");

    // The same by both forms, and no bucket holds more than the next.
    let text = metrics(&daemon, "phux_trace_echo_seconds_bucket");
    assert_eq!(text[r#"le="+Inf""#], f64::from(keys), "{text:?}");
    let scraped = daemon.scrape(PROTOBUF);
    assert!(
        scraped.head.contains("application/vnd.google.protobuf"),
        "{}",
        scraped.head
    );
    let families = delimited(&scraped.body);
    let named = |f: &&&[u8]| all(f, 1).any(|n| n.bytes() == b"phux_trace_echo_seconds");
    let echo = families.iter().find(named).expect("echoes");
    assert_eq!(
        all(echo, 3).next().expect("a type").number(),
        4,
        "HISTOGRAM"
    );
    let metric = all(echo, 4).next().expect("a series").bytes();
    let histogram = all(metric, 7).next().expect("a histogram").bytes();
    assert_eq!(
        all(histogram, 1).next().expect("a count").number(),
        u64::from(keys)
    );
    assert_eq!(all(histogram, 5).next().expect("a schema").signed(), 3);
    let (mut count, mut sum) = (0, 0);
    for delta in all(histogram, 13) {
        count += delta.signed();
        assert!(count >= 0, "{histogram:?}");
        sum += count;
    }
    assert_eq!(sum, i64::from(keys), "every echo is in a native bucket");
    let length = |span: phux_trace_tests::protobuf::Value<'_>| {
        all(span.bytes(), 2).next().expect("a length").number()
    };
    let spans: u64 = all(histogram, 12).map(length).sum();
    assert_eq!(spans, all(histogram, 13).count() as u64);
    let classic = all(histogram, 3).map(|b| all(b.bytes(), 1).next().map_or(0, |n| n.number()));
    let classic: Vec<u64> = classic.collect();
    assert!(
        classic.is_sorted() && classic.last() == Some(&u64::from(keys)),
        "{classic:?}"
    );

    let stopped = daemon.done(r#"{"command":"stop"}"#);
    assert_eq!(stopped["state"], "ended", "{stopped}");
    typist.finish();
    let lines = report(Path::new(stopped["dir"].as_str().expect("a folder")));
    let echo = lines.iter().find(|l| l["type"] == "echo").expect("echoes");
    assert_eq!(
        (&echo["inputs"], &echo["ends"]["echoed"]),
        (&keys.into(), &keys.into())
    );
    before.assert_nothing_left();
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn what_is_asked_wrongly_is_refused_with_its_reason() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let daemon = Daemon::start(dir.path(), &[]);
    for (line, told) in [
        ("", "not understood"),
        ("{", "not understood"),
        (r#"{"command":"leave"}"#, "unknown variant"),
        (r#"{"command":"start","targett":"x"}"#, "unknown field"),
        (
            r#"{"command":"start","target":"no-such-program"}"#,
            "no-such-program",
        ),
        (
            r#"{"command":"start","pid":1,"families":["nonsense"]}"#,
            "nonsense",
        ),
        (
            r#"{"command":"start","pid":1,"on":["echo.p99>1ms"]}"#,
            "ring",
        ),
        (
            r#"{"command":"start","pid":1,"duration":"soon"}"#,
            "duration",
        ),
        (
            r#"{"command":"start","pid":1,"name":"../../etc"}"#,
            "a name has",
        ),
        (
            r#"{"command":"start","pid":1,"name":".hidden"}"#,
            "a name has",
        ),
        (r#"{"command":"stop"}"#, "no capture runs"),
        (r#"{"command":"trigger","name":"x"}"#, "no capture"),
    ] {
        let answer = daemon.say(line);
        assert_eq!(answer["type"], "error", "{line}: {answer}");
        let message = answer["message"].as_str().expect("a message");
        assert!(message.contains(told), "{line}: {message}");
    }
    let long = format!(
        r#"{{"command":"start","target":"{}"}}"#,
        "x".repeat(100_000)
    );
    let answer = daemon.say(&long);
    assert!(
        answer["message"]
            .as_str()
            .is_some_and(|m| m.contains("64 KiB")),
        "{answer}"
    );
    let left = fs::read_dir(dir.path().join("recordings"))
        .expect("a folder")
        .flatten();
    let left: Vec<_> = left
        .map(|e| e.file_name())
        .filter(|n| n != ".daemon.lock")
        .collect();
    assert!(left.is_empty(), "what never began leaves nothing: {left:?}");

    let status = daemon.done(r#"{"command":"status"}"#);
    let url = status["metrics"].as_str().expect("an address").to_owned();
    let address = url
        .trim_start_matches("http://")
        .trim_end_matches("/metrics");
    for (head, status) in [
        (format!("GET / HTTP/1.1\r\nHost: {address}"), "404"),
        (format!("POST /metrics HTTP/1.1\r\nHost: {address}"), "405"),
        (
            "GET /metrics HTTP/1.1\r\nHost: elsewhere.example".into(),
            "421",
        ),
    ] {
        let answer = http(address, &format!("{head}\r\nConnection: close\r\n\r\n"));
        assert!(answer.head.contains(status), "{head}: {}", answer.head);
    }
    // A second one beside it would write to the same folder, or take the socket away.
    let second = Daemon::start(dir.path(), &[]).end();
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(
        second.stderr.contains("another phux-trace daemon"),
        "{second:?}"
    );
    daemon.done(r#"{"command":"status"}"#);
}

/// The folder keeps others out; and where somebody has opened it, the daemon looks who it is.
#[test]
fn a_user_other_than_root_is_refused() {
    if !need_root() || !need_tool("setpriv") {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let daemon = Daemon::start(dir.path(), &[]);
    let nobody = Nobody::with(&["phux-trace"]);
    let ask = |user: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]);
        command.arg(nobody.path("phux-trace"));
        command.args(["ctl", "status", "--json", "--socket"]);
        let ended = Running::start(command.arg(daemon.socket())).end(SOON);
        assert_eq!(ended.status.success(), user == "0", "{ended:?}");
        ended.stdout.join("\n") + &ended.stderr
    };
    assert!(ask("0").contains("\"status\""));
    let chmod = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    let folder = daemon.socket().parent().expect("a folder").to_owned();
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(daemon.socket()) & 0o077, 0);
    chmod(dir.path(), 0o755);
    let told = ask("65534");
    assert!(told.contains("Permission denied"), "{told}");
    chmod(&folder, 0o711);
    chmod(daemon.socket(), 0o666);
    let answer = ask("65534");
    assert!(
        answer.contains("error") && answer.contains("user 65534 may not"),
        "{answer}"
    );
    daemon.done(r#"{"command":"status"}"#);
}

#[test]
fn a_killed_daemon_loses_no_finished_recording_and_picks_up_the_unfinished() {
    if !need_root() || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    let dir = TempDir::new().expect("a folder");
    let daemon = Daemon::start(dir.path(), &[]);
    let target = Running::start(Command::new("sh").args(["-c", "while :; do :; done"]));
    let busy = Running::start(Command::new("sh").args(["-c", "while :; do echo; done >/dev/null"]));
    let start = |name: &str, pid: u32| {
        let line = format!(r#"{{"command":"start","pid":{pid},"name":"{name}"}}"#);
        daemon.done(&line)
    };
    start("first", target.pid());
    assert_eq!(name(&daemon.done(r#"{"command":"stop"}"#)), "first");
    start("second", busy.pid());
    let again = daemon.say(&format!(
        r#"{{"command":"start","pid":{},"name":"first"}}"#,
        busy.pid()
    ));
    assert_eq!(
        again["type"], "error",
        "a recording is never written over: {again}"
    );
    // Its rows are on their way to the disk.
    let rows = || {
        let status = daemon.done(r#"{"command":"status"}"#);
        let captures = status["captures"].as_array().expect("captures").clone();
        let second = captures.iter().find(|c| c["name"] == "second").expect("it");
        second["rows"].as_u64().filter(|n| *n > 10_000)
    };
    wait_for(SOON * slowness(), rows).expect("rows");
    let recordings = dir.path().join("recordings");
    let journals = || {
        let found = fs::read_dir(recordings.join("second/syscalls"))
            .ok()?
            .flatten()
            .next()?;
        let found = fs::read_dir(found.path()).ok()?.flatten().next()?;
        let mut files = fs::read_dir(found.path()).ok()?.flatten();
        files
            .any(|f| f.file_name().to_string_lossy().ends_with(".journal"))
            .then_some(())
    };
    wait_for(SOON * slowness(), journals).expect("a journal");
    let untouched = Untouched::look(target.pid()).maps;
    daemon.signal(Signal::KILL);
    let ended = daemon.end();
    assert!(!ended.status.success(), "{ended:?}");
    before.assert_nothing_left();
    assert!(procfs::is_alive(target.pid()) && procfs::is_alive(busy.pid()));
    assert_eq!(Untouched::look(target.pid()).maps, untouched);

    let daemon = Daemon::start(dir.path(), &[]);
    let status = daemon.done(r#"{"command":"status"}"#);
    let stored = status["recordings"].as_array().expect("recordings");
    let names: Vec<&str> = stored.iter().filter_map(|r| r["name"].as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    assert!(stored.iter().all(|r| r["living"] == false), "{status}");
    let text = |name: &str| {
        let mut command = Command::new(bin("phux-trace"));
        let output = command.arg("report").arg(recordings.join(name)).output();
        let output = output.expect("runs");
        assert!(output.status.success(), "{output:?}");
        let [out, err] =
            [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
        assert!(!err.contains("picked up"), "the daemon has done so: {err}");
        out
    };
    assert!(!text("first").contains("killed"));
    assert!(text("second").contains("killed"));
    // And it goes on where the other ended.
    let line = format!(
        r#"{{"command":"start","pid":{},"ring":"60s"}}"#,
        target.pid()
    );
    let ring = daemon.done(&line);
    let triggered = daemon.done(r#"{"command":"trigger"}"#);
    assert_eq!(name(&triggered), name(&ring));
    let dumps = || {
        let status = daemon.done(r#"{"command":"status"}"#);
        let last = status["captures"]
            .as_array()
            .expect("captures")
            .last()
            .cloned()?;
        (last["dumps"] == 1).then_some(())
    };
    wait_for(SOON * slowness(), dumps).expect("written out");
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(
        ended.stderr.contains("picked up second"),
        "{}",
        ended.stderr
    );
    assert!(!report(&recordings.join(name(&ring))).is_empty());
    before.assert_nothing_left();
}

#[test]
fn the_oldest_recordings_go_when_they_take_too_much_and_nothing_else_does() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let target = Running::start(Command::new("sleep").arg("1000"));
    let recordings = dir.path().join("recordings");
    let record = |daemon: &Daemon, name: &str| {
        let line = format!(
            r#"{{"command":"start","pid":{},"name":"{name}"}}"#,
            target.pid()
        );
        daemon.done(&line);
        daemon.done(&format!(r#"{{"command":"stop","name":"{name}"}}"#));
    };
    let daemon = Daemon::start(dir.path(), &[]);
    for name in ["one", "two", "three"] {
        record(&daemon, name);
    }
    let status = daemon.done(r#"{"command":"status"}"#);
    let stored = status["recordings"].as_array().expect("recordings");
    let bytes = |r: &Value| r["bytes"].as_u64().expect("bytes");
    let largest = stored.iter().map(bytes).max().expect("three");
    daemon.signal(Signal::TERM);
    assert!(daemon.end().status.success());
    // What is not ours, inside and beside; and the way out of the folder.
    fs::create_dir(recordings.join("notes")).expect("a folder");
    fs::write(recordings.join("notes/part-1-00000.parquet"), "mine").expect("written");
    fs::write(recordings.join("one/mine.txt"), "mine").expect("written");
    let outside = dir.path().join("outside");
    fs::rename(recordings.join("two"), &outside).expect("moved");
    std::os::unix::fs::symlink(&outside, recordings.join("two")).expect("a link");

    // Room for one; "three" is the younger.
    let max = (largest + largest / 2).to_string();
    let daemon = Daemon::start(dir.path(), &["--max-size", &max]);
    let parts = |name: &str| recordings.join(name).join("run").exists();
    wait_for(SOON * slowness(), || (!parts("one")).then_some(())).expect("the oldest goes");
    assert!(parts("three"));
    let removed = || {
        let text = String::from_utf8(daemon.scrape("*/*").body).expect("text");
        let mut lines = text.lines();
        lines.find_map(|l| {
            l.strip_prefix("phux_trace_recordings_removed_total ")?
                .parse::<u32>()
                .ok()
        })
    };
    assert_eq!(removed(), Some(1));
    assert_eq!(
        fs::read(recordings.join("one/mine.txt")).expect("it stays"),
        b"mine"
    );
    assert!(recordings.join("notes/part-1-00000.parquet").exists());
    assert!(
        outside.join("run").exists(),
        "what a link leads to is not ours"
    );
    daemon.signal(Signal::TERM);
    assert!(daemon.end().status.success());

    let daemon = Daemon::start(dir.path(), &["--max-age", "1ms"]);
    wait_for(SOON * slowness(), || {
        (!recordings.join("three").exists()).then_some(())
    })
    .expect("too old");
    assert!(outside.join("run").exists());
    daemon.signal(Signal::TERM);
    assert!(daemon.end().status.success());
}

/// What is being recorded is never removed: where nothing else is left to remove, it ends, complete.
#[test]
fn a_recording_that_takes_too_much_itself_ends_and_stays() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let daemon = Daemon::start(dir.path(), &["--max-size", "1100K"]);
    let busy = Running::start(Command::new("sh").args(["-c", "while :; do echo; done >/dev/null"]));
    let start = format!(
        r#"{{"command":"start","pid":{},"name":"large"}}"#,
        busy.pid()
    );
    daemon.done(&start);
    let ended = || {
        let status = daemon.done(r#"{"command":"status"}"#);
        (status["captures"][0]["state"] == "ended").then_some(status)
    };
    let status = wait_for(SOON * slowness(), ended).expect("it ends");
    assert!(
        status["captures"][0]["rows"]
            .as_u64()
            .is_some_and(|n| n > 0),
        "{status}"
    );
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert!(ended.stderr.contains("large ends"), "{}", ended.stderr);
    assert!(!report(&dir.path().join("recordings/large")).is_empty());
}

/// With the user, the capabilities and the folders that systemd gives it by the unit in `contrib`.
#[test]
fn it_runs_as_its_unit_starts_it() {
    if !need_root() || !need_tool("setpriv") || !need_tool("bpftool") {
        return;
    }
    let _alone = exclusive();
    let before = BpfObjects::now();
    const UNIT: &str = include_str!("../../contrib/systemd/phux-trace.service");
    const USER: u32 = 60_999;
    let caps = capabilities_of(UNIT);
    let nobody = Nobody::with(&["phux-trace", "io-calls"]);
    let dir = TempDir::new().expect("a folder");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    // A dynamic user's folders are elsewhere, and links lead to them.
    for name in ["state", "run"] {
        let real = dir.path().join(format!("private-{name}"));
        fs::create_dir(&real).expect("a folder");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).expect("chmod");
        chown(&real, Some(USER), Some(USER)).expect("chown");
        std::os::unix::fs::symlink(&real, dir.path().join(name)).expect("a link");
    }
    let notified = std::os::unix::net::UnixDatagram::bind(dir.path().join("notify"));
    let notified = notified.expect("a socket");
    fs::set_permissions(dir.path().join("notify"), fs::Permissions::from_mode(0o666))
        .expect("chmod");
    let user = USER.to_string();
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid",
        &user,
        "--regid",
        &user,
        "--clear-groups",
        "--no-new-privs",
    ]);
    command.args(["--bounding-set", &format!("-all,{caps}")]);
    command.args(["--inh-caps", &caps, "--ambient-caps", &caps, "--"]);
    command
        .arg(nobody.path("phux-trace"))
        .args(["daemon", "--no-metrics"]);
    command.current_dir("/");
    command.env("STATE_DIRECTORY", dir.path().join("state"));
    command.env("RUNTIME_DIRECTORY", dir.path().join("run"));
    command.env("NOTIFY_SOCKET", dir.path().join("notify"));
    let daemon = Daemon::of(&mut command, &dir.path().join("run/ctl.sock"));
    notified.set_read_timeout(Some(SOON)).expect("a time");
    let mut word = [0; 32];
    let length = notified.recv(&mut word).expect("it tells systemd");
    assert_eq!(&word[..length], b"READY=1");

    // A process of a user who is neither root nor itself.
    let mut calls = nobody.command("io-calls");
    calls
        .arg("--dir")
        .arg(nobody.home())
        .args(["--rounds", "2"]);
    let mut program = Program::start(&mut calls);
    let line = format!(
        r#"{{"command":"start","pid":{},"name":"theirs"}}"#,
        program.pid()
    );
    daemon.done(&line);
    let _: Value = program.work(SOON * slowness());
    let stopped = daemon.done(r#"{"command":"stop"}"#);
    program.finish();
    assert!(
        stopped["rows"].as_u64().is_some_and(|n| n > 10),
        "{stopped}"
    );
    let recording = dir.path().join("private-state/theirs");
    let meta = fs::metadata(recording.join("syscalls")).expect("the calls");
    assert_eq!((meta.uid(), meta.mode() & 0o777), (USER, 0o700));
    assert!(!report(&recording).is_empty());
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    before.assert_nothing_left();
}
