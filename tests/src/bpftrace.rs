//! Runs a script of `scripts/bpftrace/` and reads its maps.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::running::Running;
use crate::{procfs, wait_for};

/// The folder of the scripts.
pub const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/bpftrace");

/// A version of bpftrace: its program, and what comes before the arguments.
#[derive(Debug, Clone)]
pub struct Tool(Vec<String>);

impl Tool {
    /// The distribution's.
    pub fn installed() -> Tool {
        Tool(vec!["bpftrace".into()])
    }

    /// The newest that Debian has, run beside the system with libraries of its own; `None`, with a
    /// line that says so, where it is out of reach.
    pub fn newest() -> Option<Tool> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/vm/unpacked");
        let out = Command::new(script).arg("bpftrace").output().ok()?;
        let root = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        if !out.status.success() || !cfg!(target_arch = "x86_64") {
            let said = String::from_utf8_lossy(&out.stderr);
            println!("the newest bpftrace is not tested: {said}");
            return None;
        }
        Some(Tool(vec![
            format!("{root}/lib64/ld-linux-x86-64.so.2"),
            "--library-path".into(),
            format!("{root}/usr/lib/x86_64-linux-gnu"),
            format!("{root}/usr/bin/bpftrace"),
        ]))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]);
        command
    }
}

/// A bpftrace that has attached everything.
#[derive(Debug)]
pub struct Bpftrace(Running);

impl Bpftrace {
    /// Starts script `name` with its arguments and waits until it is attached.
    pub fn start(tool: &Tool, name: &str, args: &[&str]) -> Bpftrace {
        let script = Path::new(SCRIPTS).join(name);
        let mut command = tool.command();
        let mut running = Running::start(command.args(["-f", "json"]).arg(script).args(args));
        let line = running.line(Duration::from_secs(60));
        assert!(line.contains("attached_probes"), "{name}: {line}");
        // That line comes before it attaches; when it polls its ring, it has.
        let pid = running.pid();
        #[cfg(target_arch = "x86_64")]
        let polls = || procfs::waits_in(pid, libc::SYS_epoll_wait).then_some(());
        #[cfg(not(target_arch = "x86_64"))]
        let polls = || procfs::waits_in(pid, libc::SYS_epoll_pwait).then_some(());
        wait_for(Duration::from_secs(60), polls).unwrap_or_else(|| panic!("{name}: never polls"));
        Bpftrace(running)
    }

    /// Ends it as Ctrl-C does; gives its maps.
    pub fn stop(self) -> Maps {
        self.0.signal(Signal::INT);
        let ended = self.0.end(Duration::from_secs(30));
        assert!(ended.status.success(), "{}\n{}", ended.status, ended.stderr);
        let mut maps = Maps(BTreeMap::new());
        for line in ended.stdout.iter().filter(|l| !l.trim().is_empty()) {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            if let Some(data) = line["data"].as_object() {
                maps.0.extend(data.clone());
            }
        }
        maps
    }
}

/// What a script had in its maps at its end, by name.
#[derive(Debug)]
pub struct Maps(pub BTreeMap<String, Value>);

impl Maps {
    /// A number: of map `name` at `key`, where keys of several parts are joined by commas.
    pub fn number(&self, name: &str, key: &str) -> Option<u64> {
        self.0.get(name)?[key].as_u64()
    }

    /// A histogram: (smallest, largest, count) of each row.
    pub fn hist(&self, name: &str, key: &str) -> Vec<(u64, u64, u64)> {
        let rows = self
            .0
            .get(name)
            .and_then(|m| m[key].as_array())
            .cloned()
            .unwrap_or_default();
        rows.iter()
            // The first row of a histogram with zeros has `max` only, as older versions print it.
            .map(|r| {
                (
                    r["min"].as_u64().unwrap_or(0),
                    r["max"].as_u64().unwrap_or(u64::MAX),
                    r["count"].as_u64().unwrap_or(0),
                )
            })
            .collect()
    }
}
