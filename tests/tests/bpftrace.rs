//! Every script of `scripts/bpftrace/` against a live program whose counts are known.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::bpftrace::{Bpftrace, Maps, SCRIPTS, Tool};
use phux_trace_tests::truth::Program;
use phux_trace_tests::{example, exclusive, need_root, need_tool};
use serde_json::Value;

const WORK: Duration = Duration::from_secs(120);

/// The distribution's bpftrace and the newest; none where neither could run.
fn tools() -> Vec<Tool> {
    if !need_root() || !need_tool("bpftrace") {
        return Vec::new();
    }
    std::iter::once(Tool::installed())
        .chain(Tool::newest())
        .collect()
}

/// Checks a histogram of `samples` (value → count), whatever the bounds of its rows.
fn assert_hist(maps: &Maps, name: &str, key: &str, samples: &BTreeMap<u64, u64>) {
    let rows = maps.hist(name, key);
    assert!(!rows.is_empty(), "no {name}[{key}] in {maps:?}");
    for (min, max, count) in &rows {
        let expected: u64 = samples.range(min..=max).map(|(_, n)| n).sum();
        assert_eq!(*count, expected, "{name}[{key}] {min}..={max}");
    }
    let all: u64 = rows.iter().map(|row| row.2).sum();
    assert_eq!(all, samples.values().sum::<u64>(), "{name}[{key}]");
}

fn sizes(calls: &Value) -> BTreeMap<u64, u64> {
    serde_json::from_value(calls["sizes"].clone()).expect("sizes")
}

#[test]
fn every_script_has_a_test_here_and_a_head_that_says_how_to_call_it() {
    let mut scripts: Vec<_> = std::fs::read_dir(SCRIPTS)
        .expect("scripts")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    scripts.sort();
    let tested = [
        "hop-latency.bt",
        "pty-echo.bt",
        "pty-read-size.bt",
        "runqlat-target.bt",
    ];
    assert_eq!(scripts, tested);
    for name in &scripts {
        let text = std::fs::read_to_string(format!("{SCRIPTS}/{name}")).expect("a script");
        let call = format!(" *     sudo bpftrace scripts/bpftrace/{name}");
        assert!(
            text.lines().any(|l| l.starts_with(&call)),
            "{name} does not say how to call it"
        );
    }
}

#[test]
fn pty_read_size_counts_every_read_of_both_ends() {
    let _alone = exclusive();
    for tool in tools() {
        let mut program = Program::start(
            Command::new(env!("CARGO_BIN_EXE_pty-sizes"))
                .args([
                    "--sizes",
                    "1,10,64,65,1000,3000",
                    "--input-sizes",
                    "1,2,0,3",
                    "--rounds",
                    "5",
                ])
                .args(["--ptys", "2", "--flood", "200000", "--reader", "poll"]),
        );
        // No PID: both ends belong to different processes.
        let script = Bpftrace::start(&tool, "pty-read-size.bt", &[]);
        let truth: Value = program.work(WORK);
        let maps = script.stop();
        for pty in truth["ptys"].as_array().expect("ptys") {
            for end in ["master", "slave"] {
                let key = format!("pty-sizes,{end},{}", pty["index"]);
                let reads = &pty[end]["reads"];
                assert_eq!(
                    maps.number("@reads", &key),
                    reads["count"].as_u64(),
                    "{key}"
                );
                assert_eq!(
                    maps.number("@bytes_sum", &key),
                    reads["bytes"].as_u64(),
                    "{key}"
                );
                assert_hist(&maps, "@bytes", &key, &sizes(reads));
            }
        }
        program.finish();
    }
}

#[test]
fn pty_read_size_of_a_pid_leaves_the_others_out() {
    let _alone = exclusive();
    for tool in tools() {
        let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_pty-sizes")).args([
            "--input-sizes",
            "1,2,3",
            "--reader",
            "nonblocking",
            "--vectored",
        ]));
        let script = Bpftrace::start(&tool, "pty-read-size.bt", &[&program.pid().to_string()]);
        let truth: Value = program.work(WORK);
        let maps = script.stop();
        let pty = &truth["ptys"][0];
        let index = &pty["index"];
        let master = format!("pty-sizes,master,{index}");
        let reads = &pty["master"]["reads"];
        assert_eq!(maps.number("@reads", &master), reads["count"].as_u64());
        assert_eq!(
            maps.number("@reads_empty", &master),
            reads["empty"].as_u64().filter(|n| *n > 0)
        );
        assert_eq!(
            maps.number("@reads", &format!("pty-sizes,slave,{index}")),
            None,
            "the child's"
        );
        program.finish();
    }
}

