//! The last echoes one by one: paused, searched, and narrowed by filters pushed and popped.

use std::collections::VecDeque;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::app::App;
use super::super::table::cut;
use super::Page;
use crate::report::model::{ChainRow, EndKind};
use crate::report::units::{bytes, count, duration};
use crate::report::{clock, text};

/// Rows kept.
pub(in super::super) const ROWS: usize = 10_000;
/// Titles and widths; the last column takes what is left.
const COLUMNS: [(&str, usize); 6] = [
    ("time", 12),
    ("pty", 8),
    ("in", 7),
    ("took", 6),
    ("end", 11),
    ("longest step", 0),
];

/// One echo, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Row([String; COLUMNS.len()]);

impl Row {
    pub(in super::super) fn of_chain(chain: &ChainRow) -> Row {
        let end = match chain.end {
            EndKind::Echoed if chain.inexact => "inexact",
            EndKind::Echoed => "echoed",
            EndKind::Silent => "silent",
            EndKind::Unread => "unread",
            EndKind::Late => "late",
            EndKind::Undelivered => "undelivered",
            EndKind::Lost => "lost",
            EndKind::Open => "open",
        };
        let offset = clock::local_offset(chain.unix_ns / 1_000_000_000);
        Row([
            clock::time(chain.unix_ns, offset),
            format!("pts/{}", chain.index),
            bytes(chain.bytes),
            duration(chain.length_ns),
            end.to_owned(),
            text::longest_step(chain),
        ])
    }

    fn holds(&self, words: &str) -> bool {
        self.0.iter().any(|c| c.to_lowercase().contains(words))
    }
}

/// The rows, and what of them is looked at.
#[derive(Debug, Default)]
pub(in super::super) struct Stream {
    rows: VecDeque<Row>,
    /// What came while it was paused.
    held: VecDeque<Row>,
    pub(in super::super) paused: bool,
    /// The column that a filter would be made of.
    column: usize,
    /// Column and what it must say; for the words of a search, `None`.
    filters: Vec<(Option<usize>, String)>,
    /// What is typed after `/`, in lower case once it is searched for.
    pub(in super::super) search: String,
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
    pub(in super::super) fn push(&mut self, row: Row) {
        let rows = if self.paused {
            &mut self.held
        } else {
            &mut self.rows
        };
        if rows.len() == ROWS {
            rows.pop_front();
        }
        rows.push_back(row);
    }

    pub(in super::super) fn clear(&mut self) {
        self.rows.clear();
        self.held.clear();
    }

    pub(in super::super) fn pause_or_go_on(&mut self) {
        self.paused = !self.paused;
        if !self.paused {
            for row in std::mem::take(&mut self.held) {
                self.push(row);
            }
        }
    }

    /// The next column, or the one before.
    pub(in super::super) fn turn_column(&mut self, by: usize) {
        self.column = (self.column + by) % COLUMNS.len();
    }

    /// Only rows that say the same in the chosen column as the one that is selected.
    pub(in super::super) fn push_filter(&mut self, selected: usize) {
        let of = |row: &Row| row.0.get(self.column).cloned();
        let value = self.matching().nth(selected).and_then(of);
        if let Some(value) = value {
            self.filters.push((Some(self.column), value));
        }
    }

    /// Only rows that hold the words.
    pub(in super::super) fn push_search(&mut self) {
        let words = std::mem::take(&mut self.search).to_lowercase();
        if !words.is_empty() {
            self.filters.push((None, words));
        }
    }

    pub(in super::super) fn pop_filter(&mut self) {
        self.filters.pop();
    }

    fn matching(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| {
            self.filters.iter().all(|(column, value)| match column {
                Some(column) => row.0.get(*column) == Some(value),
                None => row.holds(value),
            })
        })
    }

    /// How many rows pass the filters.
    pub(in super::super) fn total(&self) -> usize {
        if self.filters.is_empty() {
            self.rows.len()
        } else {
            self.matching().count()
        }
    }
}

