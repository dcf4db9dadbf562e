//! Echoes through real multiplexers, typed by a program that keeps its own times.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::echoes::{Echo, Echoes, Typed};
use phux_trace_tests::machine::output_of;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{bin, exclusive, need_root, need_tool, procfs, wait_for};
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(60);

/// The typist with these options, on this program; the program shows `ready` when it is there.
fn typist(options: &[&str], program: &[&str]) -> Program {
    let mut command = Command::new(bin("typist"));
    command
        .args(options)
        .args(["--shows", "ready", "--"])
        .args(program);
    Program::start(&mut command)
}

fn echo_program() -> String {
    format!("{} --echo", bin("typist").display())
}

const BARE: [&str; 7] = [
    "master_write",
    "input_flush",
    "child_read",
    "child",
    "child_write",
    "output_flush",
    "master_read",
];

#[test]
fn a_terminal_and_a_program_that_echoes() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let typist_bin = bin("typist").display().to_string();
    let mut typist = typist(&["--keys", "60"], &[&typist_bin, "--echo"]);
    let echoes = Echoes::of(&["-p", &typist.pid().to_string()]);
    let typed: Typed = typist.work(SOON);
    let told = echoes.stop();
    typist.finish();
    let shorter = told.assert_matches(&typed.keys, |k| k.pty);
    assert!(shorter < 1_000_000, "{shorter} ns");
    assert_eq!(told.count("inputs"), 60);
    assert_eq!(told.count("echoed"), 60);
    let ways = told.echoes.iter().filter(|e| e.way() == BARE).count();
    assert_eq!(ways, 60, "{:?}", told.echoes.first());
}

#[test]
fn a_thousand_echoes_a_second_over_fifty_panes() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let typist_bin = bin("typist").display().to_string();
    let options = ["--panes", "50", "--keys", "4000", "--rate", "1000"];
    let mut typist = typist(&options, &[&typist_bin, "--echo"]);
    let echoes = Echoes::of(&["-p", &typist.pid().to_string()]);
    let typed: Typed = typist.work(SOON);
    let told = echoes.stop();
    typist.finish();
    println!("{:?} late {}", told.counts, typed.late);
    if told.count("lost") == 0 && told.count("events_dropped") == 0 {
        told.assert_matches(&typed.keys, |k| k.pty);
    }
    let sum: u64 = [
        "echoed",
        "silent",
        "unread",
        "late",
        "undelivered",
        "lost",
        "open",
        "dropped",
    ]
    .iter()
    .map(|n| told.count(n))
    .sum();
    assert_eq!(sum, told.count("inputs"));
    assert_eq!(told.count("inputs"), 4000);
}

#[test]
fn tmux() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let socket = dir.path().join("s").display().to_string();
    let tmux = |args: &[&str]| {
        let mut command = Command::new("tmux");
        output_of(command.args(["-S", &socket]).args(args).env_remove("TMUX"))
    };
    let program = echo_program();
    let mut typist = typist(
        &["--keys", "60"],
        &[
            "tmux",
            "-S",
            &socket,
            "-f",
            "/dev/null",
            "new-session",
            &program,
            ";",
            "set",
            "-g",
            "status",
            "off",
        ],
    );
    let server = tmux(&["display-message", "-p", "#{pid}"]);
    let pane = tmux(&["display-message", "-p", "#{pane_tty}"]);
    let pane: u32 = pane
        .trim()
        .trim_start_matches("/dev/pts/")
        .parse()
        .expect("a pty");
    let echoes = Echoes::of(&["-p", server.trim()]);
    let typed: Typed = typist.work(SOON);
    let told = echoes.stop();
    tmux(&["kill-server"]);
    typist.finish();
    let shorter = told.assert_matches(&typed.keys, |_| pane);
    assert!(shorter < 1_000_000, "{shorter} ns");
    let mut way = vec!["terminal_input_flush", "client_read", "server_input"];
    way.extend(BARE);
    way.extend(["server_output", "client_write"]);
    let others: Vec<_> = told.echoes.iter().filter(|e| e.way() != way).collect();
    let ids: Vec<u64> = others.iter().map(|e| e.id).collect();
    assert!(others.is_empty(), "{ids:?}: {others:?}");
}

