//! Runs `phux-trace echo --json`, and holds its chains against what the typist saw.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::bins::bin;
use crate::running::Running;
use crate::terminal::median;

/// Long beside any test, short beside a stuck CI.
const TIME_LIMIT: &str = "120s";

/// A key as the typist tells it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Key {
    /// N of /dev/pts/N.
    pub pty: u32,
    /// CLOCK_MONOTONIC before the write, ns.
    pub sent_ns: u64,
    /// After the write.
    pub written_ns: u64,
    /// When the read that held the echo had returned; 0: none came.
    pub seen_ns: u64,
}

/// What the typist says.
#[derive(Debug, Deserialize)]
pub struct Typed {
    /// Every key.
    pub keys: Vec<Key>,
    /// Keys that had to wait for the echo of the one before.
    pub late: u64,
}

/// A `chain` line.
#[derive(Debug, Clone, Deserialize)]
pub struct Echo {
    /// Counts up from 1.
    pub id: u64,
    /// ns since the Unix epoch.
    pub unix_ns: u64,
    /// The pane's number.
    pub index: u32,
    /// Bytes typed.
    pub bytes: u64,
    /// ns.
    pub length_ns: u64,
    /// How it ended.
    pub end: String,
    /// What phux's own hops say.
    pub confirmed: Option<bool>,
    /// Concluded from time alone.
    pub inexact: bool,
    /// The links.
    pub links: Vec<Link>,
}

/// A link of an [`Echo`].
#[derive(Debug, Clone, Deserialize)]
pub struct Link {
    /// Which.
    pub link: String,
    /// Who had it.
    pub actor: Actor,
    /// ns.
    pub length_ns: u64,
    /// Name → ns; they sum to the length.
    pub parts: BTreeMap<String, u64>,
}

/// Who had a link.
#[derive(Debug, Clone, Deserialize)]
pub struct Actor {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// A kworker.
    pub kworker: bool,
}

impl Echo {
    /// Time in all links of this kind, ns.
    pub fn link_ns(&self, link: &str) -> u64 {
        let of_kind = self.links.iter().filter(|l| l.link == link);
        of_kind.map(|l| l.length_ns).sum()
    }

    /// A part of all links of this kind, ns.
    fn part_ns(&self, link: &str, part: &str) -> u64 {
        let of_kind = self.links.iter().filter(|l| l.link == link);
        let parts = of_kind.map(|l| l.parts.get(part));
        parts
            .map(|ns| ns.unwrap_or_else(|| panic!("no {part} in {self:?}")))
            .sum()
    }

    /// Its longest kind of link.
    pub fn longest(&self) -> &str {
        let kinds = self.links.iter().map(|l| l.link.as_str());
        kinds
            .max_by_key(|kind| self.link_ns(kind))
            .unwrap_or_default()
    }

    /// Its links by name.
    pub fn way(&self) -> Vec<&str> {
        let mut way: Vec<&str> = self.links.iter().map(|l| l.link.as_str()).collect();
        way.dedup();
        way
    }
}

/// A live view that measures.
#[derive(Debug)]
pub struct Echoes(Running);

/// All that it told.
#[derive(Debug)]
pub struct Told {
    /// In the order in which they ended.
    pub echoes: Vec<Echo>,
    /// The last line: name → count.
    pub counts: BTreeMap<String, u64>,
    /// Every line as it was.
    pub lines: Vec<String>,
}

impl Echoes {
    /// Starts it, and waits until every probe is in place.
    pub fn of(target: &[&str]) -> Echoes {
        let mut command = Command::new(bin("phux-trace"));
        command
            .args(["echo", "--json", "-d", TIME_LIMIT])
            .args(target);
        let mut running = Running::start(&mut command);
        let first = running.line(Duration::from_secs(60));
        assert!(first.contains("echo_counts"), "{first}");
        Echoes(running)
    }

