//! A synthetic world: what threads, PTYs and sockets do, one line a record, in µs.
//!
//! ```text
//! 10-12    tmux write pane.m 1        a call, from its begin to its end, and the bytes moved
//! 20-21    phux/main send c1 30       on connection c1
//! 11-15-17 kw flush pane.s by tmux    flush work: queued, started, ended; `mute` of a line not echoed
//! 0-16-18  cat off flush pane.s       off CPU: left, runnable, on a CPU again; and what woke it:
//!                                     flush PTY.SIDE, task THREAD, irq, preempt; nap: a timer it set;
//!                                     lock THREAD: uninterruptibly, until that thread was done
//! ```
//! A thread is `process` or `process/thread`; a PTY's sides are `.m` and `.s`. Anything after `#` is
//! a remark.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::echo::{Chain, Config, Counts, End, Follower};
use crate::source::Event;
use crate::source::event::{
    At, Flush, Hop, Io, Off, ShortBlame, ShortCulprit, SleptIn, Sock, Wake,
};
use crate::stats::{PtyId, Side};

/// Where scripts begin, ns: a machine that has been up for a while.
pub(super) const BASE: u64 = 1_000_000_000_000;

#[derive(Default)]
pub(super) struct World {
    pids: BTreeMap<String, u32>,
    tids: BTreeMap<String, u32>,
    ptys: BTreeMap<String, u32>,
    conns: BTreeMap<String, u64>,
    pub(super) events: Vec<Event>,
}

impl World {
    pub(super) fn pid(&mut self, name: &str) -> u32 {
        let process = name.split('/').next().unwrap_or(name).to_owned();
        let next = 1000 * (self.pids.len() as u32 + 1);
        *self.pids.entry(process).or_insert(next)
    }

    pub(super) fn tid(&mut self, name: &str) -> u32 {
        let pid = self.pid(name);
        if !name.contains('/') {
            return pid;
        }
        let next = pid + 1 + self.tids.len() as u32;
        *self.tids.entry(name.to_owned()).or_insert(next)
    }

    fn end(&mut self, text: &str) -> (PtyId, Side) {
        let (name, side) = text.split_once('.').expect("PTY.SIDE");
        let next = self.ptys.len() as u32 + 1;
        let index = *self.ptys.entry(name.to_owned()).or_insert(next);
        let side = if side == "m" {
            Side::Master
        } else {
            Side::Slave
        };
        (PtyId { devpts: 5, index }, side)
    }

