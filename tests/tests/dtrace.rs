//! Every script of `scripts/dtrace/`, and every one-liner that `phux-trace probes` prints, under
//! DTrace itself, against live programs whose counts are known: the guests of
//! `scripts/vm-matrix dtrace`, where it is to be had.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use phux_trace_tests::dtrace::{Dtrace, Printed, SCRIPTS, row_of};
use phux_trace_tests::machine::output_of;
use phux_trace_tests::muxers::Phux;
use phux_trace_tests::truth::Program;
use phux_trace_tests::{bin, example};
use serde_json::Value;

const WORK: Duration = Duration::from_secs(120);

/// Checks a quantize() of known samples (value → count).
fn assert_quantized(printed: &Printed, title: &str, samples: impl IntoIterator<Item = (u64, u64)>) {
    let mut rows = BTreeMap::new();
    for (value, count) in samples {
        *rows.entry(row_of(value)).or_insert(0) += count;
    }
    assert_eq!(printed.quantized(title), rows, "{title:?} in {printed:#?}");
}

fn sizes(calls: &Value) -> BTreeMap<u64, u64> {
    serde_json::from_value(calls["sizes"].clone()).expect("sizes")
}

/// The smallest value of a bucket of the process's own histograms.
fn bucket_bottom(idx: u64) -> u64 {
    if idx < 32 {
        return idx;
    }
    let exponent = (idx - 32) / 8 + 5;
    (1 << exponent) + ((idx - 32) % 8) * (1 << (exponent - 3))
}

/// The samples of a histogram of the process; a bucket lies within one row of quantize().
fn samples(histogram: &Value) -> Vec<(u64, u64)> {
    let buckets = histogram["buckets"].as_array().expect("buckets");
    let number = |v: &Value| v.as_u64().expect("a number");
    buckets
        .iter()
        .map(|b| (bucket_bottom(number(&b["idx"])), number(&b["count"])))
        .collect()
}

/// The histograms of a report, by metric.
fn histograms(report: &Value) -> BTreeMap<String, Value> {
    let metrics = report["metrics"].as_array().expect("metrics");
    metrics
        .iter()
        .filter(|m| m["kind"] == "histogram")
        .map(|m| (m["name"].to_string().replace('"', ""), m["value"].clone()))
        .collect()
}

/// Name of a metric's probe, as DTrace has it: two underscores are a minus.
fn probe_of(metric: &str) -> String {
    metric.replace('.', "-")
}

fn hops(count: &str) -> Program {
    let program = example("phux-perf", "hops");
    Program::start(Command::new(program).args(["--wait", "--count", count, "--threads", "2"]))
}

#[test]
#[ignore = "in a guest: scripts/vm-matrix dtrace"]
fn every_script_has_a_test_here() {
    let mut scripts: Vec<_> = std::fs::read_dir(SCRIPTS)
        .expect("scripts")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    scripts.sort();
    let tested = [
        "hop-latency.d",
        "pty-echo.d",
        "pty-read-size.d",
        "runqlat-target.d",
    ];
    assert_eq!(scripts, tested);
}

#[test]
#[ignore = "in a guest: scripts/vm-matrix dtrace"]
fn hop_latency_is_the_histogram_of_the_process() {
    let mut program = hops("200");
    let dtrace = Dtrace::script("hop-latency.d", program.pid());
    let truth: Value = program.work(WORK);
    let printed = dtrace.stop();
    program.finish();
    let all = histograms(&truth);
    assert_eq!(all.len(), 4, "{truth}");
    for (metric, own) in all {
        let probe = probe_of(&metric);
        let number = |what: &str| printed.number(&format!("{probe}: {what}"));
        assert_eq!(
            number("hits"),
            own["count"].as_u64(),
            "{probe}: {printed:#?}"
        );
        assert_eq!(number("sum"), own["sum"].as_u64(), "{probe}: {printed:#?}");
        assert_quantized(&printed, &probe, samples(&own));
    }
}

/// What a phux server measured since `before`, by metric: number and sum.
fn since(before: &Value, after: &Value) -> BTreeMap<String, (u64, u64)> {
    let (before, after) = (histograms(before), histograms(after));
    let part = |of: Option<&Value>, field: &str| of.map_or(0, |v| v[field].as_u64().unwrap_or(0));
    after
        .iter()
        .map(|(metric, now)| {
            let of = |field| part(Some(now), field) - part(before.get(metric), field);
            (metric.clone(), (of("count"), of("sum")))
        })
        .collect()
}

#[test]
#[ignore = "in a guest: scripts/vm-matrix dtrace"]
fn hop_latency_of_phux_is_what_phux_says() {
    let phux = Phux::start("echo ready; stty -icanon; exec cat", "ready");
    let dtrace = Dtrace::script("hop-latency.d", phux.server());
    let before = phux.perf();
    for letter in "abcdefghij".chars() {
        phux.type_text(&letter.to_string());
        phux.wait_for_text(&letter.to_string());
    }
    let after = phux.perf();
    let printed = dtrace.stop();
    let own = since(&before, &after);
    // Each key passes each of these at least once, and nothing else does.
    for metric in [
        "input.pty_write",
        "pty.read.size",
        "pty.queue_wait",
        "pty.vt_apply",
    ] {
        let (count, sum) = own[metric];
        let probe = probe_of(metric);
        assert!(count >= 10, "{metric}: {own:?}");
        assert_eq!(
            printed.number(&format!("{probe}: hits")),
            Some(count),
            "{printed:#?}"
        );
        assert_eq!(
            printed.number(&format!("{probe}: sum")),
            Some(sum),
            "{printed:#?}"
        );
    }
}

