//! What a key or the mouse does.

use std::path::Path;

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::Request;
use super::app::{App, Mode, Tab};
use super::export::export;
use super::picker::{self, Of, Picked, Picker};
use super::tabs::flame::Move;
use super::tabs::ranked::{self, Ranked};
use super::tabs::stream::Follow;
use super::tabs::{files, processes, sched, syscalls};
use crate::syscalls::view::{Filter, Key, Kind};

/// Every key, as `?` shows them.
pub(super) const HELP: &[&str] = &[
    "tab, shift-tab, 1 … 9, 0   another tab (or a click on it)",
    "j k, arrows, page up/down  move (or the wheel)     g G  first, last",
    "s S    sort by the next column; turn the order around",
    "space  pause: nothing new is shown until it is pressed again",
    "enter  only what the selected row is about; in stream the column that h l choose",
    "esc    take the last filter back        /   only what these words are in",
    "p t f  only one process, thread or file, chosen from a list that typing narrows",
    "i      the last interval, or all since the start (calls: always all)",
    "r      reset: count from here           R   record; again: end the recording",
    "e      export what is shown into the current folder: a report as JSON, calls",
    "       and files and the stream as CSV, the flame graph as collapsed stacks",
    "q      quit (ctrl-c too)",
    "files  d  by directory",
    "flame  h j k l select, enter zooms in, u or esc back out, b what a width is",
    "       (time, switches, echoes; calls, their bytes, time, time asleep), o which",
    "       level is on top, s the order of the blocks",
    "? H    this help; any key leaves it",
    "",
    "A filter looks back over the last 10,000 calls and counts from there; what was",
    "there before it counts on. Echoes, threads and hops are narrowed where they can.",
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
        Mode::Pick => picking(app, key.code),
        Mode::Keys if of_tab(app, key.code) => {}
        Mode::Keys => return everywhere(app, key.code),
    }
    None
}

fn searching(app: &mut App, key: KeyCode) {
    match key {
        KeyCode::Enter => {
            let words = std::mem::take(&mut app.search).to_lowercase();
            if !words.is_empty() {
                app.push_filter(Filter::Words(words));
            }
            app.mode = Mode::Keys;
        }
        KeyCode::Esc => {
            app.search.clear();
            app.mode = Mode::Keys;
        }
        KeyCode::Backspace => {
            app.search.pop();
        }
        KeyCode::Char(c) => app.search.push(c),
        _ => {}
    }
}

fn picking(app: &mut App, key: KeyCode) {
    let choices = picker::choices(app);
    let left = app.picker.left(&choices).len();
    match app.picker.key(key, left) {
        Picked::Nothing => {}
        Picked::Closed => app.mode = Mode::Keys,
        Picked::Row(row) => {
            let filter = app.picker.left(&choices).get(row).map(|(_, f)| f.clone());
            app.mode = Mode::Keys;
            if let Some(filter) = filter {
                app.push_filter(filter);
            }
        }
    }
}

fn pick(app: &mut App, of: Of) {
    app.picker = Picker::open(of);
    app.mode = Mode::Pick;
}

/// Keys that mean something in one tab alone; whether it was one.
fn of_tab(app: &mut App, key: KeyCode) -> bool {
    match app.tab {
        Tab::Stream => stream(app, key),
        Tab::Flame => flame(app, key),
        Tab::Files if key == KeyCode::Char('d') => {
            app.by_directory = !app.by_directory;
            true
        }
        _ => false,
    }
}

fn stream(app: &mut App, key: KeyCode) -> bool {
    let columns = 6;
    match key {
        KeyCode::Char('h') | KeyCode::Left => app.stream.turn_column(columns),
        KeyCode::Char('l') | KeyCode::Right => app.stream.turn_column(1),
        _ => return false,
    }
    true
}

/// What the selected row is about.
fn filter_of_row(app: &App) -> Option<Filter> {
    let row = app.view().row;
    match app.tab {
        Tab::Stream => {
            let item = app.stream.items(&app.filters).nth(row)?;
            app.stream.filter_of(item)
        }
        Tab::Syscalls => of_key(app, Kind::Syscalls, &syscalls::COLUMNS),
        Tab::Files => of_key(app, files::kind(app), &files::COLUMNS),
        Tab::Processes => {
            let (pid, name) = processes::selected(app, app.report()?)?;
            Some(Filter::Process(pid, name))
        }
        Tab::Sched => {
            let (tid, name) = sched::selected(app, app.report()?)?;
            Some(Filter::Thread(tid, name))
        }
        _ => None,
    }
}

fn of_key(app: &App, kind: Kind, columns: &[Ranked]) -> Option<Filter> {
    let rows = ranked::sorted(app, kind, columns);
    Some(match &rows.get(app.view().row)?.key {
        Key::Syscall(nr) => Filter::Syscall(*nr),
        Key::File(path) => Filter::File(path.clone()),
        Key::Directory(dir) if dir.starts_with('/') => Filter::Below(dir.clone()),
        Key::Directory(kind) => Filter::Words(kind.to_lowercase()),
        Key::Process(_) | Key::Thread { .. } | Key::Rest => return None,
    })
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
        KeyCode::Char('u') => {
            app.flame.undo();
            return true;
        }
        // What was done last is undone: a zoom first, then a filter.
        KeyCode::Esc => return app.flame.undo(),
        KeyCode::Char('b') => {
            app.flame.turn_metric();
            return true;
        }
        KeyCode::Char('o') => {
            app.flame.turn_levels();
            return true;
        }
        KeyCode::Char('s') => {
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
        app.flame.select(to, report, app.seen.tree.as_ref());
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
            app.message = Some(match export(app, Path::new(".")) {
                Ok(path) => format!("written to {}", path.display()),
                Err(error) => format!("not exported: {error:#}"),
            });
        }
        KeyCode::Char('R') => return Some(Request::Record),
        KeyCode::Char(' ') => app.pause_or_go_on(),
        KeyCode::Char('/') => {
            app.search.clear();
            app.mode = Mode::Search;
        }
        KeyCode::Enter => {
            if let Some(filter) = filter_of_row(app) {
                app.push_filter(filter);
            }
        }
        KeyCode::Esc => {
            app.filters.pop();
        }
        KeyCode::Char('p') => pick(app, Of::Processes),
        KeyCode::Char('t') => pick(app, Of::Threads),
        KeyCode::Char('f') => pick(app, Of::Files),
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
