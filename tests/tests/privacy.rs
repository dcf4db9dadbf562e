//! What is typed is nobody's business: nothing that is printed holds it.

use std::io::Read;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use phux_trace_tests::muxers::Tmux;
use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool, wait_for};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(60);

/// Letters that occur nowhere else, new each time.
fn secret() -> String {
    let mut bytes = [0u8; 20];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut bytes))
        .expect("random bytes");
    bytes.iter().map(|b| char::from(b'a' + b % 26)).collect()
}

/// A client of the session, whose keyboard we are: script(1) gives it a terminal.
fn client(tmux: &Tmux) -> Running {
    let attach = format!("exec tmux -S {} attach", tmux.socket().display());
    Running::start(
        Command::new("script")
            .args(["-qec", &attach, "/dev/null"])
            .env("TERM", "xterm")
            .env_remove("TMUX"),
    )
}

/// Pieces of the secret that are long enough to be no chance, as they are, reversed and in hex; and
/// of the rare letters any single one.
fn assert_not_told(output: &str, secret: &str, what: &str) {
    const TELLING: usize = 7;
    let reversed: String = secret.chars().rev().collect();
    for whole in [secret, &reversed] {
        for from in 0..=whole.len() - TELLING {
            let piece = &whole[from..from + TELLING];
            assert!(!output.contains(piece), "{what} tells {piece} of {secret}");
            let hex: String = piece.bytes().map(|b| format!("{b:02x}")).collect();
            assert!(
                !output.contains(&hex),
                "{what} tells {hex}, which is {piece}"
            );
        }
    }
    for letter in RARE.chars() {
        let escaped = letter.escape_unicode().to_string();
        let json: String = letter
            .encode_utf16(&mut [0; 2])
            .iter()
            .map(|u| format!("\\u{u:04x}"))
            .collect();
        for form in [letter.to_string(), escaped, json] {
            assert!(!output.contains(&form), "{what} tells {form}");
        }
    }
}

/// Letters of Old Italic: no name and no figure has one, so each alone would tell.
const RARE: &str = "𐌀𐌁𐌂𐌃𐌄";

/// Types the secret as a password and echoed, while phux-trace runs with these arguments; gives all
/// that it printed.
fn typed_while(args: &[&str], secret: &str) -> String {
    let tmux = Tmux::start(
        "echo ready; read -r w; stty -echo; echo quiet; read -r a; stty echo; echo again; exec cat",
    );
    tmux.wait_for_text("ready");
    let mut client = client(&tmux);
    wait_for(SOON, || {
        (tmux.run(&["list-clients"]).lines().count() == 1).then_some(())
    })
    .expect("a client");
    let mut command = Command::new(bin("phux-trace"));
    command
        .args(args)
        .args(["-p", &tmux.pid().to_string(), "-d", "120s"]);
    let mut running = Running::start(&mut command);
    // The first line is the proof that it measures; some views say nothing before there is a key.
    let warm = AtomicBool::new(true);
    let first = std::thread::scope(|scope| {
        scope.spawn(|| {
            while warm.load(Relaxed) {
                client.say_raw(b"x");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let first = running.line(SOON);
        warm.store(false, Relaxed);
        first
    });
    client.say_raw(b"\n");
    tmux.wait_for_text("quiet");
    for byte in secret.bytes().chain(RARE.bytes()) {
        client.say_raw(&[byte]);
    }
    client.say_raw(b"\n");
    tmux.wait_for_text("again");
    for byte in RARE.bytes().chain(secret.bytes()) {
        client.say_raw(&[byte]);
    }
    tmux.wait_for_text(secret);
    running.signal(Signal::INT);
    let ended = running.end(SOON);
    assert!(ended.status.success(), "{ended:?}");
    let all = [first]
        .into_iter()
        .chain(ended.stdout)
        .chain([ended.stderr]);
    all.collect::<Vec<_>>().join("\n")
}

#[test]
fn no_output_tells_what_was_typed() {
    if !(need_root() && need_tool("tmux") && need_tool("script")) {
        return;
    }
    let _alone = exclusive();
    for args in [
        &["attach", "--events", "--interval", "200ms"][..],
        &[
            "attach",
            "--slow",
            "1us",
            "--by",
            "class",
            "--interval",
            "200ms",
        ],
        &["attach", "--json", "--slow", "1us", "--interval", "200ms"],
        &["echo", "--json"],
        &["echo"],
    ] {
        let secret = secret();
        let output = typed_while(args, &secret);
        let told = ["/dev/pts/", "pts/", "\"index\""]
            .iter()
            .any(|t| output.contains(t));
        assert!(told, "{args:?} printed nothing of the terminal: {output}");
        assert_not_told(&output, &secret, &args.join(" "));
    }
}

#[test]
fn a_secret_that_is_told_is_found() {
    let secret = secret();
    let hex: String = secret[3..12].bytes().map(|b| format!("{b:02x}")).collect();
    let reversed: String = secret.chars().rev().collect();
    for leak in [
        &secret[5..12],
        &reversed[..9],
        &hex,
        "a 𐌃 b",
        "\\ud800\\udf01",
    ] {
        let told = std::panic::catch_unwind(|| assert_not_told(leak, &secret, "a leak"));
        assert!(told.is_err(), "{leak} of {secret}");
    }
    assert_not_told("nothing", &secret, "nothing");
}
