//! Tables of calls' figures: the largest first, whatever they are of.

use std::cmp::Ordering;

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::super::app::App;
use super::super::table::{self, Column};
use super::Page;
use crate::report::units::{NONE, bytes, count, duration};
use crate::syscalls::view::{Key, Kind, Measure, Row, Sums};

/// A column of such a table.
pub(in super::super) struct Ranked {
    pub(super) column: Column,
    /// By what the largest are asked for when it is sorted by this.
    pub(super) by: Measure,
    value: Value,
}

enum Value {
    Name,
    Count(fn(&Row) -> u64),
    Bytes(fn(&Row) -> u64),
    Time(fn(&Row) -> u64),
}

const fn ranked(title: &'static str, width: usize, by: Measure, value: Value) -> Ranked {
    Ranked {
        column: table::figure(title, width),
        by,
        value,
    }
}

pub(super) const fn name(title: &'static str, width: usize) -> Ranked {
    Ranked {
        column: table::words(title, width),
        by: Measure::Time,
        value: Value::Name,
    }
}

pub(super) const TIME: Ranked = ranked("time", 6, Measure::Time, Value::Time(|r| r.time_ns));
pub(super) const CALLS: Ranked = ranked("calls", 6, Measure::Count, Value::Count(|r| r.count));
pub(super) const ERRORS: Ranked = ranked("failed", 6, Measure::Errors, Value::Count(|r| r.errors));
pub(super) const BYTES: Ranked = ranked("bytes", 7, Measure::Bytes, Value::Bytes(|r| r.bytes));
pub(super) const BLOCKED: Ranked = ranked(
    "blocked",
    7,
    Measure::Blocked,
    Value::Time(|r| r.blocked_ns),
);
pub(super) const WAIT: Ranked = ranked("cpuw", 6, Measure::Wait, Value::Time(|r| r.wait_ns));
pub(super) const P50: Ranked = ranked("p50", 6, Measure::P50, Value::Time(|r| r.p50));
pub(super) const P95: Ranked = ranked("p95", 6, Measure::P95, Value::Time(|r| r.p95));
pub(super) const P99: Ranked = ranked("p99", 6, Measure::P99, Value::Time(|r| r.p99));
pub(super) const MAX: Ranked = ranked("max", 6, Measure::Max, Value::Time(|r| r.max));

impl Ranked {
    fn size(&self, row: &Row) -> u64 {
        match self.value {
            Value::Name => 0,
            Value::Count(f) | Value::Bytes(f) | Value::Time(f) => f(row),
        }
    }

    /// `room` is what is left for a column without a width.
    fn text(&self, row: &Row, room: usize) -> String {
        match self.value {
            Value::Name if self.column.width == 0 => tail(&row.name, room),
            Value::Name => tail(&row.name, self.column.width),
            Value::Count(f) => count(f(row)),
            Value::Bytes(f) if f(row) == 0 => NONE.into(),
            Value::Bytes(f) => bytes(f(row)),
            Value::Time(f) => duration(f(row)),
        }
    }

    fn order(&self, a: &Row, b: &Row) -> Ordering {
        match self.value {
            Value::Name => a.name.cmp(&b.name),
            _ => self.size(b).cmp(&self.size(a)),
        }
    }
}

/// The measure of a column.
pub(super) fn measure(columns: &[Ranked], sort: usize) -> Measure {
    columns
        .get(sort % columns.len().max(1))
        .map_or(Measure::Time, |c| c.by)
}

/// The rows that there are of that kind, as the view has them sorted.
pub(in super::super) fn sorted<'a>(app: &'a App, kind: Kind, columns: &[Ranked]) -> Vec<&'a Row> {
    let mut rows: Vec<&Row> = match &app.seen.rows {
        Some((of, rows)) if *of == kind => rows.iter().collect(),
        _ => Vec::new(),
    };
    let view = app.view();
    if let Some(column) = columns.get(view.sort % columns.len().max(1)) {
        rows.sort_by(|a, b| match column.order(a, b) {
            order if view.reversed => order.reverse(),
            order => order,
        });
    }
    rows
}

