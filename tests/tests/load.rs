//! Load, with nothing silently lost: the quick form of `scripts/bench/load`, which compares what a load
//! program did with what phux-trace tells of it and tells as lost.

use std::process::Command;
use std::time::Duration;

use phux_trace_tests::{Running, bin, exclusive, need_root, need_tool};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/bench/load");
const WORK: Duration = Duration::from_secs(300);

/// Runs these parts; every sum must be equal. What was printed.
fn load(parts: &[&str]) -> Option<Vec<String>> {
    if !need_root() || !need_tool("python3") {
        return None;
    }
    let _alone = exclusive();
    let programs = ["--trace", &bin("phux-trace").to_string_lossy()].map(str::to_owned);
    let ended = Running::start(
        Command::new(SCRIPT)
            .args(["--quick", "--load", env!("CARGO_BIN_EXE_load")])
            .args(programs)
            .args(parts),
    )
    .end(WORK);
    let table = ended.stdout.join("\n");
    assert!(ended.status.success(), "{table}\n{}", ended.stderr);
    println!("{table}");
    Some(ended.stdout)
}

/// Rows of the table that end in `yes`.
fn equal(rows: &[String], part: &str) -> usize {
    let of_part = |row: &&String| row.starts_with(&format!("| {part}")) && row.contains("| yes ");
    rows.iter().filter(of_part).count()
}

#[test]
fn threads_ptys_forks_execs_and_calls_are_told_to_the_last_one() {
    let Some(rows) = load(&["threads", "ptys", "forks", "execs", "calls"]) else {
        return;
    };
    for (part, sums) in [
        ("threads", 1),
        ("ptys", 4),
        ("forks", 1),
        ("execs", 1),
        ("calls", 2),
    ] {
        assert_eq!(equal(&rows, part), sums, "{part}");
    }
}

#[test]
fn keys_and_lines_are_told_to_the_last_one() {
    let Some(rows) = load(&["keys", "lines"]) else {
        return;
    };
    assert!(equal(&rows, "keys") >= 2, "keys");
    assert_eq!(equal(&rows, "lines"), 5, "lines");
}

/// A consumer that does not take anything for as long as the load lasts: all that the ring had no
/// room for is counted, to the last record.
#[test]
fn a_consumer_that_is_outrun_says_by_how_much() {
    let Some(rows) = load(&["stopped"]) else {
        return;
    };
    assert_eq!(equal(&rows, "stopped"), 5);
}

#[test]
fn all_at_once_every_loss_is_counted() {
    let Some(rows) = load(&["all"]) else {
        return;
    };
    assert_eq!(equal(&rows, "all"), 7);
}
