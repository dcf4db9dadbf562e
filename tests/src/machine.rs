//! What a test needs of the machine: privileges, tools, and to be alone.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

/// In CI nothing is skipped: what is missing there is a failure.
fn skip(why: &str) -> bool {
    assert!(std::env::var_os("CI").is_none(), "CI must not skip: {why}");
    println!("skipped: {why}");
    false
}

/// True when the test may trace the kernel. Otherwise prints why it is skipped, or fails under `CI`.
#[must_use]
pub fn need_root() -> bool {
    rustix::process::geteuid().is_root() || skip("needs root (run it through scripts/test)")
}

/// True when program `name` is on the path. Otherwise prints a skip line, or fails under `CI`.
#[must_use]
pub fn need_tool(name: &str) -> bool {
    find_tool(name).is_some()
        || skip(&format!(
            "{name} is not installed (scripts/setup brings it)"
        ))
}

/// How many times slower than a real machine this one is: `PHUX_TEST_SLOWNESS`, or 1. Figures in
/// time have that much more room; counts have none.
pub fn slowness() -> u32 {
    std::env::var("PHUX_TEST_SLOWNESS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1)
}

/// Where program `name` is, `/usr/sbin` included, which an ordinary user's path lacks.
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into(), "/usr/bin".into()])
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
}

/// Held while a test measures or counts something that belongs to the whole machine.
#[derive(Debug)]
pub struct Exclusive(#[allow(dead_code)] File);

/// Waits until no other test holds the machine, across processes (cargo-nextest runs each test in
/// a process of its own). Released on drop, by the kernel if need be.
pub fn exclusive() -> Exclusive {
    let path = std::env::temp_dir().join("phux-trace-tests.lock");
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    flock(&file, FlockOperation::LockExclusive).expect("flock");
    Exclusive(file)
}

/// Standard output of a command that must succeed.
pub fn output_of(command: &mut Command) -> String {
    let out = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success(),
        "{command:?}: {}\n{text}{}",
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
    text
}
