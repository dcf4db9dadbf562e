//! `attach --budget`: a run that costs too much makes itself cheaper, says so, and what it still tells is right.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::echoes::Typed;
use phux_trace_tests::report::Summed;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{Running, bin, exclusive, need_root};
use rustix::process::Signal;
use serde_json::Value;

const SOON: Duration = Duration::from_secs(90);
/// Runs that may be repeated: on a machine with other load a run can cost twice what it did a moment before.
const RUNS: usize = 4;

/// Types into five terminals, so many keys a second in all.
fn typist(keys: u32, rate: u32) -> Program {
    let typist = bin("typist").display().to_string();
    let mut command = Command::new(&typist);
    command.args(["--panes", "5", "--shows", "ready"]);
    command.args(["--keys", &keys.to_string(), "--rate", &rate.to_string()]);
    Program::start(command.args(["--", &typist, "--echo"]))
}

fn attach(pid: u32, args: &[&str]) -> Running {
    let mut command = Command::new(bin("phux-trace"));
    command.args(["attach", "--json", "-d", "120s", "-p", &pid.to_string()]);
    let run = Running::start(command.args(args));
    phux_trace_tests::wait_for(SOON, || {
        // The last thing before it measures is to give up what it needs no more.
        let status = std::fs::read_to_string(format!("/proc/{}/status", run.pid())).ok()?;
        let has = status.lines().find_map(|l| l.strip_prefix("CapPrm:"))?;
        (u64::from_str_radix(has.trim(), 16).ok()?.count_ones() < 10).then_some(())
    })
    .expect("it measures");
    run
}

/// Ends it; its lines.
fn stop(run: Running) -> (Vec<Value>, String) {
    run.signal(Signal::INT);
    let ended = run.end(SOON);
    assert!(ended.status.success(), "{ended:?}");
    let parse = |l: &String| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"));
    (ended.stdout.iter().map(parse).collect(), ended.stderr)
}

fn of<'a>(lines: &'a [Value], kind: &'a str) -> Vec<&'a Value> {
    lines.iter().filter(|l| l["type"] == kind).collect()
}

fn window_ns(lines: &[Value]) -> u64 {
    let run = of(lines, "run").last().copied().expect("a report");
    run["window"]["duration_ns"].as_u64().expect("a length")
}

/// What a run cost, in percent of the machine, by its own account.
fn cost_percent(lines: &[Value]) -> f64 {
    let cost = of(lines, "cost").last().copied().expect("a cost");
    let ns = |name: &str| cost[name].as_u64().unwrap_or_else(|| panic!("{cost}"));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let all = ns("daemon_cpu_ns") + ns("bpf_ns");
    100.0 * all as f64 / (window_ns(lines) as f64 * cpus as f64)
}

/// Keys of one run, what it said, and bytes that it saw typed.
fn typed(keys: u32, rate: u32, args: &[&str]) -> (Typed, Vec<Value>, String, u64) {
    let mut typist = typist(keys, rate);
    let run = attach(typist.pid(), args);
    let truth: Typed = typist.work(SOON);
    let (lines, said) = stop(run);
    typist.finish();
    let text: Vec<String> = lines
        .iter()
        .filter(|l| l["type"] != "thinned")
        .map(Value::to_string)
        .collect();
    let report = Summed::read(text.iter().map(String::as_str));
    let mut panes: Vec<u32> = truth.keys.iter().map(|k| k.pty).collect();
    panes.sort_unstable();
    panes.dedup();
    let seen = panes
        .iter()
        .map(|pane| report.pty(*pane).master_writes.size.sum);
    let seen = seen.sum();
    (truth, lines, said, seen)
}