/// The table: what there is of all, the selected row in full, and the rows that fit.
pub(super) fn page(
    app: &App,
    kind: Kind,
    columns: &[Ranked],
    (width, height): (usize, usize),
    none: &'static str,
) -> Page {
    let rows = sorted(app, kind, columns);
    let mut head = vec![Line::from(told(&app.seen.sums))];
    if rows.is_empty() {
        return Page::of(head, vec![Line::from(none)], false);
    }
    let selected = app.view().window(rows.len(), 1).row;
    if height > 6 {
        head.extend(rows.get(selected).map(|r| full(r, width)));
    }
    head.push(titles(columns, app.view().sort));
    let room = height.saturating_sub(head.len()).max(1);
    let first = app.view().window(rows.len(), room).first;
    let before: usize = columns.iter().map(|c| c.column.width + 1).sum();
    let last = (width + 1).saturating_sub(before).max(8);
    let line = |row: &&Row| {
        let cells = columns
            .iter()
            .map(|c| fitted(&c.text(row, last), &c.column));
        Line::from(cells.collect::<Vec<_>>().join(" "))
    };
    Page {
        head,
        rows: rows.iter().skip(first).take(room).map(line).collect(),
        first,
        total: rows.len(),
        select: true,
    }
}

fn titles(columns: &[Ranked], sort: usize) -> Line<'static> {
    let by = sort % columns.len().max(1);
    let mut spans = Vec::new();
    for (i, c) in columns.iter().enumerate() {
        let mut style = Style::new().add_modifier(Modifier::BOLD);
        if i == by {
            style = style.add_modifier(Modifier::UNDERLINED);
        }
        spans.push(Span::styled(fitted(c.column.title, &c.column), style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

/// Sums in words.
pub(in super::super) fn told(s: &Sums) -> String {
    format!(
        "{} calls, {}/s, {} failed, {}; {} in calls: {} blocked, {} CPU wait",
        count(s.count),
        count(s.per_second),
        count(s.errors),
        bytes(s.bytes),
        duration(s.time_ns),
        duration(s.blocked_ns),
        duration(s.wait_ns),
    )
}

/// All of one row; a name that is long shows its end.
fn full(r: &Row, width: usize) -> Line<'static> {
    let figures = format!(
        "p50 {} p95 {} p99 {} max {}, CPU wait {}: ",
        duration(r.p50),
        duration(r.p95),
        duration(r.p99),
        duration(r.max),
        duration(r.wait_ns),
    );
    let room = width.saturating_sub(figures.width()).max(16);
    let pid = match r.key {
        Key::Process(pid) => format!("({pid})"),
        _ => String::new(),
    };
    Line::from(figures + &tail(&r.name, room) + &pid)
}

fn fitted(text: &str, column: &Column) -> String {
    let pad = " ".repeat(column.width.saturating_sub(text.width()));
    if column.right {
        pad + text
    } else {
        text.to_owned() + &pad
    }
}

/// The end of a name that is longer than `width`, 0: any length: of a path that is what tells it from others.
pub(in super::super) fn tail(text: &str, width: usize) -> String {
    let text = crate::escape::visible(text);
    if width == 0 || text.width() <= width {
        return text.into_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut kept: Vec<char> = Vec::new();
    for c in text.chars().rev() {
        let w = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if w > left {
            break;
        }
        left -= w;
        kept.push(c);
    }
    kept.push('…');
    kept.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_shows_its_end_and_fits() {
        assert_eq!(tail("/usr/lib/libc.so", 0), "/usr/lib/libc.so");
        assert_eq!(tail("/usr/lib/libc.so", 16), "/usr/lib/libc.so");
        assert_eq!(tail("/usr/lib/libc.so", 8), "…libc.so");
        assert_eq!(tail("日本語", 5), "…本語");
        for width in 1..20 {
            assert!(tail("/日本/語/a/b/c/long", width).width() <= width);
        }
    }
}
