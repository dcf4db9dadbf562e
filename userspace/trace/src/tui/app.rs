//! All the state of the view, and what an update does to it.

use std::collections::VecDeque;

use phux_perf::Snapshot;
use ratatui::layout::Rect;

use super::picker::Picker;
use super::tabs::flame::Flame;
use super::tabs::stream::{Echo, Stream};
use super::tabs::{files, syscalls};
use super::{Recorded, Update};
use crate::report::model::Report;
use crate::syscalls::view::{Filter, Kind, Look, Measure, Seen};

/// Intervals that the sparkline remembers; no terminal is wider.
const HISTORY: usize = 512;

/// The tabs, in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Verdict,
    Sched,
    Ptys,
    Hops,
    Syscalls,
    Files,
    Processes,
    Latency,
    Flame,
    Stream,
}

impl Tab {
    /// How many.
    pub(super) const COUNT: usize = 10;
    /// All, as the keys 1 … 9 and 0 have them.
    pub(super) const ALL: [Tab; Tab::COUNT] = [
        Tab::Verdict,
        Tab::Sched,
        Tab::Ptys,
        Tab::Hops,
        Tab::Syscalls,
        Tab::Files,
        Tab::Processes,
        Tab::Latency,
        Tab::Flame,
        Tab::Stream,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Verdict => "echo",
            Tab::Sched => "sched",
            Tab::Ptys => "ptys",
            Tab::Hops => "hops",
            Tab::Syscalls => "calls",
            Tab::Files => "files",
            Tab::Processes => "procs",
            Tab::Latency => "latency",
            Tab::Flame => "flame",
            Tab::Stream => "stream",
        }
    }

    /// The one so many further, around the end.
    pub(super) fn further(self, by: usize) -> Tab {
        Tab::ALL[(self as usize + by) % Tab::COUNT]
    }
}

/// Where a tab's reader is, and how it is sorted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct View {
    /// Selected row, or the first one shown where rows cannot be selected.
    pub(super) row: usize,
    /// First row shown.
    pub(super) first: usize,
    /// Sorted by this column.
    pub(super) sort: usize,
    pub(super) reversed: bool,
}

impl View {
    /// The first of `height` rows to show so that the selected one of `total` is among them.
    pub(super) fn window(self, total: usize, height: usize) -> View {
        let row = self.row.min(total.saturating_sub(1));
        let first = self
            .first
            .min(total.saturating_sub(height))
            .min(row)
            .max((row + 1).saturating_sub(height));
        View { row, first, ..self }
    }
}

/// What is typed next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Keys,
    /// The words to search for.
    Search,
    /// One of a list, narrowed by what is typed.
    Pick,
    Help,
}

/// Where things were drawn, for the mouse.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Title of each tab that is visible.
    pub(super) tabs: Vec<(Rect, Tab)>,
    /// The rows, and the number of the first.
    pub(super) rows: Rect,
    pub(super) first: usize,
    /// Rows that there are, shown or not.
    pub(super) total: usize,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct App {
    pub(super) tab: Tab,
    pub(super) views: [View; Tab::COUNT],
    pub(super) mode: Mode,
    pub(super) interval: Option<Box<Report>>,
    pub(super) run: Option<Box<Report>>,
    /// Show the last interval instead of the whole run.
    pub(super) of_interval: bool,
    /// Nothing new is shown until it is pressed again.
    pub(super) paused: bool,
    /// Of the calls that pass the filters.
    pub(super) seen: Seen,
    /// Files by directory.
    pub(super) by_directory: bool,
    /// The last one on top.
    pub(super) filters: Vec<Filter>,
    /// What is typed after `/`.
    pub(super) search: String,
    pub(super) picker: Picker,
    /// p99 of the echoes of each interval, ns.
    pub(super) history: VecDeque<u64>,
    /// Between the beginnings of two inputs, ns.
    pub(super) gaps: Snapshot,
    last_input_ns: u64,
    pub(super) stream: Stream,
    /// Updates that came too fast to be shown.
    pub(super) shed: u64,
    pub(super) flame: Flame,
    pub(super) recorded: Option<Recorded>,
    /// Said in the last line until the next key.
    pub(super) message: Option<String>,
    pub(super) places: Places,
    /// Something came that no frame has shown.
    pub(super) stale: bool,
}

impl App {
    /// The report that is looked at.
    pub(super) fn report(&self) -> Option<&Report> {
        let report = if self.of_interval {
            &self.interval
        } else {
            &self.run
        };
        report.as_deref()
    }

    pub(super) fn view(&self) -> View {
        self.views[self.tab as usize]
    }

    pub(super) fn view_mut(&mut self) -> &mut View {
        &mut self.views[self.tab as usize]
    }

    /// What is looked at of the calls.
    pub(super) fn look(&self) -> Look {
        let sort = self.view().sort;
        let picks_files = self.mode == Mode::Pick && self.picker.is_of_files();
        let rows = match self.tab {
            _ if picks_files => Some((Kind::Files, Measure::Time)),
            Tab::Syscalls => Some((Kind::Syscalls, syscalls::measure(sort))),
            Tab::Files if self.by_directory => Some((Kind::Directories, files::measure(sort))),
            Tab::Files => Some((Kind::Files, files::measure(sort))),
            Tab::Processes => Some((Kind::Processes, Measure::Time)),
            _ => None,
        };
        Look {
            rows,
            tree: (self.tab == Tab::Flame)
                .then(|| self.flame.of_calls())
                .flatten(),
            series: self.tab == Tab::Latency,
            recent: self.tab == Tab::Stream,
            held: self.paused,
        }
    }

    /// Takes what the session tells.
    pub(super) fn take(&mut self, update: Update) {
        match update {
            Update::Reports { shed, .. } if self.paused => self.shed = shed,
            Update::Reports {
                interval,
                run,
                shed,
            } => {
                self.shed = shed;
                let p99 = interval.echoes.as_ref().map_or(0, |e| e.length.p99);
                if self.history.len() == HISTORY {
                    self.history.pop_front();
                }
                self.history.push_back(p99);
                (self.interval, self.run) = (Some(interval), Some(run));
            }
            Update::Chains(chains) => {
                for chain in chains {
                    // Inputs are told when they end: not always in the order in which they began.
                    if self.last_input_ns != 0 && chain.unix_ns >= self.last_input_ns {
                        self.gaps.record(chain.unix_ns - self.last_input_ns);
                    }
                    self.last_input_ns = self.last_input_ns.max(chain.unix_ns);
                    self.stream.push(Echo::of_chain(&chain));
                }
            }
            Update::Calls(mut seen) => {
                let recent = std::mem::take(&mut seen.recent);
                self.stream.calls(recent, seen.anew, seen.unix_offset_ns);
                self.seen = *seen;
            }
            Update::Recorded(recorded) => self.recorded = recorded,
            Update::Said(what) => self.message = Some(what),
        }
    }

    /// One more filter on top, unless it is there.
    pub(super) fn push_filter(&mut self, filter: Filter) {
        if self.filters.last() != Some(&filter) {
            self.filters.push(filter);
        }
    }

    /// Nothing new, or all that has come meanwhile.
    pub(super) fn pause_or_go_on(&mut self) {
        self.paused = !self.paused;
        self.stream.hold(self.paused);
    }

    /// Counts from here; the session does the same.
    pub(super) fn reset(&mut self) {
        self.gaps = Snapshot::new();
        self.last_input_ns = 0;
        self.history.clear();
        self.stream.clear();
        self.seen = Seen::default();
        self.message = Some("counting from here".into());
    }
}
