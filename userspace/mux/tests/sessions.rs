//! What a person does with sessions: start, leave, come back, look, resize, end.

mod harness;

use alacritty_terminal::term::TermMode;
use harness::{Terminal, World, count, wait_until};

/// Columns and rows of the only session.
fn size(world: &World) -> (Option<u64>, Option<u64>) {
    let session = &world.sessions()[0];
    (session["cols"].as_u64(), session["rows"].as_u64())
}

#[test]
fn detach_and_reattach_restores_screen_and_scrollback() {
    let world = World::with_server(&[]);
    let client = world.shell("work");
    client.line("seq 1 200; printf '\\033[1;31mred\\033[0m 日本語 e\\314\\201\\n'");
    client.wait_for("red 日本語 e\u{301}");
    client.wait_for("200");
    client.wait("a prompt", |term| {
        harness::text(term).iter().any(|row| row == "$")
    });
    let before = client.cells();
    client.detach();
    assert_eq!(world.sessions()[0]["attached"], 0);

    let again = world.client(&["attach", "work"]);
    again.wait_for("red 日本語 e\u{301}");
    again.wait("the same screen", |_| true);
    wait_until("every cell is as before", || again.cells() == before);
    // The lines above come from the server: this client has not seen them before.
    again.keys("\x1b[5;2~");
    again.wait_for_row("160");
    again.keys("\x1b[5;2~\x1b[5;2~\x1b[5;2~");
    again.wait_for_row("100");
    again.keys("echo back''again\r");
    again.wait_for_row("backagain");
}

#[test]
fn names_lists_and_kills() {
    let world = World::with_server(&[]);
    world.ok(&["new", "-d", "-s", "one", "--", "sleep", "1000"]);
    world.ok(&["new", "-d", "--", "sleep", "1000"]);
    let names: Vec<_> = world.sessions().iter().map(|s| s["name"].clone()).collect();
    assert_eq!(names, ["one", "0"]);
    assert!(
        world
            .ok(&["ls"])
            .lines()
            .next()
            .expect("a line")
            .starts_with("one ")
    );
    let twice = world.run(&["new", "-d", "-s", "one"]);
    assert!(!twice.status.success());
    assert!(String::from_utf8_lossy(&twice.stderr).contains("session one exists"));

    world.ok(&["kill", "one"]);
    wait_until("the session is gone", || world.sessions().len() == 1);
    let none = world.run(&["kill", "one"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("no session one"));
    let mut none = world.client(&["attach", "one"]);
    assert!(!none.wait_exit().success());
    none.wait_for("no session one");
}

#[test]
fn the_childs_exit_status_is_reported() {
    let world = World::with_server(&[]);
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        // It exits before the client can have seen anything.
        let mut client = world.client(&["new", "-s", "short", "--", "sh", "-c", script]);
        assert_eq!(client.wait_exit().code(), Some(status), "{script}");
        client.wait_for(&format!("[exited with status {status}]"));
        assert!(client.is_cooked());
        wait_until("the session is gone", || world.sessions().is_empty());
    }
    let mut client = world.client(&["new", "--", "/no/such/program"]);
    assert!(!client.wait_exit().success());
    client.wait_for("cannot run /no/such/program");
}

#[test]
fn two_clients_share_a_session_at_the_smaller_size() {
    let world = World::with_server(&[]);
    let first = world.shell("both");
    first.line("tput cols; tput lines");
    first.wait_for_row("80");
    let second = Terminal::start(world.command(&["attach", "both"]), 60, 30);
    second.wait_for_row("80");
    second.line("echo sho''wn; tput cols; tput lines");
    for client in [&first, &second] {
        client.wait_for_row("shown");
    }
    // The size is the smaller one in each direction, once it is at rest.
    wait_until("60x24", || size(&world) == (Some(60), Some(24)));
    second.line("clear; tput cols; tput lines");
    for client in [&first, &second] {
        client.wait_for_row("60");
        client.wait_for_row("24");
    }
    second.resize(50, 10);
    wait_until("50x10", || size(&world) == (Some(50), Some(10)));
    second.detach();
    wait_until("80x24", || size(&world) == (Some(80), Some(24)));
    first.line("clear; tput cols; tput lines");
    first.wait_for_row("80");
    first.wait_for_row("24");
}

