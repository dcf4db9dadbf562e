//! Lists of which one is chosen: what to narrow the view to, and at the beginning the target.

use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::app::App;
use crate::escape::name;
use crate::report::model::Report;
use crate::syscalls::view::{Filter, Key, holds};

/// What is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Of {
    #[default]
    Processes,
    Threads,
    Files,
}

/// The list that is open.
#[derive(Debug, Default)]
pub(super) struct Picker {
    of: Of,
    typed: String,
    row: usize,
}

/// What a key did to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Picked {
    Nothing,
    /// This row of those that are left.
    Row(usize),
    Closed,
}

impl Picker {
    pub(super) fn open(of: Of) -> Picker {
        Picker {
            of,
            ..Picker::default()
        }
    }

    pub(super) fn is_of_files(&self) -> bool {
        self.of == Of::Files
    }

    /// What is left of the choices, by the words that were typed.
    pub(super) fn left<'a, T>(&self, all: &'a [(String, T)]) -> Vec<&'a (String, T)> {
        let words = self.typed.to_lowercase();
        all.iter().filter(|(text, _)| holds(text, &words)).collect()
    }

    /// A key, with so many choices left.
    pub(super) fn key(&mut self, key: KeyCode, left: usize) -> Picked {
        let last = left.saturating_sub(1);
        match key {
            KeyCode::Esc => return Picked::Closed,
            KeyCode::Enter if left > 0 => return Picked::Row(self.row.min(last)),
            KeyCode::Up => self.row = self.row.min(last).saturating_sub(1),
            KeyCode::Down => self.row = (self.row + 1).min(last),
            KeyCode::PageUp | KeyCode::Home => self.row = 0,
            KeyCode::PageDown | KeyCode::End => self.row = last,
            KeyCode::Backspace => {
                self.typed.pop();
            }
            KeyCode::Char(c) => {
                self.typed.push(c);
                self.row = 0;
            }
            _ => {}
        }
        Picked::Nothing
    }

    /// The list in so many lines, under what is asked.
    pub(super) fn lines<T>(
        &self,
        question: &str,
        all: &[(String, T)],
        height: usize,
    ) -> Vec<Line<'static>> {
        let left = self.left(all);
        let row = self.row.min(left.len().saturating_sub(1));
        let room = height.saturating_sub(1).max(1);
        let first = (row + 1).saturating_sub(room);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let head = format!(
            "{question} {}_   ({} of {})",
            self.typed,
            left.len(),
            all.len()
        );
        let mut lines = vec![Line::styled(head, bold)];
        for (i, (text, _)) in left.iter().enumerate().skip(first).take(room) {
            let style = if i == row {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            lines.push(Line::styled(format!("  {text}"), style));
        }
        lines
    }
}

/// What there is to narrow the view to.
pub(super) fn choices(app: &App) -> Vec<(String, Filter)> {
    match app.picker.of {
        Of::Processes => app.run.as_deref().map(processes).unwrap_or_default(),
        Of::Threads => app.run.as_deref().map(threads).unwrap_or_default(),
        Of::Files => app
            .seen
            .rows
            .iter()
            .flat_map(|(_, rows)| rows)
            .filter_map(|r| match &r.key {
                Key::File(path) => Some((r.name.clone(), Filter::File(path.clone()))),
                _ => None,
            })
            .collect(),
    }
}

pub(super) fn question(app: &App) -> &'static str {
    match app.picker.of {
        Of::Processes => "only the process:",
        Of::Threads => "only the thread:",
        Of::Files => "only the file:",
    }
}

fn processes(report: &Report) -> Vec<(String, Filter)> {
    let all = report.target.processes.iter();
    all.map(|p| {
        let name = name(&p.name).into_owned();
        let text = format!("{:>7} {name:<16} {}", p.pid, p.user);
        (text, Filter::Process(p.pid, name))
    })
    .collect()
}

fn threads(report: &Report) -> Vec<(String, Filter)> {
    let all = report.threads.iter().filter(|t| !t.exited);
    all.map(|t| {
        let name = name(&t.comm).into_owned();
        let role = t.role.as_deref().unwrap_or_default();
        let text = format!("{:>7} {name:<16} of {} {role}", t.tid, t.pid);
        (text, Filter::Thread(t.tid, name))
    })
    .collect()
}
