//! The last calls and echoes one by one, in the order of their ends.

use std::collections::VecDeque;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::app::{App, View};
use super::super::table::cut;
use super::Page;
use super::ranked::tail;
use crate::escape::name;
use crate::report::model::{ChainRow, EndKind};
use crate::report::units::{NONE, bytes, count, duration};
use crate::report::{clock, text};
use crate::syscalls::view::{Filter, errno_name, holds};
use crate::syscalls::{Call, End};

/// Rows kept of each.
pub(in super::super) const ROWS: usize = 10_000;
/// Titles and widths; the last column takes what is left.
const COLUMNS: [(&str, usize); 7] = [
    ("time", 12),
    ("thread", 12),
    ("call", 11),
    ("took", 6),
    ("bytes", 7),
    ("result", 8),
    ("file, or longest step", 0),
];

/// One echo, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Echo {
    end_unix_ns: u64,
    index: u32,
    bytes: u64,
    length_ns: u64,
    end: EndKind,
    inexact: bool,
    longest: String,
}

impl Echo {
    pub(in super::super) fn of_chain(chain: &ChainRow) -> Echo {
        Echo {
            end_unix_ns: chain.unix_ns.saturating_add(chain.length_ns),
            index: chain.index,
            bytes: chain.bytes,
            length_ns: chain.length_ns,
            end: chain.end,
            inexact: chain.inexact,
            longest: text::longest_step(chain),
        }
    }

    fn end(&self) -> &'static str {
        match self.end {
            EndKind::Echoed if self.inexact => "inexact",
            EndKind::Echoed => "echoed",
            EndKind::Silent => "silent",
            EndKind::Unread => "unread",
            EndKind::Late => "late",
            EndKind::Undelivered => "undelivered",
            EndKind::Lost => "lost",
            EndKind::Open => "open",
        }
    }

    fn passes(&self, filter: &Filter, offset: i128) -> bool {
        match filter {
            Filter::Echoes => true,
            Filter::Took(ns) => self.length_ns >= *ns,
            Filter::Bytes(n) => self.bytes >= *n,
            Filter::Since(ns) => i128::from(self.end_unix_ns) >= i128::from(*ns) + offset,
            Filter::Words(words) => {
                holds("echo", words)
                    || holds(self.end(), words)
                    || holds(&self.longest, words)
                    || holds(&format!("pts/{}", self.index), words)
            }
            _ => false,
        }
    }
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Item<'a> {
    Call(&'a Call),
    Echo(&'a Echo),
}

/// The rows, and where the reader is.
#[derive(Debug, Default)]
pub(in super::super) struct Stream {
    calls: VecDeque<Call>,
    echoes: VecDeque<Echo>,
    /// Echoes that came while it was paused; the calls are held by the session.
    held: VecDeque<Echo>,
    paused: bool,
    unix_offset_ns: i128,
    /// The column that a filter would be made of.
    column: usize,
    /// The newest row is kept in sight.
    pub(in super::super) follow: Follow,
}

/// Whether the newest row is kept in sight: it is, until the reader moves away from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) enum Follow {
    #[default]
    Newest,
    Stay,
}

impl Stream {
    pub(in super::super) fn push(&mut self, echo: Echo) {
        let rows = if self.paused {
            &mut self.held
        } else {
            &mut self.echoes
        };
        if rows.len() == ROWS {
            rows.pop_front();
        }
        rows.push_back(echo);
    }

    /// More calls, or `anew` all that there are now.
    pub(in super::super) fn calls(&mut self, new: Vec<Call>, anew: bool, unix_offset_ns: i128) {
        if anew {
            self.calls.clear();
        }
        self.unix_offset_ns = unix_offset_ns;
        self.calls.extend(new);
        let over = self.calls.len().saturating_sub(ROWS);
        self.calls.drain(..over);
    }

    pub(in super::super) fn clear(&mut self) {
        self.calls.clear();
        self.echoes.clear();
        self.held.clear();
    }

    pub(in super::super) fn hold(&mut self, paused: bool) {
        self.paused = paused;
        if !paused {
            for echo in std::mem::take(&mut self.held) {
                self.push(echo);
            }
        }
    }

    /// The next column, or the one before.
    pub(in super::super) fn turn_column(&mut self, by: usize) {
        self.column = (self.column + by) % COLUMNS.len();
    }

    /// What is true of the row's chosen column and of others like it.
    pub(in super::super) fn filter_of(&self, item: Item<'_>) -> Option<Filter> {
        let call = match item {
            Item::Call(call) => call,
            Item::Echo(echo) => {
                return Some(match self.column {
                    0 => Filter::Since(self.monotonic(echo.end_unix_ns)),
                    3 => Filter::Took(echo.length_ns),
                    4 => Filter::Bytes(echo.bytes),
                    5 => Filter::Words(echo.end().to_lowercase()),
                    _ => Filter::Echoes,
                });
            }
        };
        Some(match self.column {
            0 => Filter::Since(call.start.saturating_add(call.dur)),
            1 => Filter::Thread(call.tid, call.comm.to_string()),
            2 => Filter::Syscall(call.nr),
            3 => Filter::Took(call.dur),
            4 => Filter::Bytes(call.bytes),
            5 => Filter::Errno(call.errno()),
            _ => Filter::File(call.file.as_ref()?.to_string()),
        })
    }