#[test]
fn a_resize_reaches_the_program_and_wraps_anew() {
    let world = World::with_server(&[]);
    let client = world.shell("size");
    client.line("clear; printf '%s\\n' \"$(seq -s '' 1 40)\"");
    client.wait_for_row("12345678910111213141516171819202122232425262728293031323334353637383940");
    client.resize(40, 12);
    wait_until("40x12", || size(&world) == (Some(40), Some(12)));
    client.wait_for_row("5262728293031323334353637383940");
    client.line("clear; tput cols; tput lines");
    client.wait_for_row("40");
    client.wait_for_row("12");
    client.resize(100, 40);
    wait_until("100x40", || size(&world) == (Some(100), Some(40)));
    client.line("clear; tput cols; tput lines");
    client.wait_for_row("100");
    client.wait_for_row("40");
}

#[test]
fn keys_pastes_and_mouse_arrive_as_the_program_asks_for() {
    let world = World::with_server(&[]);
    let client = world.shell("keys");
    // One line for what each read returns.
    client.line(
        "stty raw -echo; printf '\\033[?2004h\\033[?1000h\\033[?1006h\\033[?1h\\033[2J\\033[Hgo\\r\\n'; \
         while :; do dd bs=64 count=1 2>/dev/null | cat -v; printf '\\r\\n'; done",
    );
    client.wait_for_row("go");
    client.wait("mouse reports are on outside", |term| {
        term.mode()
            .contains(TermMode::MOUSE_REPORT_CLICK | TermMode::SGR_MOUSE)
    });
    let cases = [
        ("plain é日", "plain M-CM-)M-fM-^WM-%"),
        ("\x1b[A", "^[OA"),
        ("\x1b[1;5C", "^[[1;5C"),
        ("\x1bOP", "^[OP"),
        ("\x01", "^A"),
        ("\x1bx", "^[x"),
        (
            "\x1b[200~two\x1b[Awords\x1b[201~",
            "^[[200~two^[[Awords^[[201~",
        ),
        ("\x1b[<0;10;5M", "^[[<0;10;5M"),
        ("\x1b[<0;10;5m", "^[[<0;10;5m"),
        // Only one that nothing follows.
        ("\x1b", "^["),
    ];
    for (typed, shown) in cases {
        client.keys(typed);
        client.wait_for_row(shown);
    }
}

#[test]
fn the_detach_key_can_be_chosen() {
    let world = World::with_server(&[]);
    let mut client = world.client(&[
        "new",
        "-s",
        "k",
        "--detach-key",
        "C-a",
        "--",
        "sh",
        "-c",
        "stty -isig; echo go; exec cat -v",
    ]);
    client.wait_for("go");
    client.keys("\x1cx\r");
    client.wait_for_row("^\\x");
    client.keys("\x01");
    assert!(client.wait_exit().success());
    client.wait_for("[detached]");
    let bad = world.run(&["attach", "--detach-key", "F1"]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("expected a key such as C-a"));
}

#[test]
fn a_server_starts_by_itself_and_ends_with_the_last_session() {
    let world = World::empty();
    let none = world.run(&["ls"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("no server listens"));
    let mut client = world.client(&["new", "-s", "auto", "--", "cat"]);
    client.wait("the session", |term| {
        term.mode().contains(TermMode::ALT_SCREEN)
    });
    client.line("hello");
    client.wait_for("hello");
    assert_eq!(world.sessions().len(), 1);
    let report = world.perf();
    assert_eq!(count(&report, "proc.sessions"), 1);
    client.keys("\x04");
    assert_eq!(client.wait_exit().code(), Some(0));
    wait_until("the server has ended", || !world.socket().exists());
    let again = world.run(&["perf"]);
    assert!(!again.status.success(), "phux perf never starts a server");
    assert!(!world.socket().exists());
}

#[test]
fn the_environment_tells_the_child_where_it_is() {
    let world = World::with_server(&[]);
    let client = world.shell("here");
    client.line("clear; echo \"$PHUX_SESSION:$PHUX_SOCKET:$TERM\" | cut -c1-60; pwd");
    client.wait_for("here:/");
    client.line("clear; echo \"$PHUX_SOCKET\" | grep -c phux.sock");
    client.wait_for_row("1");
}
