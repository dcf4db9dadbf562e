//! What a recording has come to so far, summed up for Prometheus: few series, whatever the target.

use std::collections::BTreeMap;

use phux_perf::Snapshot;
use probe_ebpf::events;

use crate::echo::Counts;
use crate::recording::analysis::Analysis;
use crate::report::model::Loss;
use crate::source::live::CallSums;
use crate::stats::{KernelState, Side};
use crate::syscalls::stats::Stats;
use crate::syscalls::table::table;

/// The figures. Times in ns. None of them gets smaller.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Run-queue waits, of the target and of the others that are traced.
    pub(crate) waits: BTreeMap<&'static str, Snapshot>,
    /// Reads and writes of PTYs, by end and operation.
    pub(crate) moved: BTreeMap<(&'static str, &'static str), Moved>,
    /// From queued to started, of flush work.
    pub(crate) flush_wait: Snapshot,
    /// From started to ended.
    pub(crate) flush_run: Snapshot,
    /// From a key's write to its echo's read.
    pub(crate) echo: Snapshot,
    /// What became of all inputs.
    pub(crate) echoes: Counts,
    /// System calls and their errors, by family.
    pub(crate) calls: BTreeMap<&'static str, (Snapshot, u64)>,
    /// What was lost.
    pub(crate) losses: Vec<Loss>,
    /// Time in our BPF programs; `None` where the kernel does not tell.
    pub(crate) bpf_ns: Option<u64>,
}

/// Calls that moved bytes through PTYs.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// Bytes of a call.
    pub(crate) size: Snapshot,
    /// How long it took, ns.
    pub(crate) duration: Snapshot,
}

impl Figures {
    pub(super) fn add_state(&mut self, state: &KernelState) {
        for thread in state.threads.values().chain(state.summed.values()) {
            let whose = match thread.relation {
                events::REL_TARGET => "target",
                _ => "peer",
            };
            self.waits.entry(whose).or_default().merge(&thread.wait);
        }
        for (key, io) in &state.io {
            let end = match key.side {
                Side::Master => "master",
                Side::Slave => "slave",
            };
            let operation = if key.write { "write" } else { "read" };
            let moved = self.moved.entry((end, operation)).or_default();
            moved.size.merge(&io.size);
            moved.duration.merge(&io.duration);
        }
        for flush in state.flush.values() {
            self.flush_wait.merge(&flush.wait);
            self.flush_run.merge(&flush.run);
        }
    }

    /// Those that were told one by one, and those that the kernel sums up.
    pub(super) fn add_calls(&mut self, stats: &Stats, summed: &[CallSums]) {
        let told = stats.syscalls.iter().map(|(nr, f)| (*nr, f));
        for (nr, figures) in told.chain(summed.iter().map(|s| (s.nr, &s.figures))) {
            let family = table().get(nr).family.name();
            let (duration, errors) = self.calls.entry(family).or_default();
            duration.merge(&figures.duration);
            *errors += figures.errors;
        }
    }

    pub(super) fn add_echoes(&mut self, analysis: &Analysis) {
        self.echo = analysis.lengths().clone();
        self.echoes = analysis.counts().clone();
    }
}
