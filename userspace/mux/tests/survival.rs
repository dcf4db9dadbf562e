//! What must not bring it down: killed, stopped and slow clients, floods, children that do not
//! read, stale sockets, second servers, crashes.

mod harness;

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use alacritty_terminal::term::TermMode;
use harness::{DEADLINE, Terminal, World, count, sum, wait_until};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;

#[test]
fn a_killed_client_leaves_the_session_as_it_was() {
    let world = World::with_server(&[]);
    let client = world.shell("kill");
    client.line("echo be''fore");
    client.wait_for_row("before");
    client.signal(Signal::KILL);
    wait_until("the server noticed", || {
        world.sessions()[0]["attached"] == 0
    });
    let again = world.client(&["attach"]);
    again.wait_for_row("before");
    again.line("echo aft''er");
    again.wait_for_row("after");
}

#[test]
fn a_killed_server_ends_its_clients_and_gives_the_terminal_back() {
    let mut world = World::with_server(&[]);
    let mut client = world.shell("gone");
    client.line("printf '\\033[?1000h\\033[?25l'; echo mo''de");
    client.wait_for_row("mode");
    rustix::process::kill_process(world.server_pid(), Signal::KILL).expect("the server lives");
    assert!(!client.wait_exit().success());
    client.wait_for("the server is gone");
    assert!(client.is_cooked());
    client.wait("a plain screen", |term| {
        let mode = term.mode();
        !mode.intersects(TermMode::ALT_SCREEN | TermMode::MOUSE_MODE | TermMode::BRACKETED_PASTE)
            && mode.contains(TermMode::SHOW_CURSOR)
    });
    assert_eq!(world.wait_server().signal(), Some(9));

    // The socket that it left is in nobody's way.
    assert!(world.socket().exists());
    world.start_server(&[]);
    wait_until("the new server answers", || {
        world.run(&["ls"]).status.success()
    });
}

#[test]
fn a_second_server_does_not_start() {
    let world = World::with_server(&[]);
    let second = world.run(&["server"]);
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("another server"));
    world.ok(&["ls"]);
}

/// One that looks at the figures between the start of a server and its first session is no reason
/// to end: whoever started the server would find none.
#[test]
fn who_looks_before_the_first_session_does_not_end_the_server() {
    let mut world = World::with_server(&["--exit-empty"]);
    for _ in 0..20 {
        world.perf();
    }
    let client = world.client(&["new", "--", "sh", "-c", "echo a''live; cat"]);
    client.wait_for_row("alive");
    client.keys("\x04");
    assert!(world.wait_server().success(), "it ends with its session");
}

/// Whoever started it was killed before it asked for a session: nobody would ever end it.
#[test]
fn a_server_that_nobody_asks_for_a_session_ends() {
    let mut world = World::with_server(&["--exit-empty"]);
    assert!(world.wait_server().success());
}

#[test]
fn a_server_asked_to_end_says_so_and_cleans_up() {
    let mut world = World::with_server(&[]);
    let mut client = world.shell("end");
    rustix::process::kill_process(world.server_pid(), Signal::TERM).expect("the server lives");
    assert!(!client.wait_exit().success());
    client.wait_for("the server has ended");
    assert!(client.is_cooked());
    assert!(world.wait_server().success());
    assert!(!world.socket().exists());
}

#[test]
fn the_terminal_is_restored_after_a_crash_of_the_client() {
    let world = World::with_server(&[]);
    for (signal, status) in [(Signal::SEGV, 11), (Signal::ABORT, 6)] {
        let mut client = world.client(&["new", "--", "sh", "-i"]);
        client.wait("the session", |term| {
            term.mode().contains(TermMode::ALT_SCREEN)
        });
        wait_until("raw", || !client.is_cooked());
        client.signal(signal);
        assert_eq!(client.wait_exit().signal(), Some(status));
        assert!(client.is_cooked(), "{signal:?}");
        client.wait("a plain screen", |term| {
            !term
                .mode()
                .intersects(TermMode::ALT_SCREEN | TermMode::BRACKETED_PASTE)
        });
    }
    for signal in [Signal::TERM, Signal::HUP] {
        let mut client = world.client(&["attach"]);
        client.wait("the session", |term| {
            term.mode().contains(TermMode::ALT_SCREEN)
        });
        client.signal(signal);
        assert_eq!(client.wait_exit().code(), Some(143));
        assert!(client.is_cooked(), "{signal:?}");
    }
    wait_until("all are detached", || {
        world
            .sessions()
            .iter()
            .all(|session| session["attached"] == 0)
    });
}