#[test]
fn a_run_that_costs_too_much_thins_itself_and_what_is_left_is_right() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (keys, rate) = (9_000, 1_000);
    let mut done = false;
    for _ in 0..RUNS {
        // What it costs with echoes and without, here and now.
        let (_, full, ..) = typed(3_000, rate, &["--budget", "off"]);
        let (_, sums, ..) = typed(3_000, rate, &["--budget", "off", "--no-echoes"]);
        assert!(of(&full, "thinned").is_empty());
        let (full, sums) = (cost_percent(&full), cost_percent(&sums));
        assert!(full > sums, "{full} {sums}");
        let budget = (full * sums).sqrt().to_string();
        let (truth, lines, said, seen) = typed(keys, rate, &["--budget", &budget]);
        let thinned = of(&lines, "thinned");
        if thinned.len() != 1 {
            println!("once more: {full} {sums} {thinned:?}");
            continue;
        }
        done = true;
        assert_eq!(thinned[0]["level"], "aggregates", "{thinned:?}");
        assert!(thinned[0]["cost_percent"].as_f64() > thinned[0]["budget_percent"].as_f64());
        assert!(said.contains("thinned at"), "{said}");
        let notes = of(&lines, "run").last().expect("a report")["notes"].to_string();
        assert!(notes.contains("thinned at"), "{notes}");
        // The sums go on, and are whole.
        assert_eq!(seen, truth.keys.len() as u64);
        // The echoes end there: what was followed until then is told, and nothing is made up.
        let echo = of(&lines, "echo")[0];
        let inputs = echo["inputs"].as_u64().expect("inputs");
        assert!((100..u64::from(keys)).contains(&inputs), "{echo}");
        let ends = &echo["ends"];
        assert_eq!(
            (&ends["late"], &ends["unread"], &ends["lost"]),
            (&0.into(), &0.into(), &0.into())
        );
        break;
    }
    assert!(done, "no run in {RUNS} stayed at its first step");
}

#[test]
fn a_run_that_still_costs_too_much_measures_a_share_of_the_time() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let (keys, rate) = (16_000, 800);
    let (_, sums, ..) = typed(2_400, rate, &["--budget", "off", "--no-echoes"]);
    let budget = (cost_percent(&sums) * 0.5).to_string();
    let (truth, lines, said, seen) = typed(keys, rate, &["--budget", &budget]);
    let thinned = of(&lines, "thinned");
    let levels: Vec<&str> = thinned.iter().filter_map(|l| l["level"].as_str()).collect();
    assert_eq!(levels, ["aggregates", "sampled"], "{said}");
    let share = thinned[1]["measured_share"].as_f64().expect("a share");
    assert!((0.02..=0.5).contains(&share), "{thinned:?}");
    // Of the keys that were typed before and after, so many can have been seen.
    let from = thinned[1]["unix_ns"].as_u64().expect("a time");
    let run = of(&lines, "run").last().copied().expect("a report");
    let began = run["window"]["start_unix_ms"].as_u64().expect("a time") * 1_000_000;
    let offset = i128::from(began) - i128::from(truth.keys[0].sent_ns);
    // Both clocks are read a moment apart; the first key came a little later than the window.
    let after =
        |k: &&phux_trace_tests::echoes::Key| i128::from(k.sent_ns) + offset > i128::from(from);
    let later = truth.keys.iter().filter(after).count() as f64;
    let before = truth.keys.len() as f64 - later;
    let expected = before + later * share;
    let seen = seen as f64;
    assert!(later > 1_000.0, "{later} of {keys}");
    assert!(seen < before + later * 0.9, "{seen}: it stood still");
    assert!(
        seen > before * 0.7 + later * share * 0.3,
        "{seen} of {expected}"
    );
    let window = window_ns(&lines);
    for thread in of(&lines, "thread") {
        let ns = |name: &str| thread[name].as_u64().unwrap_or(0);
        let lived =
            ns("on_cpu_ns") + ns("blocked_ns") + thread["wait"]["sum"].as_u64().unwrap_or(0);
        assert!(
            lived <= window + window / 20,
            "{lived} of {window}: {thread}"
        );
    }
    for pty in of(&lines, "pty") {
        for flush in ["flush_input", "flush_output"] {
            for figure in ["wait", "run", "reader_wait"] {
                let longest = pty[flush][figure]["max"].as_u64().unwrap_or(0);
                // A pause of some seconds is in none of them.
                assert!(longest < 900_000_000, "{flush} {figure}: {pty}");
            }
        }
    }
}

#[test]
fn a_run_that_costs_little_is_left_as_it_is() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let target = Running::start(Command::new("sleep").arg("1000"));
    let run = attach(target.pid(), &[]);
    let began = std::time::Instant::now();
    // Twice as long as is looked back.
    phux_trace_tests::wait_for(SOON, || {
        (began.elapsed() > Duration::from_secs(7)).then_some(())
    });
    let (lines, said) = stop(run);
    assert!(of(&lines, "thinned").is_empty(), "{lines:?}");
    assert!(!said.contains("thinned"), "{said}");
    assert!(window_ns(&lines) > 6_000_000_000);
    let notes = of(&lines, "run")[0]["notes"].to_string();
    assert!(!notes.contains("thinned"), "{notes}");
    let echo = of(&lines, "echo");
    assert_eq!(echo.len(), 1, "echoes are followed to the end");
}
