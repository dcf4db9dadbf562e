//! What was recorded, judged again: the same analysis as of the run itself.

use std::path::Path;

use anyhow::{Context, Result};
use phux_recording::{Dataset, Row, Run, RunId};

use super::analysis::Analysis;
use super::chains;
use super::events::Reader;
use crate::echo::Chain;
use crate::privileges::AsInvoker;
use crate::report::model::Loss;
use crate::say;

/// Opens a recording; what a killed recorder left in it is finished first.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn open(dir: &Path) -> Result<(Dataset, RunId, Run)> {
    let _files_are_the_callers = AsInvoker::begin();
    let dataset = Dataset::open(dir)?;
    let recovered = dataset.recovered();
    if recovered.runs != 0 {
        say::complain(&format!(
            "picked up {} rows that a killed recorder had left",
            recovered.rows
        ));
    }
    let (id, run) = dataset.latest()?;
    Ok((dataset, id, run))
}

/// What a replay comes to.
#[derive(Debug)]
pub struct Replayed {
    /// Echoes, threads, PTYs, hops.
    pub analysis: Analysis,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// Last moment of it, ns of CLOCK_MONOTONIC.
    pub end_ns: u64,
}

/// Analyses the recording, and gives each echo as it ends to `echo`. Echoes of `slow_from` ns and longer are kept.
///
/// # Errors
/// A file cannot be read, or what `echo` says.
pub fn replay(
    (dataset, id, run): &(Dataset, RunId, Run),
    slow_from: Option<u64>,
    mut echo: impl FnMut(&Chain, &Analysis) -> Result<()>,
) -> Result<Replayed> {
    let offset = i128::from(run.unix_ns) - i128::from(run.ts);
    let mut done = Replayed {
        analysis: Analysis::new(offset, slow_from),
        losses: Vec::new(),
        end_ns: run.ts,
    };
    let (mut reader, mut lost) = (Reader::default(), 0);
    for row in dataset.replay(*id).context("reading the recording")? {
        let row = row.context("reading the recording")?;
        match &row {
            Row::Task(t) => match &*t.kind {
                "seen" | "exec" => done.analysis.named(t.pid, t.tid, &t.name),
                "target" => done.analysis.target(t.pid, true),
                "untarget" => done.analysis.target(t.pid, false),
                _ => {}
            },
            Row::Cgroup(c) => done.analysis.cgroup(chains::cgroup_of(c)),
            Row::Hop(h) => done.analysis.hop_named(h.hop, &h.name),
            Row::Drain(d) => {
                lost = d.lost;
                done.end_ns = done.end_ns.max(d.ts);
                for chain in done.analysis.drained(d.ts, d.lost, d.last) {
                    echo(&chain, &done.analysis)?;
                }
            }
            Row::Loss(l) => done.losses.push(Loss {
                class: l.class.to_string(),
                count: l.count,
                meaning: l.meaning.to_string(),
            }),
            Row::Thread(_) | Row::Bucket(_) | Row::Blame(_) | Row::Metric(_) => {
                done.analysis.sum(&row);
            }
            Row::Syscall(s) => done.end_ns = done.end_ns.max(s.end()),
            _ => {}
        }
        if let Some(event) = reader.read(&row) {
            done.end_ns = done.end_ns.max(event.ts());
            done.analysis.event(event);
        }
    }
    if !done.analysis.is_over() {
        // Its recorder was killed, or its disk was full: as if the run had ended then.
        for chain in done.analysis.drained(done.end_ns, lost, true) {
            echo(&chain, &done.analysis)?;
        }
    }
    Ok(done)
}