/// A flood of numbered lines, its end marked.
fn flood(lines: u32) -> String {
    format!("i=0; seq {lines}; echo flood''-end")
}

#[test]
fn a_flood_arrives_and_the_figures_agree() {
    let world = World::with_server(&[]);
    let client = world.shell("flood");
    client.line(&flood(100_000));
    client.wait_for_row("flood-end");
    client.wait_for_row("100000");
    let mut report = world.perf();
    // The last frames are written before they are counted.
    wait_until("all is counted", || {
        report = world.perf();
        sum(&report, "wire.write.bytes") == count(&report, "wire.bytes_out")
    });
    let bytes = count(&report, "pty.read.bytes");
    assert!(bytes > 600_000, "{bytes}");
    assert_eq!(sum(&report, "pty.read.size"), bytes);
    assert_eq!(sum(&report, "pty.burst.bytes"), bytes);
    assert_eq!(
        sum(&report, "pty.burst.chunks"),
        count(&report, "pty.read.size")
    );
    let bursts = count(&report, "pty.burst.bytes");
    assert_eq!(count(&report, "pty.queue_wait"), bursts);
    assert_eq!(count(&report, "pty.vt_apply"), bursts);
    assert_eq!(count(&report, "pty.burst.chunks"), bursts);
    assert_eq!(
        sum(&report, "pump.frame.bytes"),
        count(&report, "pump.bytes")
    );
    assert_eq!(
        count(&report, "pump.frame.bytes"),
        count(&report, "pump.frames")
    );
    if count(&report, "pump.lagged") == 0 {
        // Nothing was skipped on the way, but what came before the client was attached.
        assert!(count(&report, "pump.bytes") <= bytes);
        assert!(count(&report, "pump.bytes") + 64 >= bytes);
    }
    assert!(count(&report, "echo.server") >= 1);
    assert!(count(&report, "input.events") >= 1);
    assert!(count(&report, "input.pty_write") >= 1);
    assert!(count(&report, "attach.handle") == 1);
    assert!(count(&report, "cmd.handle") >= 1);
    assert_eq!(count(&report, "proc.panes"), 1);
    client.detach();
    wait_until("the client's own report is in its log", || {
        world.client_logs().contains("session perf: echo n=")
    });
    let logs = world.client_logs();
    let json = logs
        .split("perf={")
        .nth(1)
        .map(|rest| format!("{{{}", rest.trim_end()));
    let report = phux_perf::PerfReport::from_json(&json.expect("a report")).expect("JSON");
    assert_eq!(report.role, "client");
    assert!(count(&report, "echo.rtt") >= 1);
    assert!(count(&report, "frames.received") >= 1);
    assert_eq!(
        sum(&report, "stdout.backlog") > 0,
        count(&report, "stdout.bytes") > 0
    );
    assert_eq!(
        count(&report, "stdout.written"),
        count(&report, "stdout.bytes")
    );
    assert!(count(&report, "frames.painted") < count(&report, "frames.received") + 50);
}

#[test]
fn a_stopped_client_costs_bounded_memory_and_is_brought_up_to_date() {
    let world = World::with_server(&[]);
    let stopped = world.shell("stop");
    let other = world.client(&["attach", "stop"]);
    other.wait_for("ready");
    let before = world.server_rss();
    stopped.signal(Signal::STOP);
    // 30 MiB, of which the ring keeps what is newest.
    other
        .line("yes 0123456789012345678901234567890123456789 | head -c 30000000; echo; echo do''ne");
    other.wait_for_row("done");
    let grown = world.server_rss().saturating_sub(before);
    assert!(grown < 24 * MIB, "the server grew by {} KiB", grown / 1024);
    let report = world.perf();
    assert!(count(&report, "consumer.mailbox_full") > 0);
    assert!(
        world
            .log()
            .contains("mailbox full, the client does not keep up")
    );
    other.line("clear; echo news");
    other.wait_for_row("news");

    stopped.signal(Signal::CONT);
    stopped.wait_for_row("news");
    wait_until("both show the same", || stopped.cells() == other.cells());
    let report = world.perf();
    assert!(count(&report, "pump.lagged") > 0);
    assert!(count(&report, "pump.gap_resync") > 0);
    assert!(world.log().contains("fell behind by"));
    // At most one warning of each kind in the interval.
    let warnings = world.log().matches("mailbox full").count();
    assert!(
        warnings <= 1 + (DEADLINE.as_secs() as usize) / 10,
        "{warnings} warnings"
    );
    stopped.line("echo ali''ve");
    stopped.wait_for_row("alive");
}

