//! A delay of known size at each link of an echo: that link is named, with that time, for tmux and
//! for phux.

use std::fs;
use std::path::Path;
use std::time::Duration;

use phux_trace_tests::bins::{bin, library};
use phux_trace_tests::echoes::{Echoes, Told};
use phux_trace_tests::muxers::{PhuxInTerminal, Tmux};
use phux_trace_tests::terminal::{Terminal, median};
use phux_trace_tests::{exclusive, need_root, need_tool};

/// Keys typed in one run.
const KEYS: usize = 30;
/// Between two keys.
const PAUSE: Duration = Duration::from_millis(10);
const DELAY_US: u64 = 5000;

/// Where the delay is put.
enum At {
    /// Nowhere.
    No,
    /// At a thread of that name, as `PHUX_DELAY` has it.
    Server(&'static str),
    /// By an option of `echoer`.
    Child(&'static str),
}

/// What one run found: the echoes, and the real lengths of the delays, ns.
struct Run {
    told: Told,
    delays: Vec<u64>,
}

/// Keys through tmux or phux, with a delay there.
fn run(phux: bool, at: &At) -> Run {
    let dir = tempfile::tempdir().expect("a folder");
    let log = dir.path().join("delays");
    let echoer = bin("echoer").display().to_string();
    let child = match at {
        At::Child(option) => format!("{option} {DELAY_US} --log {}", log.display()),
        _ => String::new(),
    };
    let child = format!("exec {echoer} {child}");
    let preload = |what: Option<&str>| what.map(|w| preload(w, &log)).unwrap_or_default();
    let server = match at {
        At::Server(where_) => preload(Some(where_)),
        _ => Vec::new(),
    };
    let told = if phux {
        let mut phux = PhuxInTerminal::start(&child, &server, &[]);
        phux.terminal.wait_for_text("ready");
        let pid = phux.server();
        type_at(pid, &mut phux.terminal, &log)
    } else {
        let tmux = Tmux::start_with(&child, &server);
        let mut terminal = tmux.attach();
        terminal.wait_for_text("ready");
        type_at(tmux.pid(), &mut terminal, &log)
    };
    let delays = fs::read_to_string(&log).unwrap_or_default();
    Run {
        told,
        delays: delays.lines().filter_map(|l| l.parse().ok()).collect(),
    }
}

fn preload(what: &str, log: &Path) -> Vec<(String, String)> {
    let variable = |name: &str, value: String| (name.to_owned(), value);
    vec![
        variable(
            "LD_PRELOAD",
            library("phux-trace-delay").display().to_string(),
        ),
        variable("PHUX_DELAY", format!("{what}:{DELAY_US}")),
        variable("PHUX_DELAY_LOG", log.display().to_string()),
    ]
}

fn type_at(pid: u32, terminal: &mut Terminal, log: &Path) -> Told {
    let echoes = Echoes::of(&["-p", &pid.to_string()]);
    // What was late before is of no interest.
    if log.exists() {
        fs::write(log, "").expect("the log");
    }
    terminal.type_keys(KEYS, PAUSE);
    echoes.stop()
}

/// Runs with the delay and without, and compares: that link has become longer by the delay.
fn assert_named(phux: bool, plain: &Run, at: &At, link: &str, what: &str) {
    let late = run(phux, at);
    assert!(
        late.delays.len() >= KEYS,
        "{what}: {} delays",
        late.delays.len()
    );
    let echoed = late.told.echoed();
    assert!(echoed.len() >= KEYS, "{what}: {:?}", late.told.counts);
    let delay = median(late.delays.iter().copied());
    let longer = late.told.typical_ns(link) as f64 - plain.told.typical_ns(link) as f64;
    let margin = (delay as f64 * 0.1).max(200_000.0);
    assert!(
        (longer - delay as f64).abs() <= margin,
        "{what}: {link} is {longer} ns longer, by a delay of {delay} ns"
    );
    let named = echoed.iter().filter(|c| c.longest() == link).count();
    assert!(
        named * 2 > echoed.len(),
        "{what}: {link} is the longest in {named} of {}",
        echoed.len()
    );
}

#[test]
fn a_delay_at_each_link_of_tmux_is_found_there() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let plain = run(false, &At::No);
    assert!(plain.told.echoed().len() >= KEYS, "{:?}", plain.told.counts);
    for (at, link, what) in [
        (
            At::Server("tmux: server:read:slave:sleep"),
            "client_read",
            "before the key is read",
        ),
        (
            At::Server("tmux: server:write:master:spin"),
            "server_input",
            "before it is passed on",
        ),
        (
            At::Child("--late-us"),
            "child_read",
            "before the program reads it",
        ),
        (At::Child("--sleep-us"), "child", "the program sleeps"),
        (At::Child("--spin-us"), "child", "the program computes"),
        (
            At::Server("tmux: server:read:master:sleep"),
            "master_read",
            "before the answer is read",
        ),
        (
            At::Server("tmux: server:write:slave:sleep"),
            "server_output",
            "before it is shown",
        ),
    ] {
        assert_named(false, &plain, &at, link, what);
    }
}
