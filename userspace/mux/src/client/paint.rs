//! Paints the screen to the outer terminal: only what differs from what it shows already.

use std::io::Write;
use std::ops::Range;

use phux_perf::hop;

use crate::perf::Stopwatch;
use crate::perf::client::{PAINT_CHROME, PAINT_ROWS};
use crate::term::{Cell, Flags, Pen, Screen, Size, StdSyncHandler, TermMode};

/// What of the outer terminal is not cells.
#[derive(Debug, Default, Clone, PartialEq)]
struct Chrome {
    /// 0 for none, or the number of the mouse mode.
    mouse: u16,
    focus: bool,
    title: Option<String>,
    /// Column, row and shape.
    cursor: Option<(u16, u16, u8)>,
}

/// What the outer terminal shows, as far as this client knows.
#[derive(Debug)]
pub(super) struct Painter {
    size: Size,
    cells: Vec<Cell>,
    pen: Pen,
    chrome: Chrome,
    /// `false` if nothing is known: the whole screen is to be painted.
    known: bool,
    seq: u64,
}

impl Painter {
    /// For a terminal of this size, of which nothing is known.
    pub(super) fn new(size: Size) -> Self {
        let cells = vec![Cell::default(); usize::from(size.cols) * usize::from(size.rows)];
        Self {
            size,
            cells,
            pen: Pen::default(),
            chrome: Chrome::default(),
            known: false,
            seq: 0,
        }
    }

    /// The terminal's size.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Forgets what the terminal shows.
    pub(super) fn forget(&mut self) {
        self.known = false;
    }

    /// Appends what makes the terminal show the screen. Nothing, if it does.
    pub(super) fn paint(&mut self, screen: &mut Screen<StdSyncHandler>, out: &mut Vec<u8>) {
        self.seq += 1;
        let damage = screen.take_damage().filter(|_| self.known);
        if !self.known {
            self.known = true;
            out.extend_from_slice(
                b"\x1b[0m\x1b]8;;\x1b\\\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\
                \x1b[?25l\x1b[2J",
            );
            self.pen = Pen::default();
            self.chrome = Chrome::default();
            self.cells.fill(Cell::default());
        }
        let start = Stopwatch::start();
        let before = out.len();
        let rows = self.size.rows;
        match damage {
            Some(damaged) => {
                for (row, columns) in damaged.into_iter().filter(|(row, _)| *row < rows) {
                    self.paint_row(row, columns, screen, out);
                }
            }
            None => (0..rows).for_each(|row| self.paint_row(row, 0..usize::MAX, screen, out)),
        }
        hop!(PAINT_ROWS, start.micros(), 0u32, self.seq);
        let start = Stopwatch::start();
        let moved = out.len() > before;
        self.paint_chrome(screen, moved, out);
        hop!(PAINT_CHROME, start.micros(), 0u32, self.seq);
    }

    /// Paints what differs within these columns.
    fn paint_row(
        &mut self,
        row: u16,
        columns: Range<usize>,
        screen: &Screen<StdSyncHandler>,
        out: &mut Vec<u8>,
    ) {
        let width = usize::from(self.size.cols);
        let blank = Cell::default();
        let new = if row < screen.size().rows {
            screen.row(row)
        } else {
            &[]
        };
        let new = &new[..new.len().min(width)];
        let from = usize::from(row) * width;
        let shown = &mut self.cells[from..from + width];
        let wanted = |column: usize| new.get(column).unwrap_or(&blank);
        let differs = |column: &usize| shown[*column] != *wanted(*column);
        let columns = columns.start..columns.end.min(width);
        let Some(mut first) = columns.clone().find(differs) else {
            return;
        };
        let last = columns.rev().find(differs).unwrap_or(first);
        if first > 0 && wanted(first).flags.contains(Flags::WIDE_CHAR_SPACER) {
            first -= 1;
        }
        // Where the last of them is blank the row may be so to its end, which one sequence erases.
        let used = if *wanted(last) == blank {
            new.iter()
                .rposition(|cell| *cell != blank)
                .map_or(0, |last| last + 1)
        } else {
            last + 1
        };
        let _ = write!(out, "\x1b[{};{}H", row + 1, first + 1);
        let end = (last + 1).min(used.max(first));
        self.pen.put_cells(out, new, first..end);
        if last >= end {
            self.pen.take(out, &blank);
            out.extend_from_slice(b"\x1b[K");
        }
        for (column, cell) in shown.iter_mut().enumerate().take(last + 1).skip(first) {
            let wanted = new.get(column).unwrap_or(&blank);
            if cell != wanted {
                cell.clone_from(wanted);
            }
        }
    }

    fn paint_chrome(&mut self, screen: &Screen<StdSyncHandler>, moved: bool, out: &mut Vec<u8>) {
        let mode = screen.mode();
        let mouse = [
            (TermMode::MOUSE_MOTION, 1003),
            (TermMode::MOUSE_DRAG, 1002),
            (TermMode::MOUSE_REPORT_CLICK, 1000),
        ];
        let new = Chrome {
            mouse: mouse
                .iter()
                .find(|(flag, _)| mode.contains(*flag))
                .map_or(0, |(_, n)| *n),
            focus: mode.contains(TermMode::FOCUS_IN_OUT),
            title: screen.title().map(str::to_owned),
            cursor: screen
                .cursor()
                .filter(|(col, row, _)| *col < self.size.cols && *row < self.size.rows),
        };
        let old = std::mem::replace(&mut self.chrome, new);
        let new = &self.chrome;
        if new.mouse != old.mouse {
            if old.mouse != 0 {
                let _ = write!(out, "\x1b[?{}l\x1b[?1006l", old.mouse);
            }
            if new.mouse != 0 {
                let _ = write!(out, "\x1b[?{}h\x1b[?1006h", new.mouse);
            }
        }
        if new.focus != old.focus {
            out.extend_from_slice(if new.focus {
                b"\x1b[?1004h"
            } else {
                b"\x1b[?1004l"
            });
        }
        if new.title != old.title {
            let title = new.title.as_deref().unwrap_or_default();
            let plain: String = title.chars().filter(|c| !c.is_control()).collect();
            let _ = write!(out, "\x1b]2;{plain}\x1b\\");
        }
        match (old.cursor, new.cursor) {
            (Some(_), None) => out.extend_from_slice(b"\x1b[?25l"),
            (old, Some((col, row, style))) if moved || old != new.cursor => {
                if old.map_or(0, |(_, _, style)| style) != style {
                    let _ = write!(out, "\x1b[{style} q");
                }
                let _ = write!(out, "\x1b[{};{}H", row + 1, col + 1);
                if old.is_none() {
                    out.extend_from_slice(b"\x1b[?25h");
                }
            }
            _ => {}
        }
    }
}
