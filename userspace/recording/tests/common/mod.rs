//! What several tests of this crate need.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use phux_recording::*;

/// A recording's row, of a fixed moment.
pub(crate) fn run() -> Run {
    Run {
        ts: 1_000_000,
        hostname: "testhost".into(),
        kernel: "6.18.0".into(),
        version: "0.1.0".into(),
        cpus: 2,
        unix_ns: 1_773_396_000_000_000_000,
        target: "tmux".into(),
        ..Run::default()
    }
}

/// Small row groups: what takes a million rows in earnest takes some thousands in a test.
pub(crate) fn small() -> Options {
    Options {
        row_group: 2_000,
        sync: false,
        ..Options::default()
    }
}

/// SplitMix64's mixing step: looks like chance, and is the same each time.
fn mix(i: u64) -> u64 {
    let z = (i ^ (i >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
}

/// A call whose every field is different; it takes some 20 bytes in Parquet.
pub(crate) fn call(i: u64) -> Syscall {
    Syscall {
        ts: 1_000_000 + i * 1_000,
        dur: mix(i),
        gap: mix(i + 1),
        tid: 2_000 + (i % 10) as u32,
        pid: 1_000 + (i % 10) as u32,
        comm: format!("worker-{}", i % 10).into(),
        name: Name::fixed("read"),
        family: Name::fixed("fs"),
        io_uring: i.is_multiple_of(7),
        cpu: (i % 2) as u16,
        fd: (i % 100) as i32 - 1,
        ret: i as i64 - 5,
        errno: (i % 3) as u16,
        bytes: i * 3,
        runq_ns: i % 11,
        blocked_ns: i % 13,
        path: format!("/tmp/file-{}", i % 50).into(),
        timeout_ns: -1,
        epoll_target_fd: -1,
        ..Syscall::default()
    }
}

/// All files below a folder, by path, links not followed.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                todo.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Waits until it is so.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
