//! `phux-trace list`, and real multiplexers found by their names.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Helper, have, json_lines, root, run, stdout, wait_for};
use phux_trace::target::pty::Side;
use phux_trace::target::{Ask, Invoker, Survey, Target, resolve};
use serde_json::Value;

/// The row of `list --json` with this pid, once it holds a PTY.
fn row_of(pid: u32) -> Value {
    wait_for("the process in list --json", || {
        json_lines(&stdout(&["list", "--json"]))
            .into_iter()
            .find(|r| r["pid"] == pid)
    })
}

#[test]
fn both_ends_of_a_pty() {
    let helper = Helper::script("sleep 600");
    // The child inside shows at the slave once script has started it.
    let row = wait_for("a sleep at the slave", || {
        let row = row_of(helper.pid());
        let slaves = row["ptys"][0]["slave"].as_array()?.clone();
        slaves.iter().any(|s| s["name"] == "sleep").then_some(row)
    });
    assert_eq!(
        (&row["name"], &row["master_of"]),
        (&"script".into(), &1.into())
    );
    assert_eq!(row["ptys"][0]["holds_master"], true);
    assert_eq!(row["ptys"][0]["master"][0]["pid"], helper.pid());
    let inside = row["ptys"][0]["slave"].as_array().expect("slaves");
    let sleep = inside
        .iter()
        .find(|s| s["name"] == "sleep")
        .expect("the child");
    assert_eq!(sleep["fds"], serde_json::json!([0, 1, 2]));

    // The same PTY from the other end, and in the table.
    let other = row_of(u32::try_from(sleep["pid"].as_u64().expect("a pid")).expect("a pid"));
    assert_eq!(other["ptys"][0]["index"], row["ptys"][0]["index"]);
    assert_eq!(other["ptys"][0]["devpts"], row["ptys"][0]["devpts"]);
    assert_eq!(
        (&other["master_of"], &other["threads"]),
        (&0.into(), &1.into())
    );
    let table = stdout(&["list"]);
    let index = &row["ptys"][0]["index"];
    assert!(table.contains(&format!("pts/{index}")), "{table}");
    for line in table.lines() {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
}

#[test]
fn a_name_full_of_escape_sequences_stays_harmless() {
    let evil = "printf '\\033[2J) R 1' > /proc/$$/comm; read -r _";
    let helper = Helper::script(&format!("sh -c \"{}\"", evil.replace('$', "\\$")));
    let name = wait_for("the renamed shell", || {
        let row = row_of(helper.pid());
        let slaves = row["ptys"][0]["slave"].as_array()?.clone();
        slaves
            .iter()
            .find(|s| s["name"].as_str().is_some_and(|n| n.contains("R 1")))
            .cloned()
    });
    assert_eq!(
        name["name"], "\u{1b}[2J) R 1",
        "JSON tells the truth, escaped"
    );
    let table = stdout(&["list"]);
    assert!(
        !table.contains('\u{1b}'),
        "neither colours in a pipe nor somebody's escape sequences"
    );
    assert!(table.contains("\\x1b[2J) R 1"), "{table}");
}

#[test]
fn colours_on_a_terminal_only() {
    let list = format!("{} list", env!("CARGO_BIN_EXE_phux-trace"));
    let on_terminal = run(Command::new("script")
        .args(["-qc", &list, "/dev/null"])
        .stdin(Stdio::null()));
    assert!(on_terminal.contains("\u{1b}["), "{on_terminal:?}");
    let mut plain = Command::new("script");
    let plain = run(plain
        .args(["-qc", &list, "/dev/null"])
        .stdin(Stdio::null())
        .env("NO_COLOR", "1"));
    assert!(
        plain.contains("PID") && !plain.contains("\u{1b}["),
        "{plain:?}"
    );
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let _helper = Helper::script("sleep 600");
    let mut child = Command::new(env!("CARGO_BIN_EXE_phux-trace"))
        .args(["completions", "zsh"]) // more than nothing, whoever runs
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    drop(child.stdout.take());
    let out = child.wait_with_output().expect("ends");
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    // 0 where all was written into the pipe before we closed it.
    assert!(
        matches!(out.status.code(), Some(0 | 141)),
        "{:?} {err}",
        out.status
    );
    assert_eq!(err, "");
    let piped = format!(
        "{} list | head -n 1 >/dev/null",
        env!("CARGO_BIN_EXE_phux-trace")
    );
    let out = Command::new("sh")
        .args(["-c", &piped])
        .output()
        .expect("sh");
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
}

/// The target by name, as if typed.
fn named(name: &str) -> Option<Target> {
    let survey = Survey::take().expect("/proc");
    resolve(
        &Ask::parse(Some(name.as_ref())),
        &survey,
        Invoker::current(),
    )
    .ok()
}

/// Whether `target` holds `pid` with a master whose slave `inside` holds.
fn has_pane(target: &Target, pid: u32, inside: &str) -> bool {
    let pane = |p: &&phux_trace::target::Pty| {
        p.held_by(pid, Side::Master) && p.slave.iter().any(|s| s.name == inside)
    };
    target.processes.iter().any(|p| p.pid == pid) && target.ptys.iter().any(|p| pane(&p))
}

#[test]
fn tmux_server_and_client_by_name() {
    if !have(Path::new("/usr/bin/tmux"), "tmux_server_and_client_by_name") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let tmux = || {
        let mut tmux = Command::new("tmux");
        tmux.env("TMUX_TMPDIR", dir.path())
            .env_remove("TMUX")
            .args(["-L", "phux-test", "-f", "/dev/null"]);
        tmux
    };
    struct Server<'a>(&'a dyn Fn() -> Command);
    impl Drop for Server<'_> {
        fn drop(&mut self) {
            let _ = (self.0)().arg("kill-server").output();
        }
    }
    let _server = Server(&tmux);
    run(tmux().args(["new-session", "-d", "sleep 600"]));
    run(tmux().args(["split-window", "-d", "sleep 601"]));
    let pid = run(tmux().args(["display-message", "-p", "#{pid}"]));
    let pid: u32 = pid.trim().parse().expect("tmux's pid");
    let socket = dir.path().display();
    let _client = Helper::script(&format!(
        "TERM=vt100 TMUX_TMPDIR={socket} tmux -L phux-test attach"
    ));
    let target = wait_for("tmux with two panes and a client on a terminal", || {
        let target = named("tmux")?;
        let panes = target
            .ptys
            .iter()
            .filter(|p| p.held_by(pid, Side::Master))
            .count();
        let client = target.processes.iter().any(|p| p.comm == "tmux: client");
        let outer = target
            .ptys
            .iter()
            .any(|p| p.held_by(pid, Side::Slave) && p.master.iter().any(|m| m.name == "script"));
        (panes == 2 && client && outer && has_pane(&target, pid, "sleep")).then_some(target)
    });
    assert_eq!(
        target
            .processes
            .iter()
            .find(|p| p.pid == pid)
            .map(|p| p.comm.as_str()),
        Some("tmux: server")
    );
    assert!(
        target.peers.iter().any(|p| p.comm == "sleep")
            && target.peers.iter().any(|p| p.comm == "script")
    );
}

