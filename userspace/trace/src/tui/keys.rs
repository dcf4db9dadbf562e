//! What a key or the mouse does.

use std::path::Path;

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::Request;
use super::app::{App, Mode, Tab};
use super::export::export;
use super::tabs::flame::Move;
use super::tabs::stream::Follow;

/// Every key, as `?` shows them.
pub(super) const HELP: &[&str] = &[
    "tab, shift-tab, 1 … 9, 0   another tab (or a click on it)",
    "j k, arrows, page up/down  move (or the wheel)     g G  first, last",
    "s S    sort by the next column; turn the order around",
    "i      the last interval, or all since the start",
    "r      reset: count from here",
    "e      export the report that is shown as JSON, into the current folder",
    "q      quit (ctrl-c too)",
    "stream space pauses, / searches, h l choose a column, enter keeps only rows",
    "       that say the same there as the selected one, esc takes that back",
    "flame  h j k l select, enter zooms in, u or esc back out, b what the width",
    "       means, o the order of the blocks",
    "? H    this help; any key leaves it",
];

/// Rows of a turn of the wheel.
const WHEEL: isize = 3;

/// Changes the app; gives what is to be asked of the session.
pub(super) fn handle(app: &mut App, event: &Event) -> Option<Request> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => pressed(app, *key),
        Event::Mouse(mouse) => {
            clicked(app, *mouse);
            None
        }
        _ => None,
    }
}

fn pressed(app: &mut App, key: KeyEvent) -> Option<Request> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control && key.code == KeyCode::Char('c') {
        return Some(Request::Quit);
    }
    if control || key.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    app.message = None;
    let mode = app.mode;
    match mode {
        Mode::Help => app.mode = Mode::Keys,
        Mode::Search => searching(app, key.code),
        Mode::Keys if of_tab(app, key.code) => {}
        Mode::Keys => return everywhere(app, key.code),
    }
    None
}

fn searching(app: &mut App, key: KeyCode) {
    match key {
        KeyCode::Enter => {
            app.stream.push_search();
            app.mode = Mode::Keys;
        }
        KeyCode::Esc => {
            app.stream.search.clear();
            app.mode = Mode::Keys;
        }
        KeyCode::Backspace => {
            app.stream.search.pop();
        }
        KeyCode::Char(c) => app.stream.search.push(c),
        _ => {}
    }
}

/// Keys that mean something in one tab alone; whether it was one.
fn of_tab(app: &mut App, key: KeyCode) -> bool {
    match app.tab {
        Tab::Stream => stream(app, key),
        Tab::Flame => flame(app, key),
        _ => false,
    }
}

fn stream(app: &mut App, key: KeyCode) -> bool {
    let columns = 5;
    match key {
        KeyCode::Char(' ') => app.stream.pause_or_go_on(),
        KeyCode::Char('/') => {
            app.stream.search.clear();
            app.mode = Mode::Search;
        }
        KeyCode::Char('h') | KeyCode::Left => app.stream.turn_column(columns),
        KeyCode::Char('l') | KeyCode::Right => app.stream.turn_column(1),
        KeyCode::Enter => {
            let row = app.view().row;
            app.stream.push_filter(row);
        }
        KeyCode::Esc => app.stream.pop_filter(),
        _ => return false,
    }
    true
}

fn flame(app: &mut App, key: KeyCode) -> bool {
    let to = match key {
        KeyCode::Char('h') | KeyCode::Left => Move::Left,
        KeyCode::Char('l') | KeyCode::Right => Move::Right,
        KeyCode::Char('j') | KeyCode::Down => Move::Down,
        KeyCode::Char('k') | KeyCode::Up => Move::Up,
        KeyCode::Enter => {
            app.flame.zoom();
            return true;
        }
        KeyCode::Char('u') | KeyCode::Esc => {
            app.flame.undo();
            return true;
        }
        KeyCode::Char('b') => {
            app.flame.turn_metric();
            return true;
        }
        KeyCode::Char('o') => {
            app.flame.turn_order();
            return true;
        }
        _ => return false,
    };
    let report = if app.of_interval {
        &app.interval
    } else {
        &app.run
    };
    if let Some(report) = report {
        app.flame.select(to, report);
    }
    true
}

fn everywhere(app: &mut App, key: KeyCode) -> Option<Request> {
    let page = isize::try_from(app.places.rows.height).unwrap_or(1).max(1);
    match key {
        KeyCode::Char('q') => return Some(Request::Quit),
        KeyCode::Char('r') => {
            app.reset();
            return Some(Request::Reset);
        }
        KeyCode::Char('?' | 'H') => app.mode = Mode::Help,
        KeyCode::Tab => app.tab = app.tab.further(1),
        KeyCode::BackTab => app.tab = app.tab.further(Tab::COUNT - 1),
        KeyCode::Char(digit @ '0'..='9') => {
            let number = digit.to_digit(10).map_or(0, |d| d as usize);
            app.tab = Tab::ALL[(number + Tab::COUNT - 1) % Tab::COUNT];
        }
        KeyCode::Char('j') | KeyCode::Down => go(app, 1),
        KeyCode::Char('k') | KeyCode::Up => go(app, -1),
        KeyCode::PageDown => go(app, page),
        KeyCode::PageUp => go(app, -page),
        KeyCode::Char('g') | KeyCode::Home => go(app, isize::MIN),
        KeyCode::Char('G') | KeyCode::End => go(app, isize::MAX),
        KeyCode::Char('s') => app.view_mut().sort += 1,
        KeyCode::Char('S') => {
            let view = app.view_mut();
            view.reversed = !view.reversed;
        }
        KeyCode::Char('i') => app.of_interval = !app.of_interval,
        KeyCode::Char('e') => {
            let said = app.report().map(|report| export(report, Path::new(".")));
            app.message = Some(match said {
                Some(Ok(path)) => format!("written to {}", path.display()),
                Some(Err(error)) => format!("not exported: {error:#}"),
                None => "there is no report yet".into(),
            });
        }
        KeyCode::Char('R') => {
            app.message = Some("to record, beside this: sudo phux-trace record".into());
        }
        _ => {}
    }
    None
}

/// So many rows further; the next frame sees to it that there is such a row.
fn go(app: &mut App, by: isize) {
    let total = app.places.total;
    let view = app.view_mut();
    view.row = view
        .row
        .saturating_add_signed(by)
        .min(total.saturating_sub(1));
    if app.tab == Tab::Stream {
        let newest = app.view().row + 1 >= total && by > 0;
        app.stream.follow = if newest { Follow::Newest } else { Follow::Stay };
    }
}

fn clicked(app: &mut App, mouse: MouseEvent) {
    let at = (mouse.column, mouse.row).into();
    match mouse.kind {
        MouseEventKind::ScrollDown => go(app, WHEEL),
        MouseEventKind::ScrollUp => go(app, -WHEEL),
        MouseEventKind::Down(MouseButton::Left) => {
            let hit = app.places.tabs.iter().find(|(place, _)| place.contains(at));
            if let Some((_, tab)) = hit {
                app.tab = *tab;
                app.mode = Mode::Keys;
            } else if app.places.rows.contains(at) {
                let row = app.places.first + usize::from(mouse.row - app.places.rows.y);
                let now = app.view().row;
                let by = isize::try_from(row).unwrap_or(0) - isize::try_from(now).unwrap_or(0);
                if by != 0 {
                    go(app, by);
                }
            }
        }
        _ => {}
    }
}