    /// Ends it as Ctrl-C does. Parts that do not sum to their link, or links that do not sum to
    /// their chain, are a failure wherever they come.
    pub fn stop(self) -> Told {
        self.0.signal(Signal::INT);
        let ended = self.0.end(Duration::from_secs(60));
        assert!(ended.status.success(), "{}\n{}", ended.status, ended.stderr);
        let mut told = Told {
            echoes: Vec::new(),
            counts: BTreeMap::new(),
            lines: ended.stdout,
        };
        for line in &told.lines {
            let value: serde_json::Value = typed(line);
            match value["type"].as_str() {
                Some("chain") => told.echoes.push(typed(line)),
                Some("echo_counts") => {
                    let fields = value.as_object().into_iter().flatten();
                    let numbers = fields.filter_map(|(k, v)| Some((k.clone(), v.as_u64()?)));
                    told.counts = numbers.collect();
                }
                _ => panic!("{line}"),
            }
        }
        for echo in &told.echoes {
            for link in &echo.links {
                assert_eq!(link.parts.values().sum::<u64>(), link.length_ns, "{link:?}");
            }
            let sum: u64 = echo.links.iter().map(|l| l.length_ns).sum();
            assert_eq!(sum, echo.length_ns, "{echo:?}");
        }
        told
    }
}

fn typed<T: DeserializeOwned>(line: &str) -> T {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

impl Told {
    /// Those whose answer came.
    pub fn echoed(&self) -> Vec<&Echo> {
        self.echoes.iter().filter(|c| c.end == "echoed").collect()
    }

    /// Median time in links of this kind, ns.
    pub fn typical_ns(&self, link: &str) -> u64 {
        median(self.echoed().iter().map(|c| c.link_ns(link)))
    }

    /// Median of a part of the links of this kind, ns.
    pub fn typical_part_ns(&self, link: &str, part: &str) -> u64 {
        median(self.echoed().iter().map(|c| c.part_ns(link, part)))
    }

    /// A count of the last line.
    pub fn count(&self, name: &str) -> u64 {
        self.counts
            .get(name)
            .copied()
            .unwrap_or_else(|| panic!("no {name}: {:?}", self.counts))
    }

    /// Each chain, in its order within its pane, lies between when its key was sent and when its
    /// echo was seen: so none is mixed up with another. `pane` gives the pane that a key went to.
    /// Returns by how much the chains are shorter than what the typist saw, ns, the median.
    ///
    /// Both clocks can be apart by a little (they are read one after the other), but all chains by
    /// the same.
    pub fn assert_matches(&self, keys: &[Key], pane: impl Fn(&Key) -> u32) -> u64 {
        let mut panes: BTreeMap<u32, (Vec<&Key>, Vec<&Echo>)> = BTreeMap::new();
        for key in keys {
            panes.entry(pane(key)).or_default().0.push(key);
        }
        // A target that was named can have panes that are not the typist's.
        for echo in &self.echoes {
            if let Some((_, echoes)) = panes.get_mut(&echo.index) {
                echoes.push(echo);
            }
        }
        let (mut least, mut most) = (i128::MIN, i128::MAX);
        let mut shorter = Vec::new();
        let mut at_least = None;
        let mut at_most = None;
        for (index, (keys, echoes)) in &mut panes {
            echoes.sort_by_key(|e| e.id);
            assert_eq!(keys.len(), echoes.len(), "pane {index}");
            for (key, echo) in keys.iter().zip(echoes) {
                assert_eq!(echo.end, "echoed", "{key:?} {echo:?}");
                let begin = i128::from(echo.unix_ns);
                let upper = begin - i128::from(key.sent_ns);
                let end = begin + i128::from(echo.length_ns) - i128::from(key.seen_ns);
                if end > least {
                    (least, at_least) = (end, Some((**key, (*echo).clone())));
                }
                if upper < most {
                    (most, at_most) = (upper, Some((**key, (*echo).clone())));
                }
                shorter.push((key.seen_ns - key.sent_ns).saturating_sub(echo.length_ns));
            }
        }
        assert!(least <= most, "{least} {most}: {at_least:?} {at_most:?}");
        shorter.sort_unstable();
        shorter.get(shorter.len() / 2).copied().unwrap_or(0)
    }
}
