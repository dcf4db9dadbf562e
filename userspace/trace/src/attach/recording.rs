//! The recording that a person at the live view has begun, until he ends it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use phux_recording::{Mode, Options, Recorder};

use super::assemble::{Now, hop_sums};
use super::hops::Hops;
use super::processes::Processes;
use super::window::Start;
use crate::privileges::Filer;
use crate::recording::describe;
use crate::recording::details::Details;
use crate::recording::sink::Sink;
use crate::report::model::{Backend, Loss};
use crate::source::Event;
use crate::stats::{Holder, KernelState, ThreadStat};
use crate::syscalls::Consumer;
use crate::tui::Recorded;

/// One recording.
#[derive(Debug)]
pub(super) struct Recording {
    sink: Sink,
    dir: PathBuf,
    /// What the kernel had summed up when it began.
    began: KernelState,
    /// Records that had been lost by then.
    lost: u64,
}

/// What is said of it in its first row.
pub(super) struct About<'a> {
    pub(super) asked: &'a str,
    pub(super) families: &'a [String],
    pub(super) backends: &'a [Backend],
}

impl Recording {
    /// Begins, in `dir`, with files of the user who called sudo.
    ///
    /// # Errors
    /// The directory cannot be made or written.
    pub(super) fn begin(
        dir: &Path,
        about: &About<'_>,
        files: &Filer,
        began: KernelState,
        lost: u64,
    ) -> Result<Recording> {
        let start = Start::now();
        let options = serde_json::json!({ "families": about.families, "by": "top" });
        let run = describe(start, about.asked, &options, about.backends)?;
        // Nobody at a screen waits for a disk: what is too fast is shed, and counted.
        let options = Options {
            mode: Mode::Shed,
            ..Options::default()
        };
        let to = dir.to_path_buf();
        let recorder = files
            .run(move || Recorder::create(&to, run, options))?
            .with_context(|| format!("cannot record to {}", dir.display()))?;
        Ok(Recording {
            sink: Sink::of(recorder, start, &[]),
            dir: dir.to_path_buf(),
            began,
            lost,
        })
    }

    /// Who is to be given the calls.
    pub(super) fn calls(&self) -> Box<dyn Consumer> {
        self.sink.calls()
    }

    pub(super) fn event(&mut self, event: &Event, hops: &Hops) {
        let hop = match event {
            Event::Hop(h) => hops.get(h.hop).map(|hop| hop.probe.as_str()),
            _ => None,
        };
        self.sink.event(event.clone(), hop.unwrap_or_default());
    }

    /// All events up to then were given; so many were lost since tracing began.
    pub(super) fn drained(&mut self, at_ns: u64, lost: u64, processes: &Processes) {
        self.sink.targets(processes.targets(), at_ns);
        let lost = lost.saturating_sub(self.lost);
        self.sink.drained(at_ns, lost, false);
    }

    /// What the kernel has summed up until now; the last time before the end.
    fn sums(&mut self, since: KernelState, last: bool, processes: &Processes, hops: &Hops) {
        let role = |t: &ThreadStat| processes.role(t.pid, &t.comm, t.pid == t.tid);
        let hop = |id| hops.get(id).map(|hop| hop.probe.clone());
        self.sink.sums(since, last, role, hop);
    }

    /// The same while it goes on: what `kill -9` would lose is what came since.
    pub(super) fn summed(&mut self, now: &KernelState, processes: &Processes, hops: &Hops) {
        self.sums(now.since(&self.began), false, processes, hops);
    }

    /// Whether it has ended by itself, of a full disk as a rule.
    pub(super) fn ended(&self) -> bool {
        self.sink.ended()
    }

    /// How far it is.
    pub(super) fn so_far(&self) -> Recorded {
        let stats = self.sink.stats();
        Recorded {
            dir: self.dir.display().to_string(),
            rows: stats.rows,
            shed: stats.shed.iter().map(|(_, n)| n).sum(),
        }
    }

    /// Ends it at the moment of `now`; `losses` are those since it began. How far it came.
    ///
    /// # Errors
    /// What ended it early: a full disk, above all.
    pub(super) fn finish(
        mut self,
        now: &KernelState,
        losses: impl FnOnce(&KernelState) -> Vec<Loss>,
        holders: &[Holder],
        known: &mut Now<'_>,
        hops: &Hops,
        notes: Vec<String>,
    ) -> Result<Recorded> {
        let since = now.since(&self.began);
        let ring_full = since.losses.get(&probe_ebpf::events::LOSS_RING_FULL);
        self.sink
            .drained(now.at_ns, ring_full.copied().unwrap_or(0), true);
        self.sums(since.clone(), true, known.processes, hops);
        self.sink.losses(&losses(&since), now.at_ns);
        let by_hop = hop_sums(&since, hops);
        self.sink.describe(&Details {
            processes: known.processes.rows(),
            notes,
            ..Details::of(&since, known, holders, &by_hop, &[])
        })?;
        let so_far = self.so_far();
        let (run, _) = self.sink.finish()?;
        Ok(Recorded {
            rows: run.rows,
            ..so_far
        })
    }
}
