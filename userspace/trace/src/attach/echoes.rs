//! Echoes of one run: fed with every event, summed up, and shown one by one where that is asked for.

use std::collections::BTreeSet;
use std::io::{self, Write};

use anyhow::{Context, Result};

use super::hops::Hops;
use super::names::Named;
use crate::echo::{Chain, Config, Counts, Follower, Summary, rows};
use crate::report::json::{write_echo, write_echo_counts};
use crate::report::model::{ChainRow, Echoes as Rows};
use crate::report::text::{ECHO_HEAD, echo_line};
use crate::source::Event;

/// Echoes kept for one taking: more at once than anybody can read.
const FRESH: usize = 1_000;

/// The live view: `phux-trace echo`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    /// The whole chain as JSON, else a line.
    pub(super) json: bool,
    /// Only what took so long or never came, ns.
    pub(super) slow_from: Option<u64>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Echoes {
    follower: Follower,
    /// Of the interval under way, and of those before it.
    summary: Summary,
    before: Summary,
    slow_from: Option<u64>,
    pub(super) counts: Counts,
    pub(super) names: Named,
    view: Option<View>,
    /// Those that ended since they were last taken, where somebody takes them.
    fresh: Option<Vec<ChainRow>>,
    named_hops: u32,
    /// Records that the rings had no room for, and when they were last all well.
    lost: u64,
    drained_ns: u64,
    over: bool,
}

impl Echoes {
    pub(super) fn new(view: Option<View>, slow_from: Option<u64>, unix_offset_ns: i128) -> Echoes {
        Echoes {
            follower: Follower::new(Config::default()),
            summary: Summary::new(slow_from),
            before: Summary::new(slow_from),
            slow_from,
            counts: Counts::default(),
            names: Named::new(unix_offset_ns),
            view,
            fresh: None,
            named_hops: 0,
            lost: 0,
            drained_ns: 0,
            over: false,
        }
    }

    /// Every probe is in place: says so to who looks on.
    pub(super) fn begin(&self) -> Result<()> {
        let mut out = io::stdout().lock();
        match self.view {
            Some(View { json: true, .. }) => write_echo_counts(&self.counts, &mut out),
            Some(View { json: false, .. }) => writeln!(out, "{ECHO_HEAD}"),
            None => Ok(()),
        }
        .and_then(|()| out.flush())
        .context("writing the head")
    }

    /// Takes an event.
    pub(super) fn push(&mut self, event: Event) {
        if self.over {
            return;
        }
        if let Event::Exit { thread, .. } = &event {
            self.names.ended(thread.pid, thread.tid, &thread.comm);
        }
        self.follower.push(event);
    }

    /// The rings were emptied, from `drained_ns` on; the kernel has lost so many records since the
    /// beginning, and these are the target's processes.
    pub(super) fn settle(
        &mut self,
        drained_ns: u64,
        lost: u64,
        targets: &BTreeSet<u32>,
        hops: &Hops,
    ) -> Result<()> {
        if self.over {
            return Ok(());
        }
        if lost > self.lost {
            self.follower.lost(self.drained_ns, drained_ns);
            self.lost = lost;
        }
        self.drained_ns = drained_ns;
        while let Some(hop) = hops.get(self.named_hops) {
            self.follower.hop_named(self.named_hops, &hop.probe);
            self.named_hops += 1;
        }
        self.follower.targets(targets);
        let chains = self.follower.settle(drained_ns);
        self.counts = self.follower.counts().clone();
        self.take(&chains)
    }

    /// They were followed until then; what comes later is none of theirs.
    pub(super) fn finish(&mut self, ended_ns: u64) -> Result<()> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        let follower = std::mem::replace(&mut self.follower, Follower::new(Config::default()));
        let (chains, counts) = follower.finish(ended_ns);
        self.counts = counts;
        self.take(&chains)
    }

    /// What came since the last interval, or `whole`: of the whole run.
    pub(super) fn rows(&mut self, whole: bool) -> (Rows, Vec<ChainRow>) {
        let interval = std::mem::replace(&mut self.summary, Summary::new(self.slow_from));
        if whole {
            self.before.merge(interval);
            let all = &self.before;
            return (all.rows(&self.names), all.slow_rows(&self.names));
        }
        let rows = (interval.rows(&self.names), interval.slow_rows(&self.names));
        self.before.merge(interval);
        rows
    }

    /// Those that ended since the last time; from the first time on they are kept for it.
    pub(super) fn fresh(&mut self) -> Vec<ChainRow> {
        self.fresh.replace(Vec::new()).unwrap_or_default()
    }

    /// Forgets all that ended so far.
    pub(super) fn reset(&mut self) {
        self.summary = Summary::new(self.slow_from);
        self.before = Summary::new(self.slow_from);
    }

    fn take(&mut self, chains: &[Chain]) -> Result<()> {
        chains.iter().for_each(|c| self.summary.add(c));
        if let Some(fresh) = &mut self.fresh {
            let room = FRESH.saturating_sub(fresh.len());
            fresh.extend(
                chains
                    .iter()
                    .take(room)
                    .map(|c| rows::chain(c, &self.names)),
            );
        }
        let Some(view) = self.view else {
            return Ok(());
        };
        let mut out = io::stdout().lock();
        let slow = |c: &&Chain| view.slow_from.is_none_or(|from| c.length_ns() >= from);
        for chain in chains.iter().filter(slow) {
            let row: ChainRow = rows::chain(chain, &self.names);
            if view.json {
                write_echo(&row, &mut out)
            } else {
                writeln!(out, "{}", echo_line(&row))
            }
            .context("writing an echo")?;
        }
        out.flush().context("writing an echo")
    }
}

/// What became of all inputs, in words: the last line of `echo`.
pub(crate) fn told(c: &Counts) -> String {
    let parts = [
        (c.echoed, "echoed"),
        (c.silent, "without an echo"),
        (c.unread, "not read"),
        (c.late, "not answered in time"),
        (c.undelivered, "answered but not shown"),
        (c.open, "under way"),
        (c.lost, "lost"),
        (c.dropped, "not followed"),
        (c.inexact, "inexact"),
        (c.confirmed, "confirmed by phux"),
        (c.contradicted, "contradicted by phux"),
        (c.events_dropped, "events dropped"),
    ];
    let parts = parts.iter().filter(|(n, _)| *n != 0);
    let parts: Vec<String> = parts.map(|(n, what)| format!("{n} {what}")).collect();
    let inputs = if c.inputs == 1 { "input" } else { "inputs" };
    match parts.as_slice() {
        [] => format!("{} {inputs}", c.inputs),
        _ => format!("{} {inputs}: {}", c.inputs, parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_in_words() {
        let mut counts = Counts::default();
        assert_eq!(told(&counts), "0 inputs");
        (counts.inputs, counts.echoed, counts.silent) = (3, 2, 1);
        assert_eq!(told(&counts), "3 inputs: 2 echoed, 1 without an echo");
    }
}
