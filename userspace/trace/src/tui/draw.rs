//! One frame: tabs above, the open one's page, a line of help or news below.
//!
//! Everything is put into the buffer by [`put`], which lets nothing pass that could do more than
//! take its cells, and cuts what does not fit: no size of a terminal is too small.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::app::{App, Mode, Tab};
use super::keys::HELP;
use super::picker;
use super::tabs::{self, stream};
use crate::escape::visible;
use crate::report::units::{count, duration};

/// Draws all of it.
pub(super) fn frame(app: &mut App, buffer: &mut Buffer) {
    let area = buffer.area;
    tab_bar(app, buffer);
    let page = Rect {
        y: area.y.saturating_add(1),
        height: area.height.saturating_sub(2),
        ..area
    };
    if app.mode == Mode::Help {
        for (y, line) in (page.y..page.bottom()).zip(HELP) {
            put(buffer, page.x, y, &Line::from(*line));
        }
    } else if app.mode == Mode::Pick {
        let choices = picker::choices(app);
        let question = picker::question(app);
        let lines = app.picker.lines(question, &choices, page.height.into());
        for (y, line) in (page.y..page.bottom()).zip(&lines) {
            put(buffer, page.x, y, line);
        }
    } else {
        open_tab(app, buffer, page);
    }
    if area.height > 1 {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        let text = format!("{:<1$}", last_line(app), usize::from(area.width));
        put(
            buffer,
            area.x,
            area.bottom() - 1,
            &Line::styled(text, style),
        );
    }
}

/// The titles; as many before the open one are left out as there is no room for.
fn tab_bar(app: &mut App, buffer: &mut Buffer) {
    app.places.tabs.clear();
    let area = buffer.area;
    let label = |tab: Tab| format!("{} {}", (tab as usize + 1) % Tab::COUNT, tab.title());
    let width = |tab: Tab| label(tab).len() + 1;
    let open = app.tab as usize;
    let mut first = 0;
    let until_open = |first: usize| {
        let tabs = Tab::ALL.iter().skip(first).take(open + 1 - first);
        tabs.map(|t| width(*t)).sum::<usize>()
    };
    while first < open && until_open(first) > usize::from(area.width) + 1 {
        first += 1;
    }
    let mut x = area.x;
    for tab in Tab::ALL.into_iter().skip(first) {
        let style = if tab == app.tab {
            Style::new()
                .fg(Color::Cyan)
                .add_modifier(Modifier::REVERSED | Modifier::BOLD)
        } else {
            Style::new().fg(Color::Cyan)
        };
        let text = label(tab);
        let wide = u16::try_from(text.len()).unwrap_or(u16::MAX);
        put(buffer, x, area.y, &Line::styled(text, style));
        let place = Rect::new(x, area.y, wide, 1).intersection(area);
        if place.area() > 0 {
            app.places.tabs.push((place, tab));
        }
        x = x.saturating_add(wide).saturating_add(1);
    }
}

fn open_tab(app: &mut App, buffer: &mut Buffer, area: Rect) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let page = tabs::page(app, width, height);
    // A head that leaves no row is cut.
    let head = page.head.len().min(height.saturating_sub(1));
    for (y, line) in (area.y..area.bottom()).zip(page.head.iter().take(head)) {
        put(buffer, area.x, y, line);
    }
    let head = u16::try_from(head).unwrap_or(0);
    let rows = Rect {
        y: area.y.saturating_add(head),
        height: area.height.saturating_sub(head),
        ..area
    };
    let room = usize::from(rows.height);
    let view = if app.tab == Tab::Stream {
        stream::position(app, page.total)
    } else {
        app.view()
    };
    let mut view = view.window(page.total, room);
    if !page.select {
        // Rows that cannot be selected are moved by the first one shown.
        view.row = view.row.min(page.total.saturating_sub(room));
        view.first = view.row;
    }
    *app.view_mut() = view;
    let shown = page
        .rows
        .iter()
        .skip(view.first - view.first.min(page.first));
    for (i, (y, line)) in (rows.y..rows.bottom()).zip(shown).enumerate() {
        put(buffer, rows.x, y, line);
        if page.select && view.first + i == view.row {
            let selected = Style::new().add_modifier(Modifier::REVERSED);
            buffer.set_style(Rect::new(rows.x, y, rows.width, 1), selected);
        }
    }
    app.places.rows = rows;
    app.places.first = view.first;
    app.places.total = page.total;
}

fn last_line(app: &App) -> String {
    if app.mode == Mode::Search {
        return format!("/{}", app.search);
    }
    if let Some(message) = &app.message {
        return message.clone();
    }
    let mut now = String::new();
    if app.paused {
        now += "PAUSED  ";
    }
    if let Some(r) = &app.recorded {
        now += &format!("REC {} rows", count(r.rows));
        if r.shed > 0 {
            now += &format!(", {} shed", count(r.shed));
        }
        now += "  ";
    }
    for filter in &app.filters {
        now += &format!("[{filter}] ");
    }
    if app.tab == Tab::Stream {
        now += &format!("{}  ", stream::told(app));
    }
    let Some(report) = app.report() else {
        return now + "? help  q quit";
    };
    let what = if app.of_interval { "last" } else { "all" };
    let mut line = format!(
        "{now}? help  q quit  {what} {}",
        duration(report.window.duration_ns)
    );
    let lost = report
        .losses
        .iter()
        .fold(0u64, |s, l| s.saturating_add(l.count));
    if lost > 0 {
        line += &format!("  {} events lost", count(lost));
    }
    if app.shed > 0 {
        line += &format!("  {} updates not shown", count(app.shed));
    }
    line + &format!("  {}", report.target.asked)
}

/// A line at that place, as far as it fits.
pub(super) fn put(buffer: &mut Buffer, x: u16, y: u16, line: &Line<'_>) {
    let area = buffer.area;
    if !area.contains((x, y).into()) {
        return;
    }
    let spans = line.spans.iter();
    let spans = spans.map(|s| Span::styled(visible(&s.content), s.style));
    let line = Line::from(spans.collect::<Vec<_>>()).style(line.style);
    buffer.set_line(x, y, &line, area.right() - x);
}
