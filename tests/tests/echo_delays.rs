//! A delay of known size at each link of an echo: that link is named, with that time, for tmux and
//! for phux.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::bins::{bin, library};
use phux_trace_tests::echoes::{Echoes, Told};
use phux_trace_tests::machine::output_of;
use phux_trace_tests::muxers::{PhuxInTerminal, Tmux};
use phux_trace_tests::terminal::{Terminal, median};
use phux_trace_tests::{exclusive, need_root, need_tool, procfs};

/// Keys typed in one run.
const KEYS: usize = 30;
/// Between two keys.
const PAUSE: Duration = Duration::from_millis(10);
const DELAY_US: u64 = 5000;
const DELAY_NS: f64 = DELAY_US as f64 * 1000.0;

/// Who is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Server,
    Client,
    Child,
}

/// A delay at one call: whose, which as `PHUX_DELAY` has it, and the link that it makes longer.
type At = (Who, &'static str, &'static str);

/// What one run found: the echoes, and the real lengths of the delays, ns.
struct Run {
    told: Told,
    delays: Vec<u64>,
}

/// Keys through tmux or phux, with a delay there.
fn run(phux: bool, at: Option<(Who, String)>) -> Run {
    let dir = tempfile::tempdir().expect("a folder");
    let log = dir.path().join("delays");
    let environment_of = |who| match &at {
        Some((late, delay)) if *late == who => preload(delay, &log),
        _ => Vec::new(),
    };
    let assignments = environment_of(Who::Child);
    let assignments: String = assignments
        .iter()
        .map(|(name, value)| format!("{name}='{value}' "))
        .collect();
    let child = format!("exec env {assignments}{}", bin("echoer").display());
    let server = environment_of(Who::Server);
    let told = if phux {
        let mut phux = PhuxInTerminal::start(&child, &server, &environment_of(Who::Client));
        phux.terminal.wait_for_text("ready");
        type_at(phux.server(), &mut phux.terminal, &log)
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

fn preload(delay: &str, log: &Path) -> Vec<(String, String)> {
    let variable = |name: &str, value: String| (name.to_owned(), value);
    vec![
        variable(
            "LD_PRELOAD",
            library("phux-trace-delay").display().to_string(),
        ),
        variable("PHUX_DELAY", delay.to_owned()),
        variable("PHUX_DELAY_LOG", log.display().to_string()),
    ]
}

fn type_at(server: u32, terminal: &mut Terminal, log: &Path) -> Told {
    // Ahead of whatever else runs on this machine: who spins is put behind others after a while, and
    // then its link is longer than its delay by a wait for the CPU, which is not what is looked for.
    for pid in [server, terminal.pid()]
        .into_iter()
        .chain(procfs::children(server))
    {
        output_of(Command::new("chrt").args([
            "--all-tasks",
            "--fifo",
            "--pid",
            "10",
            &pid.to_string(),
        ]));
    }
    let echoes = Echoes::of(&["-p", &server.to_string()]);
    // What was late before is of no interest.
    if log.exists() {
        fs::write(log, "").expect("the log");
    }
    terminal.type_keys(KEYS, PAUSE);
    echoes.stop()
}

/// Runs with the delay, and compares with the run without: that link has become longer by the
/// delay, and what it did meanwhile is told.
fn assert_named(phux: bool, plain: &Run, (who, call, link): At, how: &str) {
    let what = format!("{who:?} {call}, {how}");
    let late = run(phux, Some((who, format!("{call}:{how}:{DELAY_US}"))));
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
    println!("{what}: {link} is {longer} ns longer, by a delay of {delay} ns");
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
    let blocked = late.told.typical_part_ns(link, "blocked_ns") as f64;
    let told = match how {
        "sleep" => blocked > 0.9 * DELAY_NS,
        _ => blocked < 0.1 * DELAY_NS,
    };
    assert!(told, "{what}: {blocked} ns of {link} are told as blocked");
}

fn each_link(phux: bool, links: &[At]) {
    let plain = run(phux, None);
    assert!(plain.told.echoed().len() >= KEYS, "{:?}", plain.told.counts);
    for at in links {
        for how in ["sleep", "spin"] {
            assert_named(phux, &plain, *at, how);
        }
    }
}

/// What the program inside can be late with.
const CHILD: [At; 3] = [
    (Who::Child, "echoer:read:slave", "child_read"),
    (Who::Child, "echoer:after-read:slave", "child"),
    (Who::Child, "echoer:write:slave", "child"),
];

#[test]
fn a_delay_at_each_link_of_tmux_is_found_there() {
    if !need_root() || !need_tool("tmux") || !need_tool("chrt") {
        return;
    }
    let _alone = exclusive();
    each_link(false, &CHILD);
    each_link(
        false,
        &[
            (Who::Server, "tmux: server:read:slave", "client_read"),
            (Who::Server, "tmux: server:write:master", "server_input"),
            (Who::Server, "tmux: server:read:master", "master_read"),
            (Who::Server, "tmux: server:write:slave", "server_output"),
        ],
    );
}

#[test]
fn a_delay_at_each_link_of_phux_is_found_there() {
    if !need_root() || !need_tool("chrt") {
        return;
    }
    let _alone = exclusive();
    each_link(true, &CHILD);
    each_link(
        true,
        &[
            (Who::Client, "phux:read:slave", "client_read"),
            (Who::Client, "phux:write:socket", "client_send"),
            (Who::Server, "phux:read:socket", "server_receive"),
            (Who::Server, "phux:write:master", "server_input"),
            (Who::Server, "phux:read:master", "master_read"),
            (Who::Server, "phux:write:socket", "server_output"),
            (Who::Client, "phux:read:socket", "client_receive"),
            (Who::Client, "phux:write:slave", "client_write"),
        ],
    );
}
