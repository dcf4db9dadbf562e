//! Runs `phux-trace echo --json`, and what it says of each echo.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde::Deserialize;
use serde_json::Value;

use crate::bins::bin;
use crate::running::Running;
use crate::terminal::{Terminal, median};

const SOON: Duration = Duration::from_secs(60);

/// An `echo` that follows.
#[derive(Debug)]
pub struct Echoes(Running);

/// All that it said.
#[derive(Debug)]
pub struct Followed {
    /// Each echo, in the order of their ends.
    pub chains: Vec<ChainLine>,
    /// The line at the end.
    pub counts: Value,
}

/// One line of `echo --json`, as an outside reader sees it.
#[derive(Debug, Clone, Deserialize)]
pub struct ChainLine {
    /// Bytes of input.
    pub bytes: u64,
    /// From the first link's begin to the last one's end, ns.
    pub length_ns: u64,
    /// How it ended.
    pub end: String,
    /// Something had to be concluded by time alone.
    pub inexact: bool,
    /// Whether a phux's hops tell the same.
    pub confirmed: Option<bool>,
    /// In order.
    pub links: Vec<LinkLine>,
    /// When it began, ns since the Unix epoch.
    pub unix_ns: u64,
    /// N of the pane's `/dev/pts/N`.
    pub index: u32,
}

/// One link of it.
#[derive(Debug, Clone, Deserialize)]
pub struct LinkLine {
    /// Which.
    pub link: String,
    /// Who had it.
    pub actor: ActorLine,
    /// Begin, ns after the chain's.
    pub from_ns: u64,
    /// Its length, ns.
    pub length_ns: u64,
    /// Where the time went, ns by kind.
    pub parts: BTreeMap<String, u64>,
}

/// Who had a link.
#[derive(Debug, Clone, Deserialize)]
pub struct ActorLine {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The thread's name.
    pub name: String,
}

impl ChainLine {
    /// Time in all links of this kind, ns.
    pub fn link_ns(&self, link: &str) -> u64 {
        let of_kind = self.links.iter().filter(|l| l.link == link);
        of_kind.map(|l| l.length_ns).sum()
    }

    /// Its longest kind of link.
    pub fn longest(&self) -> &str {
        let kinds = self.links.iter().map(|l| l.link.as_str());
        kinds
            .max_by_key(|kind| self.link_ns(kind))
            .unwrap_or_default()
    }

    /// Panics unless the links follow each other without a gap and sum to the whole, and so do the parts.
    pub fn assert_sums(&self) {
        let mut at = 0;
        for link in &self.links {
            assert_eq!(link.from_ns, at, "a gap or an overlap: {self:?}");
            assert_eq!(
                link.parts.values().sum::<u64>(),
                link.length_ns,
                "parts of {link:?}"
            );
            at += link.length_ns;
        }
        assert_eq!(at, self.length_ns, "{self:?}");
    }
}

impl Echoes {
    /// Follows process `pid`, at whose `terminal` keys are typed until one of them is told of.
    pub fn of(pid: u32, terminal: &mut Terminal) -> Echoes {
        let mut command = Command::new(bin("phux-trace"));
        command.args(["echo", "--json", "-p", &pid.to_string()]);
        let mut running = Running::start(&mut command);
        let until = std::time::Instant::now() + SOON;
        while std::time::Instant::now() < until {
            terminal.key(b'x');
            if running.try_line(Duration::from_millis(300)).is_some() {
                return Echoes(running);
            }
        }
        panic!("{command:?} told of no echo");
    }

    /// Ends it as Ctrl-C does.
    pub fn stop(self) -> Followed {
        self.0.signal(Signal::INT);
        let ended = self.0.end(SOON);
        assert!(ended.status.success(), "{}\n{}", ended.status, ended.stderr);
        let mut followed = Followed {
            chains: Vec::new(),
            counts: Value::Null,
        };
        for line in &ended.stdout {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            match value["type"].as_str() {
                Some("echo") => followed
                    .chains
                    .push(serde_json::from_value(value).unwrap_or_else(|e| panic!("{e}: {line}"))),
                Some("echo_counts") => followed.counts = value,
                _ => panic!("{line}"),
            }
        }
        followed
    }
}

impl Followed {
    /// Those whose answer came.
    pub fn echoed(&self) -> Vec<&ChainLine> {
        self.chains.iter().filter(|c| c.end == "echoed").collect()
    }

    /// Median time in links of this kind, ns.
    pub fn typical_ns(&self, link: &str) -> u64 {
        median(self.echoed().iter().map(|c| c.link_ns(link)))
    }
}
