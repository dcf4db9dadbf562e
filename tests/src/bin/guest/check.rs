//! Checks and how they are told.

use std::io;
use std::process::Output;
use std::time::Instant;

use serde_json::Value;

/// What came out so far.
pub(crate) struct Checks {
    well: bool,
    since: Instant,
}

impl Checks {
    pub(crate) fn new() -> Checks {
        Checks {
            well: true,
            since: Instant::now(),
        }
    }

    /// Nothing failed.
    pub(crate) fn well(&self) -> bool {
        self.well
    }

    /// Tells one check, with the time since the one before; `why` is printed when it failed.
    pub(crate) fn tell(&mut self, name: &str, ok: bool, why: &str) {
        self.well &= ok;
        if !ok {
            println!("{why}");
        }
        let verdict = if ok { "ok" } else { "FAIL" };
        let seconds = self.since.elapsed().as_secs_f32();
        println!("CHECK {name} {verdict} {seconds:.1}");
        self.since = Instant::now();
    }
}

/// Release of the running kernel.
pub(crate) fn release() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/osrelease")?
        .trim()
        .to_owned())
}

/// Its standard output, where each line is an object.
pub(crate) fn rows(out: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// All that a process said, and how it ended.
pub(crate) fn told(out: &Output) -> String {
    format!(
        "{}\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    )
}
