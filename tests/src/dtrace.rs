//! Runs DTrace (the tracer of Oracle's, not the header generator of systemtap's) on a process, and
//! reads what its aggregations print.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::running::Running;

/// Where the scripts are in a guest: see `scripts/vm/root`.
pub const SCRIPTS: &str = "/guest/scripts";

/// It reads all that the kernel has of types and symbols, where each instruction is emulated.
const ATTACHES: Duration = Duration::from_secs(400);
const ENDS: Duration = Duration::from_secs(400);

/// A DTrace that has enabled its probes.
#[derive(Debug)]
pub struct Dtrace(Running);

impl Dtrace {
    /// Runs script `name` of [`SCRIPTS`] on process `pid`.
    pub fn script(name: &str, pid: u32) -> Dtrace {
        let pid = pid.to_string();
        Dtrace::start(&["-p", &pid, "-s", &format!("{SCRIPTS}/{name}")])
    }

    /// Runs `dtrace` with these arguments, and waits until it traces.
    pub fn start(args: &[&str]) -> Dtrace {
        // Nothing else tells that it does.
        let ready = ["-n", "BEGIN { printf(\"attached\\n\"); }"];
        let mut running = Running::start(Command::new("dtrace").args(args).args(ready));
        while !running.line(ATTACHES).contains("attached") {}
        Dtrace(running)
    }

    /// Ends it as Ctrl-C does; gives what it printed.
    pub fn stop(self) -> Printed {
        self.0.signal(Signal::INT);
        let ended = self.0.end(ENDS);
        assert!(ended.status.success(), "{}\n{}", ended.status, ended.stderr);
        // What it could not count it tells: "3 drops on CPU 0".
        assert!(!ended.stderr.contains("drop"), "{}", ended.stderr);
        Printed(ended.stdout)
    }
}

/// What DTrace printed, by line.
#[derive(Debug)]
pub struct Printed(pub Vec<String>);

impl Printed {
    /// The number after `what`: 12 of `reads 12`.
    pub fn number(&self, what: &str) -> Option<u64> {
        self.0
            .iter()
            .find_map(|line| line.trim().strip_prefix(what)?.trim().parse().ok())
    }

    /// The quantize() after the line `title`, or the only one where that is empty: smallest value of
    /// a row → count, without the rows that have none.
    pub fn quantized(&self, title: &str) -> BTreeMap<i64, u64> {
        let from = match title {
            "" => Some(0),
            _ => self.0.iter().position(|line| line.trim() == title),
        };
        self.0
            .iter()
            .skip(from.unwrap_or(self.0.len()))
            .skip_while(|line| !line.contains("Distribution"))
            .skip(1)
            .map_while(|line| {
                let (value, rest) = line.split_once('|')?;
                let count = rest.split_whitespace().last()?;
                Some((value.trim().parse().ok()?, count.parse().ok()?))
            })
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}

/// The row of quantize() that a value falls into: the power of two at or below it.
pub fn row_of(value: u64) -> i64 {
    if value == 0 { 0 } else { 1 << value.ilog2() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregations_are_read() {
        let text = "a: hits 7\n\nb\n  value  ------------- Distribution ------------- count\n\
                    \x20    0 |                                         0\n\
                    \x20    1 |@@@@@                                    3\n\
                    \x20    2 |                                         0\n\
                    \x20    4 |@@@@@@@                                  4\n\nc\n";
        let printed = Printed(text.lines().map(str::to_owned).collect());
        assert_eq!(printed.number("a: hits"), Some(7));
        assert_eq!(printed.number("x"), None);
        assert_eq!(printed.quantized("b"), BTreeMap::from([(1, 3), (4, 4)]));
        assert_eq!(printed.quantized(""), BTreeMap::from([(1, 3), (4, 4)]));
        assert!(printed.quantized("c").is_empty());
        assert_eq!((row_of(0), row_of(1), row_of(7)), (0, 1, 4));
    }
}
