//! `top DIR`: a recording on the screen, analysed by what analyses a live run.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use phux_recording::{Dataset, Run, RunId, Syscall};

use super::{Request, Tui, Update};
use crate::attach::window::Start;
use crate::echo::rows;
use crate::privileges::{self, Files};
use crate::recording::calls::Reader;
use crate::recording::replay::{open, replay};
use crate::recording::report::report;
use crate::report::units::count;
use crate::syscalls::view::{Filter, Watch};
use crate::syscalls::{Consumer, Stats};

/// Rows that are read before anybody is asked whether to go on.
const SHARE: usize = 4096;
/// How often it is said how far the reading is.
const OFTEN: Duration = Duration::from_millis(250);

/// Shows it until the person leaves.
///
/// # Errors
/// No terminal, no recording, or one that cannot be read.
pub(crate) fn run(dir: &Path) -> Result<ExitCode> {
    let recording = open(dir)?;
    let tui =
        privileges::unprivileged(Files::Callers, Tui::start).context("giving up privileges")??;
    let mut shown = Shown {
        tui,
        offset: Start::of(&recording.2).unix_offset_ns(),
        recording,
        all: Stats::default(),
        watch: Watch::default(),
        filters: Vec::new(),
    };
    shown.report()?;
    if shown.read()? {
        while shown.answer(true) {}
    }
    shown.tui.end()?;
    Ok(ExitCode::SUCCESS)
}

struct Shown {
    tui: Tui,
    recording: (Dataset, RunId, Run),
    offset: i128,
    /// Of all calls.
    all: Stats,
    watch: Watch,
    filters: Vec<Filter>,
}

impl Shown {
    /// Echoes, threads, PTYs, hops and the verdict.
    fn report(&mut self) -> Result<()> {
        self.tui.hand(Update::Said("reading the recording".into()));
        let mut chains = Vec::new();
        let done = replay(&self.recording, None, |chain, analysis| {
            chains.push(rows::chain(chain, &analysis.known));
            Ok(())
        })?;
        let report = report(&self.recording.2, &done.analysis, done.losses, done.end_ns);
        self.tui.hand(Update::Reports {
            interval: Box::new(report.clone()),
            run: Box::new(report),
            shed: 0,
        });
        self.tui.hand(Update::Chains(chains));
        Ok(())
    }

    /// Reads the calls, those that pass the filters apart; whether nobody has left meanwhile.
    fn read(&mut self) -> Result<bool> {
        // Not what the last calls were, as live: all of them are there to be read again.
        self.watch.filters(&[], &self.all);
        self.watch.filters(&self.filters, &Stats::default());
        self.all = Stats::default();
        let (dataset, id, _) = &self.recording;
        let mut rows = dataset
            .rows::<Syscall>(*id)
            .context("reading the recording")?;
        let (mut reader, mut read, mut told) = (Reader::default(), 0u64, Instant::now());
        loop {
            let mut calls = Vec::with_capacity(SHARE);
            for row in rows.by_ref().take(SHARE) {
                calls.push(reader.call(&row.context("reading the recording")?));
            }
            if calls.is_empty() {
                break;
            }
            read += calls.len() as u64;
            self.all.calls(&calls);
            self.watch.calls(&calls);
            if told.elapsed() >= OFTEN {
                told = Instant::now();
                let said = format!("{} calls read", count(read));
                self.tui.hand(Update::Said(said));
            }
            // Filters that change now have to see what was read already.
            let before = self.filters.clone();
            if !self.answer(false) {
                return Ok(false);
            }
            if self.filters != before {
                return self.read();
            }
        }
        self.tui
            .hand(Update::Said(format!("{} calls", count(read))));
        self.watch.not_taken();
        self.show();
        Ok(true)
    }

    /// Does what was asked, if need be after waiting for it; whether to go on.
    fn answer(&mut self, wait: bool) -> bool {
        loop {
            let Some(request) = self.tui.asked(wait) else {
                return true;
            };
            match request {
                Request::Quit => return false,
                Request::Look(look) => self.watch.look(look),
                Request::Filters(filters) if wait => {
                    self.filters = filters;
                    return self.read().unwrap_or_else(|error| {
                        self.tui.hand(Update::Said(format!("{error:#}")));
                        true
                    });
                }
                Request::Filters(filters) => self.filters = filters,
                Request::Reset | Request::Record => {
                    let said = "this is a recording: all of it is counted".into();
                    self.tui.hand(Update::Said(said));
                }
            }
            if wait {
                self.show();
                return true;
            }
        }
    }

    fn show(&mut self) {
        if let Some(mut seen) = self.watch.seen(&self.all, self.offset) {
            if let Some((_, gaps)) = &mut seen.series {
                gaps.off_cpu_ns = None;
            }
            seen.sums.per_second = per_second(&seen.sums, &self.recording.2);
            self.tui.hand(Update::Calls(Box::new(seen)));
        }
    }
}

/// Over all of the recording: there is no last second.
fn per_second(sums: &crate::syscalls::view::Sums, run: &Run) -> u64 {
    let ns = run.end.unwrap_or(run.ts).saturating_sub(run.ts).max(1);
    let rate = u128::from(sums.count) * 1_000_000_000 / u128::from(ns);
    u64::try_from(rate).unwrap_or(u64::MAX)
}
