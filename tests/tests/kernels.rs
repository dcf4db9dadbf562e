//! The whole-program tests on other kernels, each in a virtual machine: see `scripts/vm-matrix`.

use std::process::Command;

use phux_trace_tests::bins::profile_dir;
use phux_trace_tests::{exclusive, need_tool};

/// Too old, the oldest that shall work, one between, and the newest that Debian has; scheduling on
/// one CPU in counted time. DTrace and the series between run in the whole matrix only.
const RUNS: [&str; 5] = ["6.1", "6.12", "newest", "5.10", "scenarios"];

#[test]
fn every_kernel_does_the_same_or_says_that_it_is_too_old() {
    if !need_tool("qemu-system-x86_64") {
        return;
    }
    let _alone = exclusive();
    let target = profile_dir();
    let out = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/vm-matrix"))
        .args(RUNS)
        // The programs that were built for this very test.
        .env(
            "CARGO_TARGET_DIR",
            target.parent().expect("a profile has a folder"),
        )
        .output()
        .expect("scripts/vm-matrix");
    let table = String::from_utf8_lossy(&out.stdout);
    let said = String::from_utf8_lossy(&out.stderr);
    println!("{table}{said}");
    assert!(out.status.success(), "{}", out.status);
    // Debian lets go of a series some day; of what is left, one must have proved something.
    for set in ["best/", "scenarios/"] {
        let proved = table
            .lines()
            .any(|l| l.starts_with(set) && l.contains(" ok"));
        assert!(proved, "no kernel was new enough for {set}");
    }
}