#[test]
fn a_terminal_that_hangs_loses_paints_and_ends_up_right() {
    let world = World::with_server(&[]);
    let large = |args: &[&str]| Terminal::start(world.command(args), 200, 60);
    let slow = large(&["new", "-s", "slow", "--", "sh", "-i"]);
    slow.wait("the session", |term| {
        term.mode().contains(TermMode::ALT_SCREEN)
    });
    let other = large(&["attach", "slow"]);
    other.line("PS1='$ '; echo re''ady");
    slow.wait_for_row("ready");
    slow.pause(true);
    // Paints are paced and small where little changes: this changes every cell, for a while.
    other.line(
        "for i in $(seq 150); do head -c 9000 /dev/urandom | base64 -w 199; sleep 0.01; done; \
         clear; echo fini''shed",
    );
    other.wait_for_row("finished");
    slow.pause(false);
    slow.wait_for_row("finished");
    wait_until("both show the same", || slow.cells() == other.cells());
    slow.detach();
    let logs = world.client_logs();
    let dropped = logs.contains("the terminal does not keep up");
    let json = logs
        .split("perf={")
        .nth(1)
        .map(|rest| format!("{{{}", rest.lines().next().unwrap_or("")));
    let report = phux_perf::PerfReport::from_json(&json.expect("a report")).expect("JSON");
    let drops = count(&report, "stdout.drops");
    assert!(
        drops > 0,
        "nothing was dropped: {} bytes painted",
        count(&report, "stdout.bytes")
    );
    assert!(dropped);
    let written = count(&report, "stdout.written") + count(&report, "stdout.dropped_bytes");
    assert_eq!(written, count(&report, "stdout.bytes"));
}

#[test]
fn a_child_that_does_not_read_stalls_nobody_else() {
    let world = World::with_server(&[]);
    let deaf = world.client(&[
        "new",
        "-s",
        "deaf",
        "--",
        "sh",
        "-c",
        "stty raw -echo; echo go; exec sleep 1000",
    ]);
    deaf.wait_for("go");
    // More than the kernel's buffer and all queues take.
    let start = Instant::now();
    for _ in 0..40 {
        deaf.keys(&format!("\x1b[200~{}\x1b[201~", "x".repeat(4000)));
        for _ in 0..8 {
            deaf.keys("\x1b[A\x1b[B");
        }
    }
    wait_until("the writer's queue is full", || {
        count(&world.perf(), "input.writer.full") > 0
    });
    assert!(world.log().contains("the program does not read its input"));
    let other = world.shell("other");
    other.line("echo fi''ne");
    other.wait_for_row("fine");
    assert!(start.elapsed() < DEADLINE);
    deaf.detach();
    world.ok(&["kill", "deaf"]);
    wait_until("the deaf one is gone", || world.sessions().len() == 1);
}

#[test]
fn many_attach_and_leave_at_once() {
    let world = World::with_server(&[]);
    let first = world.shell("many");
    let others: Vec<Terminal> = (0..6).map(|_| world.client(&["attach", "many"])).collect();
    first.line("echo ev''eryone");
    for client in others.iter().chain([&first]) {
        client.wait_for_row("everyone");
    }
    assert_eq!(count(&world.perf(), "proc.clients"), 8);
    for (n, client) in others.into_iter().enumerate() {
        if n % 2 == 0 {
            client.detach()
        } else {
            drop(client)
        }
    }
    wait_until("they have left", || world.sessions()[0]["attached"] == 1);
    wait_until("and are not counted", || {
        count(&world.perf(), "proc.clients") == 2
    });
}

#[test]
fn a_child_that_ignores_hangups_is_killed() {
    let world = World::with_server(&[]);
    let client = world.client(&[
        "new",
        "-s",
        "stubborn",
        "--",
        "sh",
        "-c",
        "trap '' HUP TERM; echo ready; while :; do sleep 1; done",
    ]);
    client.wait_for("ready");
    client.detach();
    let start = Instant::now();
    world.ok(&["kill", "stubborn"]);
    wait_until("it is gone", || world.sessions().is_empty());
    assert!(
        start.elapsed() > Duration::from_secs(2),
        "it was given time"
    );
}