#[test]
fn pty_echo_measures_each_keystroke_with_an_answer() {
    let _alone = exclusive();
    for tool in tools() {
        // Each keystroke is answered by the child's next write, 3 ms later; the last has no answer.
        let mut program = Program::start(Command::new(env!("CARGO_BIN_EXE_pty-sizes")).args([
            "--sizes",
            "1",
            "--input-sizes",
            "1",
            "--rounds",
            "21",
            "--gap-us",
            "3000",
        ]));
        let script = Bpftrace::start(&tool, "pty-echo.bt", &[&program.pid().to_string()]);
        let truth: Value = program.work(WORK);
        let maps = script.stop();
        let index = truth["ptys"][0]["index"].to_string();
        assert_eq!(maps.number("@echoes", &index), Some(20));
        let rows = maps.hist("@echo_us", &index);
        assert_eq!(rows.iter().map(|r| r.2).sum::<u64>(), 20);
        let sum = maps.number("@echo_us_sum", &index).expect("a sum");
        assert!(
            sum >= 20 * 2900,
            "20 echoes that took 3 ms each, in {sum} µs"
        );
        program.finish();
    }
}

#[test]
fn runqlat_target_counts_every_wait() {
    let _alone = exclusive();
    for tool in tools() {
        let mut program =
            Program::start(Command::new(env!("CARGO_BIN_EXE_victim")).args(["--count", "150"]));
        let script = Bpftrace::start(&tool, "runqlat-target.bt", &[&program.pid().to_string()]);
        let truth: Value = program.work(WORK);
        let maps = script.stop();
        for (name, thread) in [("victim", &truth["victim"]), ("spinner", &truth["hog"])] {
            let key = format!("{name},{}", thread["tid"]);
            // The kernel counts a slice for every arrival on a CPU: each was a wait before.
            assert_eq!(
                maps.number("@waits", &key),
                thread["slices"].as_u64(),
                "{key}"
            );
            let rows = maps.hist("@wait_us", &key);
            assert_eq!(
                Some(rows.iter().map(|r| r.2).sum::<u64>()),
                thread["slices"].as_u64(),
                "{key}"
            );
            let sum = maps.number("@wait_ns_sum", &key).expect("a sum") as f64;
            // The kernel stamps arrival and departure a few µs from where the tracepoints stand.
            let delay = thread["run_delay_ns"].as_f64().expect("a number");
            let slack = delay * 0.1 + thread["slices"].as_f64().expect("a number") * 20_000.0;
            assert!(
                (sum - delay).abs() <= slack,
                "{key}: waited {sum} ns, the kernel says {delay}"
            );
        }
        // Who else shares the CPU is not in this test's hand; that the spinner is seen at all is.
        assert!(
            maps.number("@ran_before", "victim,spinner") > Some(0),
            "{maps:?}"
        );
        assert!(
            maps.0["@waits"]
                .as_object()
                .is_some_and(|m| m.keys().all(|k| !k.ends_with(",0")))
        );
        program.finish();
    }
}

#[test]
fn hop_latency_is_the_histogram_of_the_process() {
    let _alone = exclusive();
    for tool in tools() {
        let hops = example("phux-perf", "hops");
        let mut program = Program::start(Command::new(&hops).args([
            "--wait",
            "--count",
            "500",
            "--threads",
            "2",
        ]));
        let script = Bpftrace::start(&tool, "hop-latency.bt", &[&hops.display().to_string()]);
        let pid = program.pid();
        let truth: Value = program.work(WORK);
        let maps = script.stop();
        let probes = [
            ("pty.read.size", "pty__read__size"),
            ("pty.queue_wait", "pty__queue_wait"),
            ("pty.burst.chunks", "pty__burst__chunks"),
            ("vt_apply", "vt_apply"),
        ];
        for (metric, probe) in probes {
            let key = format!("{pid},usdt:{}:phux:{probe}", hops.display());
            let metrics = truth["metrics"].as_array().expect("metrics");
            let own = metrics
                .iter()
                .find(|m| m["name"] == metric)
                .expect("the metric");
            let value = &own["value"];
            assert_eq!(
                maps.number("@hits", &key),
                value["count"].as_u64(),
                "{key} {own}"
            );
            assert_eq!(
                maps.number("@value_sum", &key),
                value["sum"].as_u64(),
                "{key} {own}"
            );
            assert_eq!(
                maps.number("@value_max", &key),
                value["max"].as_u64(),
                "{key} {own}"
            );
        }
        program.finish();
    }
}

#[test]
fn hop_latency_counts_what_fired_at_each_of_many_sites() {
    let _alone = exclusive();
    for tool in tools() {
        let path = env!("CARGO_BIN_EXE_sdt-many");
        let mut program = Program::start(Command::new(path).args(["--hits", "25"]));
        let script = Bpftrace::start(&tool, "hop-latency.bt", &[path]);
        let pid = program.pid();
        let truth: Value = program.work(WORK);
        let maps = script.stop();
        for probe in truth["probes"].as_array().expect("probes") {
            // bpftrace raises one semaphore of many__own; the program says how many sites that was.
            let fired: Vec<u64> = serde_json::from_value(probe["fired"].clone()).expect("numbers");
            let name = probe["name"].as_str().expect("a name");
            let key = format!("{pid},usdt:{path}:phux:{name}");
            assert_eq!(
                maps.number("@hits", &key),
                Some(fired.iter().sum()),
                "{key}"
            );
            let samples = (0..).zip(fired).collect();
            assert_hist(&maps, "@value", &key, &samples);
        }
        program.finish();
    }
}
