//! Runs `phux-trace attach --json`, as any outside program would.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::bins::bin;
use crate::machine::slowness;
use crate::report::Summed;
use crate::running::{Ended, Running};

/// Long beside any test, short beside a stuck CI.
const TIME_LIMIT: &str = "180s";

/// Runs that may be repeated for one that counted everything.
const RUNS: u32 = 6;

/// A run in which the kernel skipped none of our programs. A kernel that preempts programs (7.3)
/// skips one now and then where every instruction is emulated, and the report tells it as `missed`;
/// no count of that run can be exact, so the same is done once more. On a real machine the first
/// run stands, whatever it lost.
pub fn unskipped<T>(run: impl FnMut() -> (T, Summed)) -> (T, Summed) {
    unskipped_by(run, |(_, report)| report.losses.contains_key("missed"))
}

/// The same of any run that knows whether a program was skipped.
pub fn unskipped_by<T>(mut run: impl FnMut() -> T, skipped: impl Fn(&T) -> bool) -> T {
    for _ in 1..RUNS {
        let told = run();
        if slowness() == 1 || !skipped(&told) {
            return told;
        }
        println!("once more: the kernel skipped a program");
    }
    run()
}

/// An `attach` that measures.
#[derive(Debug)]
pub struct Attached {
    running: Running,
    first: String,
    /// Of the report that is being told.
    lines: Vec<Value>,
}

impl Attached {
    /// Attaches to process `pid` and waits until it measures.
    pub fn to(pid: u32) -> Attached {
        Attached::with(&["-p", &pid.to_string()])
    }

    /// Attaches to process `pid` for the figures that are summed in the kernel. To follow each event of
    /// the target as well is a load of its own on two CPUs, which changes what is measured.
    pub fn for_sums(pid: u32) -> Attached {
        Attached::with(&["-p", &pid.to_string(), "--no-echoes"])
    }

    /// Attaches with these arguments and waits until it measures: it reports each half second, and
    /// the first report is the proof that every probe is in place.
    pub fn with(args: &[&str]) -> Attached {
        let mut running = Attached::start(args);
        let first = running.line(Duration::from_secs(60));
        Attached {
            running,
            first,
            lines: Vec::new(),
        }
    }

    /// Attaches to process `pid` as where the kernel refuses these (names of `PHUX_TRACE_WITHOUT`).
    pub fn without(refused: &str, pid: u32) -> Attached {
        let mut command = Attached::command(&["-p", &pid.to_string()]);
        let mut running = Running::start(command.env("PHUX_TRACE_WITHOUT", refused));
        let first = running.line(Duration::from_secs(60));
        Attached {
            running,
            first,
            lines: Vec::new(),
        }
    }

    /// Starts it without waiting, for runs that shall fail.
    pub fn start(args: &[&str]) -> Running {
        Running::start(&mut Attached::command(args))
    }

    /// The same as where the kernel refuses these (names of `PHUX_TRACE_WITHOUT`).
    pub fn start_without(args: &[&str], refused: &str) -> Running {
        Running::start(Attached::command(args).env("PHUX_TRACE_WITHOUT", refused))
    }

    fn command(args: &[&str]) -> Command {
        let mut command = Command::new(bin("phux-trace"));
        command
            .args(["attach", "--json", "--interval", "500ms", "-d", TIME_LIMIT])
            // What is to be counted in full must not be thinned: these builds are not optimised, and
            // cost many times more. The budget has tests of its own (attach_budget).
            .args(["--budget", "off"])
            .args(args);
        command
    }

    /// Waits for the next report of an interval; those that came before are gone.
    pub fn next_report(&mut self, within: Duration) -> Vec<Value> {
        while self.report_so_far().is_some() {}
        let end = Instant::now() + within;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.running.line(left);
            if let Some(report) = self.take(&line) {
                return report;
            }
        }
    }

    /// The lines of an interval's report, the verdict last, if one has been told that was not taken yet.
    pub fn report_so_far(&mut self) -> Option<Vec<Value>> {
        loop {
            let line = self.running.try_line(Duration::ZERO)?;
            if let Some(report) = self.take(&line) {
                return Some(report);
            }
        }
    }

    /// Keeps a line; gives all of a report with its last.
    fn take(&mut self, line: &str) -> Option<Vec<Value>> {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let last = value["type"] == "verdict";
        self.lines.push(value);
        last.then(|| std::mem::take(&mut self.lines))
    }

    /// Process id of phux-trace.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Ends it as Ctrl-C does; it must end well, and soon.
    pub fn stop(self) -> Summed {
        self.signal(Signal::INT);
        self.end()
    }

    /// Waits for it to end by itself, because its target has.
    pub fn end(self) -> Summed {
        let (ended, first) = self.ended();
        assert!(ended.status.success(), "{}\n{}", ended.status, ended.stderr);
        Summed::read(
            [first.as_str()]
                .into_iter()
                .chain(ended.stdout.iter().map(String::as_str)),
        )
    }

    /// Waits for its end; gives that, and the line that was taken first.
    pub fn ended(self) -> (Ended, String) {
        (self.running.end(Duration::from_secs(60)), self.first)
    }

    /// Sends phux-trace a signal.
    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }
}
