//! The live view on a real terminal, of a real tmux.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::muxers::Tmux;
use phux_trace_tests::terminal::Terminal;
use phux_trace_tests::{bin, exclusive, need_root, need_tool, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};

/// Long beside a frame, short beside the deadline.
const A_WHILE: Duration = Duration::from_millis(500);
/// How often a frame is asked for.
const TIMES: u16 = 80;

/// Says its pid, what the terminal is like before and after, and how the view ended.
fn top(args: &str) -> Terminal {
    top_with("", args)
}

/// The same, started by these words.
fn top_with(by: &str, args: &str) -> Terminal {
    let modes = "stty -a | tr '\\n' ' '; echo";
    let program = bin("phux-trace");
    let run = format!(
        "{by} sh -c 'echo pid=$$; exec {} {args}'",
        program.display()
    );
    let script = format!("{modes}; {run}; echo status=$?; {modes}; echo the-end");
    Terminal::start(Command::new("sh").args(["-c", &script]))
}

/// The line of stty.
fn modes(text: &str) -> &str {
    text.lines().find(|l| l.contains("icanon")).expect("modes")
}

/// The program's, as it has said.
fn pid_of(text: &str) -> Pid {
    let pid = text.lines().find_map(|l| l.strip_prefix("pid="));
    let pid = pid.and_then(|p| Pid::from_raw(p.trim().parse().ok()?));
    pid.expect("a pid")
}

fn is_raw(terminal: &Terminal) -> bool {
    let modes = tcgetattr(terminal.master()).expect("the terminal's modes");
    !modes.local_modes.contains(LocalModes::ICANON)
}

/// Types keys and waits for a word on the screen. A frame is what differs from the one before, where
/// words can be in pieces; another size has all of it drawn.
fn press(view: &mut Terminal, keys: &[u8], word: &str) {
    let mut seen = String::new();
    for more in 0..TIMES {
        // At once, as a person who drags a window does, and only the first time: no key is lost.
        view.resize(24, 120 + more % 2);
        if more == 0 {
            view.send(keys);
        }
        match view.read_for(word, A_WHILE) {
            Ok(_) => return,
            Err(instead) => seen = instead,
        }
    }
    panic!("no {word} after {keys:?}: {seen}");
}

#[test]
fn tabs_keys_sizes_and_the_terminal_as_it_was() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let tmux = Tmux::start("cat");
    let mut client = tmux.attach();
    let mut view = top(&format!("top -p {} --interval 200ms", tmux.pid()));
    let before = view.read_until("stream");
    assert!(is_raw(&view));
    client.type_keys(5, Duration::from_millis(20));

    press(&mut view, b"2", "instead");
    press(&mut view, b"", "tmux:");
    press(&mut view, b"0", "longest");
    press(&mut view, b"", "echoed");
    press(&mut view, b"x?", "shift-tab,");
    press(&mut view, b"x7", "ended");
    press(&mut view, b"8", "times");
    for (rows, columns) in [(5, 20), (1, 1), (50, 200)] {
        view.resize(rows, columns);
    }
    press(&mut view, b"9", "waiting");
    view.resize(24, 80);
    view.settle();
    view.send(b"q");
    let after = view.read_until("the-end");
    assert!(after.contains("status=0"), "{after}");
    assert!(
        after.contains("\x1b[?1049l"),
        "the screen before: {after:?}"
    );
    assert_eq!(modes(&before), modes(&after));
}

#[test]
fn a_signal_gives_the_terminal_back_too() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let tmux = Tmux::start("cat");
    let mut view = top(&format!("attach --tui -p {}", tmux.pid()));
    let before = view.read_until("stream");
    assert!(is_raw(&view));
    kill_process(pid_of(&before), Signal::TERM).expect("it lives");
    let after = view.read_until("the-end");
    assert!(after.contains("status=0"), "{after}");
    assert!(after.contains("MEASURED"), "the report: {after}");
    assert!(after.contains("\x1b[?1049l"), "{after:?}");
    assert!(after.contains("\x1b[?25h"), "the cursor: {after:?}");
    assert_eq!(modes(&before), modes(&after));
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_is_told() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let tmux = Tmux::start("cat");
    let mut view = top_with(
        "PHUX_TRACE_PANICS_IN_DRAW=1",
        &format!("top -p {} --interval 200ms", tmux.pid()),
    );
    let text = view.read_until("the-end");
    let back = text.find("\x1b[?1049l").expect("the screen before");
    let told = text.find("panicked at").expect("a panic");
    assert!(back < told, "{text:?}");
    assert!(text.contains("\x1b[?25h"), "the cursor: {text:?}");
    assert!(text.contains("status=1"), "{text}");
    let modes: Vec<&str> = text.lines().filter(|l| l.contains("icanon")).collect();
    assert_eq!(modes.len(), 2, "{text}");
    assert_eq!(modes[0], modes[1]);
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let tmux = Tmux::start("cat");
    // Nobody sends it SIGHUP: it has the terminal, and is not of its session.
    let mut view = top_with("setsid", &format!("top -p {}", tmux.pid()));
    let before = view.read_until("stream");
    let pid = pid_of(&before).as_raw_nonzero().get();
    drop(view);
    let gone = wait_for(Duration::from_secs(20), || {
        (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(())
    });
    gone.expect("it ends when nobody can see it");
}

#[test]
fn where_several_could_be_meant_a_list_asks_which() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let tmux = Tmux::start("cat");
    let mut view = top("top no-such-program");
    // Why it asks: a single word, since between words the cursor jumps.
    view.read_until("\"no-such-program\"");
    // All that hold a PTY are in the list; what is typed in it leaves one.
    view.send(format!(" {} \r", tmux.pid()).as_bytes());
    view.read_until("stream");
    press(&mut view, b"2", "tmux:");
    view.settle();
    view.send(b"q");
    assert!(view.read_until("the-end").contains("status=0"));

    let mut view = top("top no-such-program");
    // Why it asks: a single word, since between words the cursor jumps.
    view.read_until("\"no-such-program\"");
    view.send(b"\x1b");
    let after = view.read_until("the-end");
    assert!(after.contains("no target was chosen"), "{after}");
    assert!(after.contains("status=1"), "{after}");
}

#[test]
fn no_terminal_is_an_error_that_says_so() {
    let out = Command::new(bin("phux-trace"))
        .args(["top", "-p", "1"])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("phux-trace");
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("terminal"), "{said}");
}
