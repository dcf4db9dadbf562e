//! What the whole-program tests share.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program under test.
pub(crate) fn phux_trace(args: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_phux-trace"))
        .args(args)
        .output();
    run.expect("phux-trace runs")
}

/// Standard output of a run that must succeed.
pub(crate) fn stdout(args: &[&str]) -> String {
    let out = phux_trace(args);
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{args:?}: {err}");
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// JSON lines.
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}")))
        .collect()
}

/// Asks again and again until there is an answer, for at most half a minute.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A child that is killed at the end of the test.
pub(crate) struct Helper(pub(crate) Child);

impl Helper {
    /// `script(1)`: runs `command` on a PTY of its own, of which it holds the master.
    pub(crate) fn script(command: &str) -> Self {
        let mut script = Command::new("script");
        script.args(["-qc", command, "/dev/null"]);
        script
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(script.spawn().expect("script(1) of util-linux"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command that must succeed; its output.
pub(crate) fn run(command: &mut Command) -> String {
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{command:?}: {err}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Whether a file that a test needs is there. In CI it has to be.
pub(crate) fn have(path: &Path, test: &str) -> bool {
    let there = path.exists();
    assert!(
        there || std::env::var_os("CI").is_none(),
        "{test} needs {}",
        path.display()
    );
    if !there {
        println!("{test}: skipped, needs {}", path.display());
    }
    there
}

/// Whether we are root, for a test that needs to be. In CI it has to be.
pub(crate) fn root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    assert!(
        root || std::env::var_os("CI").is_none(),
        "{test} needs root"
    );
    if !root {
        println!("{test}: skipped, needs root");
    }
    root
}