/// A server that outlives its client, ended when the test does.
struct Ends(u32);

impl Drop for Ends {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

#[test]
fn screen() {
    if !need_root() || !need_tool("screen") {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let sockets = dir.path().join("s");
    std::fs::create_dir(&sockets).expect("socket folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&sockets, mode).expect("chmod");
    let screendir = format!("SCREENDIR={}", sockets.display());
    let program = bin("typist").display().to_string();
    let mut typist = typist(
        &["--keys", "60"],
        &[
            "env",
            &screendir,
            "screen",
            "-c",
            "/dev/null",
            "-S",
            "typist",
            &program,
            "--echo",
        ],
    );
    let server = wait_for(SOON, || {
        let names = std::fs::read_dir(&sockets).ok()?.flatten();
        names
            .filter_map(|e| {
                e.file_name()
                    .to_str()?
                    .split('.')
                    .next()?
                    .parse::<u32>()
                    .ok()
            })
            .find(|pid| procfs::is_alive(*pid))
    });
    let server = server.expect("screen made its socket");
    let _ends = Ends(server);
    let echoes = Echoes::of(&["-p", &server.to_string()]);
    let typed: Typed = typist.work(SOON);
    let told = echoes.stop();
    typist.finish();
    let pane = told.echoes.first().expect("echoes").index;
    let shorter = told.assert_matches(&typed.keys, |_| pane);
    assert!(shorter < 1_000_000, "{shorter} ns");
}

#[test]
fn phux() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let dir = TempDir::new().expect("a folder");
    let run = dir.path().join("run");
    std::fs::create_dir(&run).expect("socket folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&run, mode).expect("chmod");
    let socket = run.join("s.sock").display().to_string();
    let phux = bin("phux").display().to_string();
    let program = bin("typist").display().to_string();
    let mut typist = typist(
        &["--keys", "60"],
        &[
            &phux, "--socket", &socket, "new", "-s", "t", "--", &program, "--echo",
        ],
    );
    let phux_command =
        |args: &[&str]| output_of(Command::new(&phux).args(["--socket", &socket]).args(args));
    let report: serde_json::Value =
        serde_json::from_str(&phux_command(&["perf", "--json"])).expect("a report");
    let server = report["pid"].as_u64().and_then(|p| u32::try_from(p).ok());
    let server = server.expect("its pid");
    let _ends = Ends(server);
    let echoes = Echoes::of(&["-p", &server.to_string()]);
    let typed: Typed = typist.work(SOON);
    let told = echoes.stop();
    let child = procfs::children(server)
        .first()
        .copied()
        .expect("the program");
    let of_child = |e: &&Echo| e.links.iter().any(|l| l.actor.pid == child);
    let pane = told.echoes.iter().find(of_child).expect("echoes").index;
    let shorter = told.assert_matches(&typed.keys, |_| pane);
    assert!(shorter < 1_000_000, "{shorter} ns");
    // Both views of the same keys: sequence numbers from inside, wake-ups and bytes from outside.
    let ours = || told.echoes.iter().filter(|e| e.index == pane);
    let said = |word| ours().filter(|e| e.confirmed == word).count();
    assert_eq!(
        said(Some(false)),
        0,
        "{:?}",
        ours().find(|e| e.confirmed == Some(false))
    );
    assert!(said(Some(true)) >= 55, "{:?}", told.counts);
    // Nothing had to be concluded from time: each is told by positions and wake-ups alone, but for the
    // first, by which a client is met that nobody has named.
    let guessed: Vec<&Echo> = ours().skip(1).filter(|e| e.inexact).collect();
    assert!(guessed.is_empty(), "{guessed:?}");
    phux_command(&["kill", "t"]);
    typist.finish();
}
