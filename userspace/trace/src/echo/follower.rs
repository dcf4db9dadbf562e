//! From events, as they come, to chains.

use std::collections::{BTreeSet, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::confirm::Hops;
use super::history::History;
use super::inbound::Origin;
use super::model::{Chain, End};
use super::outbound::{Clients, Input, follow};
use super::threads::Search;
use crate::source::Event;
use crate::source::event::Io;
use crate::stats::Side;

/// Far longer than a program takes from reading the clock to putting its event into the ring.
const SETTLED_NS: u64 = 1_000_000;
/// How long a chain that has ended is kept for records that are told late: a kworker that is still
/// at work, and the interrupts of a slice, which are told when the thread is back from the next sleep.
const GRACE_NS: u64 = 20_000_000;
/// Events that wait for [`Follower::settle`]: those of a second at 250,000/s.
const STAGED: usize = 262_144;
/// Records of the past that are kept: about 60 MB at most.
const RECORDS: usize = 196_608;
/// Inputs under way at once.
const OPEN: usize = 16_384;
/// A process whose clients have typed nothing for so long may have none any more.
const CLIENT_NS: u64 = 10_000_000_000;
/// Connections that inputs came on, and processes that have clients.
const KNOWN: usize = 4096;

/// How inputs are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// An input whose answer takes longer than this, from the write to the master on, is given up, ns.
    pub limit_ns: u64,
}

impl Default for Config {
    /// One second: nobody takes what comes later for an echo.
    fn default() -> Config {
        Config {
            limit_ns: 1_000_000_000,
        }
    }
}

/// What became of all inputs so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Inputs seen: those that ended, those under way and those dropped.
    pub inputs: u64,
    /// The answer was shown.
    pub echoed: u64,
    /// Nothing was printed for it, and the program came back for more.
    pub silent: u64,
    /// Nobody had read it within the limit.
    pub unread: u64,
    /// It was read, and no answer came within the limit.
    pub late: u64,
    /// The answer was not on a client's terminal within the limit.
    pub undelivered: u64,
    /// Records that it needs were lost.
    pub lost: u64,
    /// The run ended first.
    pub open: u64,
    /// Of all: something had to be concluded from time alone.
    pub inexact: u64,
    /// Of all: a phux's own sequence numbers tell the same.
    pub confirmed: u64,
    /// Of all: they tell otherwise.
    pub contradicted: u64,
    /// Inputs that were not followed: too many were under way.
    pub dropped: u64,
    /// Events that could not be used: too many at once, or out of order.
    pub events_dropped: u64,
}

impl Counts {
    fn add(&mut self, chain: &Chain) {
        let end = match chain.end {
            End::Echoed { .. } => &mut self.echoed,
            End::Silent => &mut self.silent,
            End::Unread => &mut self.unread,
            End::Late => &mut self.late,
            End::Undelivered => &mut self.undelivered,
            End::Lost => &mut self.lost,
            End::Open => &mut self.open,
        };
        *end += 1;
        self.inexact += u64::from(chain.inexact);
        self.confirmed += u64::from(chain.confirmed == Some(true));
        self.contradicted += u64::from(chain.confirmed == Some(false));
    }
}

/// Follows every input on a PTY whose master a process of the target writes to. Memory is bounded
/// whatever comes: see [`Counts::dropped`] and [`Counts::events_dropped`] for what that costs.
#[derive(Debug)]
pub struct Follower {
    config: Config,
    history: History,
    hops: Hops,
    staged: Vec<Event>,
    open: Vec<Input>,
    known: Known,
    counts: Counts,
    /// Up to here all events have been taken in.
    horizon: u64,
}

/// Who is a client of whom, as far as inputs have told.
#[derive(Debug, Default)]
struct Known {
    targets: HashSet<u32>,
    /// How many inputs came on a connection.
    inputs_on: HashMap<u64, u32>,
    /// When a client of this process last typed, ns.
    typed: HashMap<u32, u64>,
}