#[test]
#[ignore = "in a guest: scripts/vm-matrix dtrace"]
fn pty_read_size_counts_every_read_of_the_master() {
    let options = [
        "--sizes",
        "1,64,65,1000",
        "--input-sizes",
        "1",
        "--rounds",
        "3",
    ];
    let mut program = Program::start(Command::new(bin("pty-sizes")).args(options).args([
        "--reader",
        "nonblocking",
        "--alternate",
    ]));
    let dtrace = Dtrace::script("pty-read-size.d", program.pid());
    let truth: Value = program.work(WORK);
    let printed = dtrace.stop();
    program.finish();
    let reads = &truth["ptys"][0]["master"]["reads"];
    assert_eq!(
        printed.number("reads"),
        reads["count"].as_u64(),
        "{printed:#?}"
    );
    assert_eq!(
        printed.number("bytes"),
        reads["bytes"].as_u64(),
        "{printed:#?}"
    );
    assert_eq!(
        printed.number("empty"),
        reads["empty"].as_u64(),
        "{printed:#?}"
    );
    assert_quantized(&printed, "bytes per read", sizes(reads));
}

#[test]
#[ignore = "in a guest: scripts/vm-matrix dtrace"]
fn pty_echo_measures_each_keystroke_with_an_answer() {
    // Each is answered by the child's next write, 3 ms later; the last has no answer.
    let options = [
        "--sizes",
        "1",
        "--input-sizes",
        "1",
        "--rounds",
        "21",
        "--gap-us",
        "3000",
    ];
    let mut program = Program::start(Command::new(bin("pty-sizes")).args(options));
    let dtrace = Dtrace::script("pty-echo.d", program.pid());
    let _: Value = program.work(WORK);
    let printed = dtrace.stop();
    program.finish();
    let line = printed.0.iter().find(|l| l.contains(": echoes "));
    let fd = line
        .and_then(|l| l.split(':').next())
        .expect("a descriptor");
    assert_eq!(
        printed.number(&format!("{fd}: echoes")),
        Some(20),
        "{printed:#?}"
    );
    let rows = printed.quantized(&format!("{fd}: echo, us"));
    assert_eq!(rows.values().sum::<u64>(), 20, "{printed:#?}");
    assert!(
        rows.keys().all(|us| *us >= 2048),
        "each took 3 ms: {rows:?}"
    );
}

#[test]
#[ignore = "in a guest: scripts/vm-matrix dtrace"]
fn runqlat_target_counts_every_wait() {
    let mut program = Program::start(Command::new(bin("victim")).args(["--count", "50"]));
    let dtrace = Dtrace::script("runqlat-target.d", program.pid());
    let truth: Value = program.work(WORK);
    let printed = dtrace.stop();
    program.finish();
    let victim = &truth["victim"];
    let tid = format!("thread {}", victim["tid"]);
    let waits = printed
        .number(&format!("{tid}: waits"))
        .expect("the victim's");
    // The kernel counts a slice for every arrival on a CPU, and no wait of a thread that is
    // preempted on its way to sleep. After its work is counted the victim sleeps once more.
    let slices = victim["slices"].as_u64().expect("a number");
    let involuntary = victim["involuntary"].as_u64().expect("a number");
    assert!(
        (slices..=slices + involuntary + 2).contains(&waits),
        "{waits} waits of {victim}: {printed:#?}"
    );
    let rows = printed.quantized(&format!("{tid}: wait, us"));
    assert_eq!(rows.values().sum::<u64>(), waits, "{printed:#?}");
}

#[test]
#[ignore = "in a guest: scripts/vm-matrix dtrace"]
fn each_line_that_probes_prints_counts_what_the_process_counts() {
    let path = example("phux-perf", "hops");
    let told = output_of(Command::new(bin("phux-trace")).arg("probes").arg(&path));
    let lines: Vec<&str> = told
        .lines()
        .filter_map(|l| l.trim().strip_prefix("dtrace -p PID -n "))
        .map(|program| program.trim_matches('\''))
        .collect();
    assert_eq!(lines.len(), 4, "{told}");
    // All in one DTrace, which starts slowly: there they share the aggregation that has no name.
    let mut program = hops("100");
    let pid = program.pid().to_string();
    let arguments: Vec<&str> = ["-p", &pid]
        .into_iter()
        .chain(lines.iter().flat_map(|text| ["-n", text]))
        .collect();
    let dtrace = Dtrace::start(&arguments);
    let truth: Value = program.work(WORK);
    let printed = dtrace.stop();
    program.finish();
    let all = histograms(&truth);
    for metric in all.keys() {
        let probe = format!(":::{} ", probe_of(metric));
        assert!(told.contains(&probe), "no line for {metric}: {told}");
    }
    assert_quantized(&printed, "", all.values().flat_map(samples));
}
