//! A table whose rows can be sorted by any column.

use std::cmp::Ordering;

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::app::View;
use crate::escape::visible;
use crate::report::units;

/// A column: its title and width; figures stand to the right.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) width: usize,
    pub(super) right: bool,
}

/// A column of figures.
pub(super) const fn figure(title: &'static str, width: usize) -> Column {
    Column {
        title,
        width,
        right: true,
    }
}

/// A column of words.
pub(super) const fn words(title: &'static str, width: usize) -> Column {
    Column {
        title,
        width,
        right: false,
    }
}

/// What a cell shows, and what it is sorted by: figures fall, words rise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Figure(u64, String),
    Words(String),
}

impl Cell {
    pub(super) fn words(text: &str) -> Cell {
        Cell::Words(visible(text).into_owned())
    }

    pub(super) fn time(ns: u64) -> Cell {
        Cell::Figure(ns, units::duration(ns))
    }

    pub(super) fn count(n: u64) -> Cell {
        Cell::Figure(n, units::count(n))
    }

    pub(super) fn bytes(n: u64) -> Cell {
        Cell::Figure(n, units::bytes(n))
    }

    /// A figure of a distribution that is empty is none.
    pub(super) fn if_any(self, count: u64) -> Cell {
        match self {
            Cell::Figure(..) if count == 0 => Cell::Figure(0, units::NONE.into()),
            other => other,
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Cell::Figure(_, text) | Cell::Words(text) => text,
        }
    }

    fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Figure(a, _), Cell::Figure(b, _)) => b.cmp(a),
            (Cell::Words(a), Cell::Words(b)) => a.cmp(b),
            (Cell::Figure(..), Cell::Words(_)) => Ordering::Less,
            (Cell::Words(_), Cell::Figure(..)) => Ordering::Greater,
        }
    }
}

/// Sorts the rows as the view has it. Cells behind the last column go with them.
pub(super) fn sort(columns: &[Column], rows: &mut [Vec<Cell>], view: View) {
    let by = view.sort % columns.len().max(1);
    rows.sort_by(|a, b| {
        let order = match (a.get(by), b.get(by)) {
            (Some(a), Some(b)) => a.order(b),
            _ => Ordering::Equal,
        };
        if view.reversed {
            order.reverse()
        } else {
            order
        }
    });
}

/// Sorts the rows as the view has it; gives the head and a line for each.
pub(super) fn lines(
    columns: &[Column],
    mut rows: Vec<Vec<Cell>>,
    view: View,
) -> (Line<'static>, Vec<Line<'static>>) {
    sort(columns, &mut rows, view);
    let by = view.sort % columns.len().max(1);
    let head = columns.iter().enumerate().map(|(i, column)| {
        let mut style = Style::new().add_modifier(Modifier::BOLD);
        if i == by {
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        Span::styled(fitted(column.title, column), style)
    });
    let head = spaced(head);
    let rows = rows.iter().map(|row| {
        let cells = row.iter().zip(columns);
        spaced(cells.map(|(cell, column)| Span::raw(fitted(cell.text(), column))))
    });
    (head, rows.collect())
}

fn spaced(cells: impl Iterator<Item = Span<'static>>) -> Line<'static> {
    let mut spans = Vec::new();
    for cell in cells {
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        spans.push(cell);
    }
    Line::from(spans)
}

/// Exactly as wide as its column; longer words are cut. The last column, of width 0, is as it is.
fn fitted(text: &str, column: &Column) -> String {
    if column.width == 0 {
        return text.to_owned();
    }
    let text = cut(text, column.width);
    let pad = " ".repeat(column.width.saturating_sub(text.width()));
    if column.right {
        pad + &text
    } else {
        text + &pad
    }
}

/// At most `width` columns of `text`, with a mark where some are left out.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if used > width {
            break;
        }
        out.push(c);
    }
    if width > 0 {
        out.push('…');
    }
    out
}
