//! The verdict, the waterfall of an echo, and how long echoes have been over time.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::super::app::App;
use super::Page;
use crate::report::model::Report;
use crate::report::text;
use crate::report::units::duration;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn page(app: &App, report: &Report, width: usize) -> Page {
    let style = text::Style {
        columns: width,
        ..text::Style::default()
    };
    let text = text::render_echo(report, &style);
    let mut rows: Vec<Line<'static>> = text.lines().map(colored).collect();
    if let Some(first) = rows.first_mut() {
        first.style = first.style.add_modifier(Modifier::BOLD);
    }
    Page::of(vec![sparkline(app, width)], rows, false)
}

/// The p99 of the echoes of each interval, the newest to the right.
fn sparkline(app: &App, width: usize) -> Line<'static> {
    let room = width.saturating_sub(30).max(1);
    let shown: Vec<u64> = app.history.iter().rev().take(room).copied().collect();
    let max = shown.iter().copied().max().unwrap_or(0);
    let bars: String = shown.iter().rev().map(|&ns| level(ns, max)).collect();
    Line::from(vec![
        Span::raw(format!("echo p99, {} at most ", duration(max))),
        Span::styled(bars, Style::new().fg(Color::Cyan)),
    ])
}

/// A bar for a value; none for none, so that a pause in the typing is seen.
fn level(value: u64, max: u64) -> char {
    if value == 0 || max == 0 {
        return ' ';
    }
    let index = u128::from(value) * (LEVELS.len() as u128 - 1) / u128::from(max);
    let level = usize::try_from(index).ok().and_then(|i| LEVELS.get(i));
    level.copied().unwrap_or('█')
}

/// The two marks of the waterfall that matter most, in colour; the page is words otherwise.
fn colored(line: &str) -> Line<'static> {
    let color = |c: char| match c {
        '█' => Some(Color::Green),
        '░' => Some(Color::Red),
        _ => None,
    };
    let mut spans: Vec<(String, Option<Color>)> = Vec::new();
    for c in line.chars() {
        let color = color(c);
        match spans.last_mut() {
            Some((text, same)) if *same == color => text.push(c),
            _ => spans.push((c.to_string(), color)),
        }
    }
    let spans = spans.into_iter().map(|(text, color)| match color {
        Some(color) => Span::styled(text, Style::new().fg(color)),
        None => Span::raw(text),
    });
    Line::from(spans.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_go_from_nothing_to_the_largest() {
        assert_eq!(level(0, 9), ' ');
        assert_eq!(level(1, u64::MAX), '▁');
        assert_eq!(level(u64::MAX, u64::MAX), '█');
        assert_eq!(level(5, 0), ' ');
    }
}
