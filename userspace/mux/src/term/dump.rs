//! A screen as VT bytes: fed to an empty screen of the same size, they make it equal.
//!
//! This is how a client is bootstrapped when it attaches and resynchronised when it fell behind.
//! Not carried over are tab stops that the program moved and which of the character sets is in
//! use: the library does not tell. What uses either sets it anew before it draws.

use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::{Term, TermMode};
use alacritty_terminal::vte::ansi::{
    CharsetIndex, Handler, NamedPrivateMode, PrivateMode, StandardCharset, Timeout,
};

use super::{Cell, Flags, Listener, Pen, Screen};

/// Modes of the screen, and the sequences that set and unset them. Those that change how text is
/// laid out come last, after the text.
const MODES: [(TermMode, &str, &str); 13] = [
    (TermMode::APP_CURSOR, "\x1b[?1h", ""),
    (TermMode::APP_KEYPAD, "\x1b=", ""),
    (TermMode::MOUSE_REPORT_CLICK, "\x1b[?1000h", ""),
    (TermMode::MOUSE_DRAG, "\x1b[?1002h", ""),
    (TermMode::MOUSE_MOTION, "\x1b[?1003h", ""),
    (TermMode::SGR_MOUSE, "\x1b[?1006h", ""),
    (TermMode::UTF8_MOUSE, "\x1b[?1005h", ""),
    (TermMode::FOCUS_IN_OUT, "\x1b[?1004h", ""),
    (TermMode::BRACKETED_PASTE, "\x1b[?2004h", ""),
    (TermMode::ALTERNATE_SCROLL, "", "\x1b[?1007l"),
    (TermMode::LINE_FEED_NEW_LINE, "\x1b[20h", ""),
    (TermMode::INSERT, "\x1b[4h", ""),
    (TermMode::LINE_WRAP, "", "\x1b[?7l"),
];

impl<T: Timeout> Screen<T> {
    /// The screen with at most `history` of the lines above it.
    pub(crate) fn dump(&mut self, history: usize) -> Vec<u8> {
        let mut out = b"\x1bc".to_vec();
        let mut pen = Pen::default();
        if self.mode().contains(TermMode::ALT_SCREEN) {
            // Only the grid in use is to be had, so the other one is swapped in for a moment;
            // swapping back would empty the alternate one.
            let alternate = self.term.grid().clone();
            self.term.swap_alt();
            let primary = self.term.grid();
            put_grid(&mut out, &mut pen, primary, history);
            put_cursor(&mut out, &mut pen, primary, &primary.cursor, 0);
            self.term.swap_alt();
            *self.term.grid_mut() = alternate;
            out.extend_from_slice(b"\x1b[?1049h\x1b(B");
            pen.take(&mut out, &Cell::default());
            out.extend_from_slice(b"\x1b[2J\x1b[H");
            put_grid(&mut out, &mut pen, self.term.grid(), 0);
        } else {
            put_grid(&mut out, &mut pen, self.term.grid(), history);
        }
        self.put_state(&mut out, &mut pen);
        out
    }

    /// Everything but the text: saved cursor, region, modes, title, cursor.
    fn put_state(&mut self, out: &mut Vec<u8>, pen: &mut Pen) {
        let saved = &self.term.grid().saved_cursor;
        if *saved != Cursor::default() {
            put_cursor(out, pen, self.term.grid(), saved, 0);
            out.extend_from_slice(b"\x1b7");
        }
        let (top, bottom) = scroll_region(&mut self.term);
        if (top, bottom) != (Line(0), self.term.bottommost_line()) {
            out.extend_from_slice(format!("\x1b[{};{}r", top.0 + 1, bottom.0 + 1).as_bytes());
        }
        if let Some(title) = self.title() {
            out.extend_from_slice(format!("\x1b]2;{title}\x1b\\").as_bytes());
        }
        match self.cursor_style() {
            0 => {}
            style => out.extend_from_slice(format!("\x1b[{style} q").as_bytes()),
        }
        let mode = self.mode();
        if !mode.contains(TermMode::SHOW_CURSOR) {
            out.extend_from_slice(b"\x1b[?25l");
        }
        // The origin moves what the cursor's position is counted from.
        let mut origin = Line(0);
        if mode.contains(TermMode::ORIGIN) {
            out.extend_from_slice(b"\x1b[?6h");
            origin = top;
        }
        put_cursor(
            out,
            pen,
            self.term.grid(),
            &self.term.grid().cursor,
            origin.0,
        );
        for (flag, set, unset) in MODES {
            let sequence = if mode.contains(flag) { set } else { unset };
            out.extend_from_slice(sequence.as_bytes());
        }
    }
}

