//! `attach` on programs with USDT probes: the outside view against the program's own.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::attach::{Attached, unskipped};
use phux_trace_tests::report::{Dist, dist_of};
use phux_trace_tests::truth::Program;
use phux_trace_tests::{example, exclusive, need_root};
use serde_json::Value;

const WORK: Duration = Duration::from_secs(120);

#[test]
fn each_hop_equals_the_histogram_of_the_process_bucket_for_bucket() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let ((pid, truth), report) = unskipped(|| {
        let mut program = Program::start(Command::new(example("phux-perf", "hops")).args([
            "--wait",
            "--count",
            "2000",
            "--threads",
            "3",
        ]));
        let pid = program.pid();
        let attached = Attached::to(pid);
        let truth: Value = program.work(WORK);
        // The program ends with its last word, and with it the run.
        let report = attached.end();
        program.finish();
        ((pid, truth), report)
    });
    report.assert_nothing_lost();
    let histograms: Vec<&Value> = truth["metrics"]
        .as_array()
        .expect("metrics")
        .iter()
        .filter(|m| m["kind"] == "histogram")
        .collect();
    assert_eq!(histograms.len(), 4, "{truth}");
    for metric in histograms {
        let name = metric["name"].as_str().expect("a name");
        let hop = report.hop(pid, &name.replace('.', "__"));
        let own: Dist = serde_json::from_value(metric["value"].clone()).expect("a histogram");
        assert!(own.count >= 6000, "{name}: {own:?}");
        assert_eq!(hop.value, own, "{name}");
        assert_eq!(hop.metric, name);
    }
}

#[test]
fn a_name_at_many_sites_is_attached_at_all_and_every_semaphore_is_raised() {
    if !need_root() {
        return;
    }
    let _alone = exclusive();
    let ((pid, truth), report) = unskipped(|| {
        let mut program =
            Program::start(Command::new(env!("CARGO_BIN_EXE_sdt-many")).args(["--hits", "100"]));
        let pid = program.pid();
        let attached = Attached::to(pid);
        let truth: Value = program.work(WORK);
        let report = attached.stop();
        program.finish();
        ((pid, truth), report)
    });
    report.assert_nothing_lost();
    let probes = truth["probes"].as_array().expect("probes");
    assert_eq!(probes.len(), 3);
    for probe in probes {
        let fired: Vec<u64> = serde_json::from_value(probe["fired"].clone()).expect("numbers");
        assert!(
            fired.iter().all(|n| *n == 100),
            "a semaphore was not raised: {probe}"
        );
        let hop = report.hop(pid, probe["name"].as_str().expect("a name"));
        assert_eq!(hop.sites as usize, fired.len(), "{hop:?}");
        // arg0 of each hit is the number of its site.
        let values = (0..fired.len() as u64).flat_map(|site| std::iter::repeat_n(site, 100));
        assert_eq!(hop.value, dist_of(values), "{hop:?}");
    }
    // After the tracer nothing is raised any more.
    let mut again = Program::start(Command::new(env!("CARGO_BIN_EXE_sdt-many")).arg("--hits=1"));
    let truth: Value = again.work(WORK);
    assert_eq!(
        truth["probes"][0]["fired"],
        serde_json::json!([0, 0, 0, 0, 0, 0, 0, 0])
    );
    again.finish();
}