    /// Adds a script that begins `after_us` later, and whose every name ends in `suffix`.
    pub(super) fn script(&mut self, text: &str, after_us: u64, suffix: &str) {
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                self.line(line, after_us, suffix);
            }
        }
    }

    fn line(&mut self, line: &str, after_us: u64, suffix: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [times, who, verb, rest @ ..] = words.as_slice() else {
            panic!("{line}");
        };
        let named = |name: &str| match name.split_once('/') {
            Some((process, thread)) => format!("{process}{suffix}/{thread}"),
            None => format!("{name}{suffix}"),
        };
        let side = |text: &str| match text.split_once('.') {
            Some((pty, side)) => format!("{pty}{suffix}.{side}"),
            None => panic!("{line}"),
        };
        let ns = |us: &str| {
            let us: u64 = us.parse().unwrap_or_else(|_| panic!("{line}"));
            BASE + 1000 * (us + after_us)
        };
        let times: Vec<u64> = times.split('-').map(ns).collect();
        let who = named(who);
        let at = At {
            ts: *times.last().expect("a time"),
            pid: self.pid(&who),
            tid: self.tid(&who),
            cpu: 0,
        };
        let bytes = || rest[1].parse().unwrap_or_else(|_| panic!("{line}"));
        let event = match (*verb, times.as_slice()) {
            ("write" | "read", [begin, end]) => {
                let (pty, side) = self.end(&side(rest[0]));
                Event::Io(Io {
                    at,
                    pty,
                    side,
                    write: *verb == "write",
                    result: bytes(),
                    duration_ns: end - begin,
                })
            }
            ("send" | "recv", [begin, end]) => {
                let next = self.conns.len() as u64 + 1;
                let conn = *self.conns.entry(named(rest[0])).or_insert(next);
                Event::Sock(Sock {
                    at,
                    conn,
                    send: *verb == "send",
                    result: bytes(),
                    duration_ns: end - begin,
                    peer: 0,
                })
            }
            ("flush", [queued, started, _]) => {
                let (pty, towards) = self.end(&side(rest[0]));
                let by = named(rest[2]);
                Event::Flush(Flush {
                    at,
                    pty,
                    towards,
                    queued_by: self.pid(&by),
                    queued_by_tid: self.tid(&by),
                    queued: *queued,
                    started: *started,
                    mute: rest.get(3) == Some(&"mute"),
                    place: Default::default(),
                    blame: hog(started - queued),
                })
            }
            ("off", [left, runnable, ts]) => Event::Off(Box::new(Off {
                at,
                left: *left,
                runnable: *runnable,
                wake: match rest[0] {
                    "preempt" => Wake::Preempted,
                    "task" | "lock" => Wake::Task {
                        pid: self.pid(&named(rest[1])),
                        tid: self.tid(&named(rest[1])),
                    },
                    "flush" => Wake::Task { pid: 2, tid: 2 },
                    _ => Wake::Interrupt,
                },
                woken_by_flush: (rest[0] == "flush").then(|| self.end(&side(rest[1]))),
                slept_in: SleptIn {
                    syscall: Some(match rest[0] {
                        "nap" => libc::SYS_clock_nanosleep as i32,
                        _ => libc::SYS_read as i32,
                    }),
                    disk: rest[0] == "lock",
                    ..SleptIn::default()
                },
                blame: hog(ts - runnable),
                ..Off::default()
            })),
            ("hop", [_]) => Event::Hop(Hop {
                at,
                hop: rest[0].parse().expect("hop id"),
                nargs: 3,
                args: [1, 2, 3].map(|i| rest[i].parse().expect("hop argument")),
            }),
            _ => panic!("{line}"),
        };
        self.events.push(event);
    }

    /// A follower of these processes.
    pub(super) fn follower(&mut self, targets: &[&str], config: Config) -> Follower {
        let mut follower = Follower::new(config);
        let pids: BTreeSet<u32> = targets.iter().map(|t| self.pid(t)).collect();
        follower.targets(&pids);
        follower
    }

    /// All chains, the run ending `us` after the scripts began.
    pub(super) fn run_until(&mut self, targets: &[&str], us: u64) -> (Vec<Chain>, Counts) {
        let mut follower = self.follower(targets, Config::default());
        self.feed(&mut follower, us)
    }

    /// Pushes everything, pulling each 100 ms as a session does.
    pub(super) fn feed(&mut self, follower: &mut Follower, us: u64) -> (Vec<Chain>, Counts) {
        let mut events = self.events.clone();
        events.sort_by_key(Event::ts);
        let ended = BASE + us * 1000;
        let mut chains = Vec::new();
        let mut next = BASE;
        for event in events.into_iter().filter(|e| e.ts() <= ended) {
            while event.ts() > next {
                chains.extend(follower.settle(next));
                next += 100_000_000;
            }
            follower.push(event);
        }
        while next < ended {
            chains.extend(follower.settle(next));
            next += 100_000_000;
        }
        let follower = std::mem::replace(follower, Follower::new(Config::default()));
        let (last, counts) = follower.finish(ended);
        chains.extend(last);
        (chains, counts)
    }

    fn name(&self, tid: u32) -> String {
        let all = self.tids.iter().chain(&self.pids);
        let mut found = all.filter(|(_, t)| **t == tid).map(|(n, _)| n.clone());
        found.next().unwrap_or_else(|| "?".into())
    }

    /// A chain as text: a line for it and a line a link, in µs since the script began.
    pub(super) fn text(&self, chain: &Chain) -> String {
        let us = |ns: u64| ns.saturating_sub(BASE) / 1000;
        let mut out = format!("{}B {}", chain.bytes, ended(chain.end));
        out += if chain.inexact { " inexact\n" } else { "\n" };
        for l in &chain.links {
            let p = l.parts;
            let _ = write!(
                out,
                "{:?} {} {}-{}:",
                l.kind,
                self.name(l.actor.tid),
                us(l.from),
                us(l.until)
            );
            for (what, ns) in [
                ("cpu", p.on_cpu_ns),
                ("wait", p.run_queue_ns),
                ("blocked", p.blocked_ns),
                ("?", p.unknown_ns),
            ] {
                if ns > 0 {
                    let _ = write!(out, " {what} {}", ns / 1000);
                }
            }
            out.push('\n');
        }
        out
    }
}

fn ended(end: End) -> String {
    match end {
        End::Echoed { bytes } => format!("echoed {bytes}"),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn hog(ns: u64) -> ShortBlame {
    ShortBlame {
        culprits: vec![ShortCulprit {
            name: "hog".into(),
            pid: 77,
            ns,
            ..ShortCulprit::default()
        }],
        ..ShortBlame::default()
    }
}

/// The same text without indentation.
pub(super) fn lines(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .fold(String::new(), |all, l| all + l + "\n")
}