/// First and last line of the scroll region, which the library keeps to itself: with the origin
/// mode on, the cursor goes no further than the region.
fn scroll_region(term: &mut Term<Listener>) -> (Line, Line) {
    let cursor = term.grid().cursor.clone();
    let origin = PrivateMode::Named(NamedPrivateMode::Origin);
    let was_on = term.mode().contains(TermMode::ORIGIN);
    term.set_private_mode(origin);
    let top = term.grid().cursor.point.line;
    term.goto(i32::from(u16::MAX), 0);
    let bottom = term.grid().cursor.point.line;
    if !was_on {
        term.unset_private_mode(origin);
    }
    term.grid_mut().cursor = cursor;
    (top, bottom)
}

/// The text of a grid from `history` lines above the screen on, from a cursor at home.
fn put_grid(out: &mut Vec<u8>, pen: &mut Pen, grid: &Grid<Cell>, history: usize) {
    let above = i32::try_from(grid.history_size().min(history)).unwrap_or(0);
    let last = grid.bottommost_line();
    let mut line = Line(-above);
    let mut continued = false;
    while line <= last {
        let row = &grid[line][..];
        let wraps = row
            .last()
            .is_some_and(|cell| cell.flags.contains(Flags::WRAPLINE));
        let used = used_cells(row);
        for cell in &row[..used] {
            pen.put(out, cell);
        }
        if continued && used < row.len() && row[0].bg != Cell::default().bg {
            // The wrap filled the line with the background of its first character.
            pen.take(out, &Cell::default());
            out.extend_from_slice(b"\x1b[K");
        }
        continued = wraps;
        // A line that runs on is left full: the next character wraps by itself.
        if line < last && !wraps {
            pen.take(out, &Cell::default());
            out.extend_from_slice(b"\r\n");
        }
        line += 1;
    }
    pen.take(out, &Cell::default());
}

/// How many cells of a row there are up to the last one that is not blank.
fn used_cells(row: &[Cell]) -> usize {
    let blank = Cell::default();
    row.iter()
        .rposition(|cell| *cell != blank)
        .map_or(0, |last| last + 1)
}

/// Puts the cursor where `cursor` is, with its attributes and character sets.
fn put_cursor(
    out: &mut Vec<u8>,
    pen: &mut Pen,
    grid: &Grid<Cell>,
    cursor: &Cursor<Cell>,
    origin: i32,
) {
    let line = cursor.point.line;
    let mut column = cursor.point.column;
    let pending = cursor.input_needs_wrap;
    if pending && column > Column(0) && grid[line][column].flags.contains(Flags::WIDE_CHAR_SPACER) {
        column -= 1;
    }
    out.extend_from_slice(format!("\x1b[{};{}H", line.0 - origin + 1, column.0 + 1).as_bytes());
    if pending {
        // Only writing into the last column makes the next character wrap.
        out.extend_from_slice(b"\x1b(B");
        pen.put(out, &grid[line][column]);
    }
    pen.take(out, &cursor.template);
    let sets = [
        (CharsetIndex::G0, b'('),
        (CharsetIndex::G1, b')'),
        (CharsetIndex::G2, b'*'),
        (CharsetIndex::G3, b'+'),
    ];
    for (index, designator) in sets {
        let set = match cursor.charsets[index] {
            StandardCharset::Ascii => b'B',
            StandardCharset::SpecialCharacterAndLineDrawing => b'0',
        };
        out.extend_from_slice(&[0x1b, designator, set]);
    }
}