pub(super) fn page(app: &App, height: usize) -> Page {
    let stream = &app.stream;
    let total = stream.total();
    let mut head = vec![status(app, total), titles(stream)];
    if height <= 4 {
        // On a terminal of five lines the rows matter more.
        head.remove(0);
    }
    let room = height.saturating_sub(head.len()).max(1);
    let first = position(app, total).window(total, room).first;
    let shown = stream.matching().skip(first).take(room);
    Page {
        head,
        rows: shown.map(line).collect(),
        first,
        total,
        select: true,
    }
}

/// Where the reader is: at the newest row, if that is followed.
pub(in super::super) fn position(app: &App, total: usize) -> super::super::app::View {
    let mut view = app.view();
    if app.stream.follow == Follow::Newest {
        view.row = total.saturating_sub(1);
    }
    view
}

fn status(app: &App, total: usize) -> Line<'static> {
    let stream = &app.stream;
    let mut text = format!("{} echoes", count(total as u64));
    if stream.paused {
        text += &format!(", paused, {} more came", count(stream.held.len() as u64));
    }
    if app.shed > 0 {
        text += &format!(", {} updates were too fast to show", count(app.shed));
    }
    for (column, value) in &stream.filters {
        let title = column.and_then(|c| COLUMNS.get(c)).map_or("any", |c| c.0);
        text += &format!(" | {title}: {value}");
    }
    Line::from(text)
}

fn titles(stream: &Stream) -> Line<'static> {
    let title = |(i, (title, width)): (usize, &(&'static str, usize))| {
        let mut style = Style::new().add_modifier(Modifier::BOLD);
        if i == stream.column {
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        vec![Span::styled(format!("{title:<width$}"), style), " ".into()]
    };
    Line::from(
        COLUMNS
            .iter()
            .enumerate()
            .flat_map(title)
            .collect::<Vec<_>>(),
    )
}

fn line(row: &Row) -> Line<'static> {
    let cell = |(text, (_, width)): (&String, &(&str, usize))| match width {
        0 => text.clone(),
        _ => format!("{:<width$} ", cut(text, *width)),
    };
    let text: String = row.0.iter().zip(&COLUMNS).map(cell).collect();
    let unanswered = ["late", "unread", "undelivered"].contains(&row.0[4].as_str());
    let style = if unanswered {
        Style::new().fg(Color::Red)
    } else {
        Style::new()
    };
    Line::styled(text, style)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: usize, end: &str) -> Row {
        let text = |s: &str| s.to_owned();
        Row([
            n.to_string(),
            text("pts/1"),
            text("1B"),
            text("1ms"),
            text(end),
            text("x"),
        ])
    }

    #[test]
    fn the_last_ten_thousand_are_kept_and_a_pause_holds_the_rest() {
        let mut stream = Stream::default();
        (0..ROWS + 5).for_each(|n| stream.push(row(n, "echoed")));
        assert_eq!(stream.total(), ROWS);
        stream.pause_or_go_on();
        stream.push(row(0, "late"));
        assert_eq!(stream.rows.back(), Some(&row(ROWS + 4, "echoed")));
        stream.pause_or_go_on();
        assert_eq!(stream.rows.back(), Some(&row(0, "late")));
        assert_eq!((stream.total(), stream.held.len()), (ROWS, 0));
    }

    #[test]
    fn filters_are_pushed_and_popped() {
        let mut stream = Stream::default();
        (0..10).for_each(|n| stream.push(row(n, if n % 2 == 0 { "late" } else { "echoed" })));
        stream.turn_column(4);
        stream.push_filter(0);
        assert_eq!(stream.total(), 5);
        stream.search = "LATE".into();
        stream.push_search();
        assert_eq!(stream.total(), 5);
        stream.search = "nothing like it".into();
        stream.push_search();
        assert_eq!(stream.total(), 0);
        stream.push_filter(0);
        (0..3).for_each(|_| stream.pop_filter());
        assert_eq!(stream.total(), 10);
    }
}