    fn monotonic(&self, unix_ns: u64) -> u64 {
        u64::try_from(i128::from(unix_ns) - self.unix_offset_ns).unwrap_or(0)
    }

    fn unix(&self, monotonic_ns: u64) -> u64 {
        u64::try_from(i128::from(monotonic_ns) + self.unix_offset_ns).unwrap_or(0)
    }

    /// What passes the filters, the oldest first.
    pub(in super::super) fn items<'a>(
        &'a self,
        filters: &'a [Filter],
    ) -> impl Iterator<Item = Item<'a>> {
        let calls = self.calls.iter();
        let mut calls = calls
            .filter(|c| filters.iter().all(|f| f.passes(c)))
            .peekable();
        let echoes = self.echoes.iter();
        let offset = self.unix_offset_ns;
        let mut echoes = echoes
            .filter(move |e| filters.iter().all(|f| e.passes(f, offset)))
            .peekable();
        std::iter::from_fn(move || {
            let call_first = match (calls.peek(), echoes.peek()) {
                (Some(c), Some(e)) => self.unix(c.start.saturating_add(c.dur)) <= e.end_unix_ns,
                (call, _) => call.is_some(),
            };
            match call_first {
                true => calls.next().map(Item::Call),
                false => echoes.next().map(Item::Echo),
            }
        })
    }

    /// How many that are.
    pub(in super::super) fn total(&self, filters: &[Filter]) -> usize {
        if filters.is_empty() {
            self.calls.len() + self.echoes.len()
        } else {
            self.items(filters).count()
        }
    }

    /// What its columns say.
    pub(in super::super) fn cells(&self, item: Item<'_>) -> [String; COLUMNS.len()] {
        let at = |unix_ns: u64| clock::time(unix_ns, clock::local_offset(unix_ns / 1_000_000_000));
        match item {
            Item::Call(c) => [
                at(self.unix(c.start.saturating_add(c.dur))),
                format!("{} {}", c.tid, name(&c.comm)),
                c.name().to_owned(),
                duration(c.dur),
                match c.bytes {
                    0 => NONE.to_owned(),
                    n => bytes(n),
                },
                result(c),
                files(c),
            ],
            Item::Echo(e) => [
                at(e.end_unix_ns),
                format!("pts/{}", e.index),
                "echo".into(),
                duration(e.length_ns),
                bytes(e.bytes),
                e.end().to_owned(),
                e.longest.clone(),
            ],
        }
    }
}

fn result(c: &Call) -> String {
    match (c.end, c.errno()) {
        (End::Returned, 0) => c.ret.to_string(),
        (End::Returned, errno) => errno_name(errno),
        _ => NONE.into(),
    }
}

fn files(c: &Call) -> String {
    match (&c.file, &c.file2) {
        (Some(a), Some(b)) => format!("{} ← {}", name(a), name(b)),
        (Some(a), None) | (None, Some(a)) => name(a).into_owned(),
        (None, None) => String::new(),
    }
}