#[test]
fn screen_by_name() {
    if !have(Path::new("/usr/bin/screen"), "screen_by_name") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).expect("private");
    let screen = || {
        let mut screen = Command::new("screen");
        screen
            .env("SCREENDIR", dir.path())
            .env("TERM", "vt100")
            .args(["-c", "/dev/null", "-S", "phux-test"]);
        screen
    };
    struct Server<'a>(&'a dyn Fn() -> Command);
    impl Drop for Server<'_> {
        fn drop(&mut self) {
            let _ = (self.0)().args(["-X", "quit"]).output();
        }
    }
    let _server = Server(&screen);
    run(screen().args(["-dm", "sleep", "600"]));
    // Its socket is named PID.phux-test.
    let pid: u32 = wait_for("screen's socket", || {
        let mut entries = std::fs::read_dir(dir.path()).ok()?.flatten();
        entries.find_map(|e| {
            e.file_name()
                .to_str()?
                .strip_suffix(".phux-test")?
                .parse()
                .ok()
        })
    });
    wait_for("screen with its window", || {
        named("screen").filter(|target| has_pane(target, pid, "sleep"))
    });
}

/// A process of a pid namespace of its own is found by the pid that it has here, and the note tells
/// the other one.
#[test]
fn a_target_in_another_pid_namespace() {
    if !root("a_target_in_another_pid_namespace") {
        return;
    }
    let mut unshare = Command::new("unshare");
    let unshare = unshare
        .args(["--fork", "--kill-child", "--pid", "sleep", "600"])
        .spawn();
    let unshare = Helper(unshare.expect("unshare of util-linux"));
    let target = wait_for("its first process", || {
        let survey = Survey::take().expect("/proc");
        let inner = survey
            .children(unshare.pid())
            .find(|p| p.comm == "sleep")?
            .pid;
        resolve(&Ask::Pid(inner.into()), &survey, Invoker::current()).ok()
    });
    let note = "is in a pid namespace of its own, as pid 1 there";
    assert!(
        target.notes.iter().any(|n| n.contains(note)),
        "{:?}",
        target.notes
    );
}
