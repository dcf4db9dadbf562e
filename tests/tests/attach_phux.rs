//! `attach` on phux: its hops from outside, beside its own histograms from inside.

use phux_trace_tests::attach::Attached;
use phux_trace_tests::muxers::Phux;
use phux_trace_tests::report::Pty;
use phux_trace_tests::{exclusive, need_root, need_tool};

/// What each letter makes phux do, whoever counts it.
const PER_KEY: [&str; 4] = [
    "input.pty_write",
    "pty.read.size",
    "pty.queue_wait",
    "pty.vt_apply",
];

#[test]
fn both_views_of_phux_agree() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let phux = Phux::start("echo ready; stty -icanon; exec cat", "ready");
    let pids = [phux.server().to_string(), phux.client().to_string()];
    let attached = Attached::to(phux.server());
    for letter in "abcdefghijklmnopqrst".chars() {
        phux.type_text(&letter.to_string());
        phux.wait_for_text(&letter.to_string());
    }
    let report = attached.stop();
    report.assert_nothing_lost();

    // The kernel side knows the PTY, whose keys and echoes have one byte each.
    let pty = report
        .ptys
        .values()
        .find(|p| Pty::held_by(&p.master, phux.server()))
        .expect("the pane");
    assert_eq!(pty.master_writes.size.sum, 20, "{pids:?}: {pty:?}");
    assert!(pty.flush_input.wait.count >= 20, "{pty:?}");

    let inside = report.in_process(phux.server());
    assert_eq!(inside["role"], "server", "{inside}");
    let rows = inside["rows"].as_array().expect("rows");
    let row = |metric: &str| {
        rows.iter()
            .find(|r| r["metric"] == metric)
            .unwrap_or_else(|| panic!("no {metric} in {inside}"))
    };
    for metric in PER_KEY {
        let row = row(metric);
        // The terminal is quiet when each view is read, so they must be the same, bucket for bucket.
        assert_eq!(row["inside"]["buckets"], row["outside"]["buckets"], "{row}");
        assert_eq!(row["differing"], 0, "{row}");
        assert!(row["inside"]["count"].as_u64() >= Some(20), "{row}");
    }
    // Units are the process's own, and stand at the hops too.
    assert_eq!(row("pty.read.size")["unit"], "bytes");
    let hop = report.hop(phux.server(), "pty__read__size");
    assert_eq!(hop.unit.as_deref(), Some("bytes"));
    assert!(hop.value.count >= 20, "{hop:?}");
}

#[test]
fn without_a_target_phux_is_found() {
    if !need_root() || !need_tool("tmux") {
        return;
    }
    let _alone = exclusive();
    let phux = Phux::start("echo ready; exec cat", "ready");
    let report = Attached::with(&[]).stop();
    let pids: Vec<u64> = report
        .processes()
        .iter()
        .filter(|p| p["relation"] == "target")
        .filter_map(|p| p["pid"].as_u64())
        .collect();
    for pid in [phux.server(), phux.client()] {
        assert!(
            pids.contains(&u64::from(pid)),
            "{pid} is not among {pids:?}"
        );
    }
}