/// The same at one moment.
struct View<'a> {
    known: &'a Known,
    history: &'a History,
    now: u64,
}

impl Clients for View<'_> {
    fn is_client(&self, pid: u32, conn: u64) -> bool {
        let other = self.history.conn(conn).and_then(|c| c.other(pid));
        let of_target = other.is_some_and(|p| self.known.targets.contains(&p));
        // One input alone can be a command that types (tmux send-keys), which shows nothing.
        of_target || self.known.inputs_on.get(&conn).is_some_and(|n| *n > 1)
    }

    fn has_clients(&self, pid: u32) -> bool {
        let last = self.known.typed.get(&pid);
        last.is_some_and(|at| self.now.saturating_sub(*at) < CLIENT_NS)
    }

    fn is_traced(&self, pid: u32) -> bool {
        self.known.targets.contains(&pid)
    }
}

impl Known {
    fn learn(&mut self, history: &History, input: &Input, origin: Origin) {
        let server = input.write.pid;
        match origin {
            Origin::Unknown => return,
            Origin::Terminal => {}
            Origin::Client(conn) => {
                if self.inputs_on.len() >= KNOWN {
                    self.inputs_on.retain(|c, _| history.conn(*c).is_some());
                }
                if self.inputs_on.len() < KNOWN {
                    let n = self.inputs_on.entry(conn).or_default();
                    *n = n.saturating_add(1);
                }
                let view = View {
                    known: self,
                    history,
                    now: 0,
                };
                if !view.is_client(server, conn) {
                    return;
                }
            }
        }
        if self.typed.len() >= KNOWN {
            let now = input.write.begin;
            self.typed
                .retain(|_, at| now.saturating_sub(*at) < CLIENT_NS);
        }
        if self.typed.len() < KNOWN {
            self.typed.insert(server, input.write.begin);
        }
    }
}

impl Follower {
    /// Follows nothing yet: see [`Follower::targets`].
    pub fn new(config: Config) -> Follower {
        Follower {
            config,
            history: History::default(),
            hops: Hops::default(),
            staged: Vec::new(),
            open: Vec::new(),
            known: Known::default(),
            counts: Counts::default(),
            horizon: 0,
        }
    }

    /// The processes of the target, servers and clients, as they are now.
    pub fn targets(&mut self, pids: &BTreeSet<u32>) {
        self.known.targets = pids.iter().copied().collect();
    }

    /// What the hop with this id is (`pty__read__size`): a phux's own confirm chains.
    pub fn hop_named(&mut self, id: u32, probe: &str) {
        self.hops.name(id, probe);
    }

    /// Takes one event; in any order, before the [`Follower::settle`] of its time.
    pub fn push(&mut self, event: Event) {
        if matches!(event, Event::Exec(_) | Event::Fork(_)) {
            return;
        }
        if self.staged.len() >= STAGED {
            self.counts.events_dropped += 1;
            self.lost(event.ts().saturating_sub(SETTLED_NS), event.ts());
            return;
        }
        self.staged.push(event);
    }

    /// Events between these two times were lost, ns: what needs them cannot be known.
    pub fn lost(&mut self, from_ns: u64, until_ns: u64) {
        self.history.lost(from_ns, until_ns);
    }

    /// What became of all inputs so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// All events up to `drained_ns`, when the rings began to be emptied, have been pushed: gives the
    /// chains that have ended by now, by number.
    pub fn settle(&mut self, drained_ns: u64) -> Vec<Chain> {
        self.take_in(drained_ns.saturating_sub(SETTLED_NS));
        let chains = self.resolve(None);
        self.forget();
        chains
    }

    /// The run ended then: gives all chains that are left.
    pub fn finish(mut self, ended_ns: u64) -> (Vec<Chain>, Counts) {
        self.take_in(ended_ns);
        let chains = self.resolve(Some(ended_ns));
        (chains, self.counts)
    }