pub(super) fn page(app: &App, width: usize, height: usize) -> Page {
    let stream = &app.stream;
    let total = stream.total(&app.filters);
    let mut head = vec![titles(stream)];
    let room = |head: &[Line<'_>]| height.saturating_sub(head.len()).max(1);
    let view = position(app, total).window(total, room(&head));
    if height > 6 {
        let selected = stream.items(&app.filters).nth(view.row);
        let detail = selected.map(|i| full(i, width)).unwrap_or_default();
        head.insert(0, detail.into());
    }
    let room = room(&head);
    let first = position(app, total).window(total, room).first;
    let shown = stream.items(&app.filters).skip(first).take(room);
    Page {
        rows: shown.map(|i| line(stream, i, width)).collect(),
        head,
        first,
        total,
        select: true,
    }
}

/// Where the reader is: at the newest row, if that is followed.
pub(in super::super) fn position(app: &App, total: usize) -> View {
    let mut view = app.view();
    if app.stream.follow == Follow::Newest {
        view.row = total.saturating_sub(1);
    }
    view
}

/// What the columns have no room for.
fn full(item: Item<'_>, width: usize) -> String {
    match item {
        Item::Call(c) => {
            let fd = match c.fd {
                -1 => String::new(),
                fd => format!(" fd {fd}"),
            };
            let figures = format!(
                "pid {} CPU {}{fd}, gap {} ({} off CPU), blocked {}, CPU wait {} ",
                c.pid,
                c.cpu,
                duration(c.gap),
                duration(c.gap_off_ns),
                duration(c.blocked_ns),
                duration(c.wait_ns),
            );
            let room = width.saturating_sub(figures.chars().count()).max(12);
            figures + &tail(&files(c), room)
        }
        Item::Echo(e) => format!(
            "echo on pts/{}: {} after {}, longest step {}",
            e.index,
            e.end(),
            duration(e.length_ns),
            e.longest
        ),
    }
}

fn titles(stream: &Stream) -> Line<'static> {
    let title = |(i, (title, width)): (usize, &(&'static str, usize))| {
        let mut style = Style::new().add_modifier(Modifier::BOLD);
        if i == stream.column {
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        vec![Span::styled(format!("{title:<width$}"), style), " ".into()]
    };
    let titles = COLUMNS.iter().enumerate().flat_map(title);
    Line::from(titles.collect::<Vec<_>>())
}

fn line(stream: &Stream, item: Item<'_>, width: usize) -> Line<'static> {
    let before: usize = COLUMNS.iter().map(|(_, w)| w + usize::from(*w > 0)).sum();
    let room = width.saturating_sub(before).max(8);
    let cells = stream.cells(item);
    let cell = |(text, (_, width)): (&String, &(&str, usize))| match (width, item) {
        (0, Item::Call(_)) => tail(text, room),
        (0, Item::Echo(_)) => text.clone(),
        _ => format!("{:<width$} ", cut(text, *width)),
    };
    let text: String = cells.iter().zip(&COLUMNS).map(cell).collect();
    let style = match item {
        Item::Echo(e) if matches!(e.end(), "late" | "unread" | "undelivered") => {
            Style::new().fg(Color::Red)
        }
        Item::Echo(_) => Style::new().fg(Color::Cyan),
        Item::Call(c) if c.errno() != 0 => Style::new().fg(Color::Red),
        Item::Call(_) => Style::new(),
    };
    Line::styled(text, style)
}

/// How many there are, in words.
pub(in super::super) fn told(app: &App) -> String {
    let rows = count(app.stream.total(&app.filters) as u64);
    match app.stream.held.len() {
        0 => format!("{rows} rows"),
        n => format!("{rows} rows, {} more echoes came", count(n as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syscalls::stats::tests::call;

    fn echo(n: u64, end: EndKind) -> Echo {
        Echo {
            end_unix_ns: n,
            index: 1,
            bytes: 1,
            length_ns: n,
            end,
            inexact: false,
            longest: "x".into(),
        }
    }

    #[test]
    fn the_last_ten_thousand_are_kept_and_a_pause_holds_the_rest() {
        let mut stream = Stream::default();
        (0..ROWS as u64 + 5).for_each(|n| stream.push(echo(n, EndKind::Echoed)));
        assert_eq!(stream.total(&[]), ROWS);
        stream.hold(true);
        stream.push(echo(0, EndKind::Late));
        let last = echo(ROWS as u64 + 4, EndKind::Echoed);
        assert_eq!(stream.echoes.back(), Some(&last));
        stream.hold(false);
        assert_eq!(stream.echoes.back(), Some(&echo(0, EndKind::Late)));
        assert_eq!((stream.total(&[]), stream.held.len()), (ROWS, 0));
        let calls = vec![call(1, None, 0, 7, 5); ROWS + 1];
        stream.calls(calls, false, 0);
        assert_eq!(stream.total(&[]), 2 * ROWS);
        stream.calls(vec![call(1, None, 0, 7, 5)], true, 0);
        assert_eq!(stream.calls.len(), 1, "the filters were others");
    }

    #[test]
    fn calls_and_echoes_are_in_the_order_of_their_ends() {
        let mut stream = Stream::default();
        stream.calls(
            vec![call(1, None, 0, 10, 1), call(2, None, 1, 30, 1)],
            false,
            100,
        );
        stream.push(echo(120, EndKind::Echoed));
        stream.push(echo(140, EndKind::Late));
        let order = |filters: &[Filter]| {
            let items = stream.items(filters);
            items
                .map(|i| stream.cells(i)[2].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(order(&[]), ["read", "echo", "write", "echo"]);
        assert_eq!(order(&[Filter::Since(20)]), ["echo", "write", "echo"]);
        assert_eq!(order(&[Filter::Echoes]), ["echo", "echo"]);
        assert_eq!(order(&[Filter::Words("late".into())]), ["echo"]);
        assert_eq!(order(&[Filter::Process(2, "x".into())]), ["write"]);
    }

    #[test]
    fn every_column_makes_a_filter_that_its_row_passes() {
        let mut stream = Stream::default();
        let mut names = crate::syscalls::Names::default();
        let file = names.get("/tmp/a");
        stream.calls(vec![call(1, Some(file), 0, 10, 1)], false, 100);
        stream.push(echo(120, EndKind::Late));
        for _ in 0..COLUMNS.len() {
            for (nth, item) in stream.items(&[]).enumerate() {
                let filter = [stream.filter_of(item).expect("a filter")];
                let left: Vec<_> = stream.items(&filter).map(|i| stream.cells(i)).collect();
                let own = stream.cells(stream.items(&[]).nth(nth).expect("it"));
                assert!(left.contains(&own), "{filter:?}");
            }
            stream.column = (stream.column + 1) % COLUMNS.len();
        }
    }
}