    /// Feeds the history, in the order of time.
    fn take_in(&mut self, horizon: u64) {
        let mut staged = std::mem::take(&mut self.staged);
        staged.sort_by_key(Event::ts);
        let later = staged.split_off(staged.partition_point(|e| e.ts() <= horizon));
        for event in staged {
            if event.ts() < self.horizon {
                self.counts.events_dropped += 1;
                continue;
            }
            self.one(event);
        }
        self.staged = later;
        self.horizon = self.horizon.max(horizon);
    }

    fn one(&mut self, event: Event) {
        match event {
            Event::Io(io) => self.io(&io),
            Event::Flush(flush) => self.history.flush(flush),
            Event::Off(off) => self.history.off(*off),
            Event::Sock(sock) => self.history.sock(&sock),
            Event::Hop(hop) => self.hops.push(hop),
            Event::Exit { thread, .. } => self.history.ended(thread.tid),
            Event::Exec(_) | Event::Fork(_) => {}
        }
    }

    fn io(&mut self, io: &Io) {
        let Some(write) = self.history.io(io) else {
            return;
        };
        let input = io.write && io.side == Side::Master;
        if !input || !self.known.targets.contains(&io.at.pid) {
            return;
        }
        self.counts.inputs += 1;
        if self.open.len() >= OPEN {
            self.counts.dropped += 1;
            return;
        }
        self.open.push(Input {
            id: self.counts.inputs,
            pty: io.pty,
            write,
        });
    }

    fn resolve(&mut self, ended: Option<u64>) -> Vec<Chain> {
        let mut chains = Vec::new();
        let mut open = std::mem::take(&mut self.open);
        open.retain(|input| match self.chain(input, ended) {
            Some((chain, origin)) => {
                self.known.learn(&self.history, input, origin);
                self.counts.add(&chain);
                chains.push(chain);
                false
            }
            None => true,
        });
        self.open = open;
        chains
    }

    /// The chain of one input, if it has ended.
    fn chain(&self, input: &Input, ended: Option<u64>) -> Option<(Chain, Origin)> {
        let limit = input.write.begin.saturating_add(self.config.limit_ns);
        let deadline = limit.min(ended.unwrap_or(u64::MAX));
        let over = ended.is_some() || self.horizon >= limit.saturating_add(GRACE_NS);
        let history = &self.history;
        let search = Search {
            history,
            deadline,
            last: over,
        };
        let view = View {
            known: &self.known,
            history,
            now: input.write.begin,
        };
        let (way, origin) = follow(search, input, &view);
        let settled = |at: u64| ended.is_some() || self.horizon >= at.saturating_add(GRACE_NS);
        let complete = way.complete.filter(|at| settled(*at));
        if complete.is_none() && !over {
            return None;
        }
        let until = complete.unwrap_or(deadline);
        let forgotten = input.write.begin < history.since;
        let lossy = forgotten || history.is_lossy(way.begin, until);
        let end = match complete {
            Some(_) => way.end,
            None if lossy => End::Lost,
            None if limit > deadline => End::Open,
            None => way.end,
        };
        let confirmed = if matches!(end, End::Echoed { .. }) {
            self.hops.confirm(&way.marks)
        } else {
            None
        };
        let base = Chain {
            id: input.id,
            pty: input.pty,
            bytes: input.write.bytes(),
            begin: way.begin,
            end,
            links: Vec::new(),
            confirmed,
            inexact: lossy,
        };
        Some((way.chain(history, base), origin))
    }

    /// Keeps what the inputs under way can need, and no more than there is room for.
    fn forget(&mut self) {
        let keep = self
            .config
            .limit_ns
            .saturating_mul(2)
            .saturating_add(10 * GRACE_NS);
        let mut since = self.horizon.saturating_sub(keep);
        self.history.forget(since);
        self.hops.forget(since);
        if self.history.len() <= RECORDS {
            return;
        }
        self.history.forget_quiet();
        while self.history.len() > RECORDS && since < self.horizon {
            since += (self.horizon - since).div_ceil(4);
            self.history.forget(since);
        }
        if self.history.len() > RECORDS {
            self.history.forget_quiet();
        }
    }
}
