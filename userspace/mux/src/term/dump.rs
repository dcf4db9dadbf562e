//! A screen as VT bytes: fed to an empty screen of the same size, they make it equal.
//!
//! This is how a client is bootstrapped when it attaches and resynchronised when it fell behind.
//! Not carried over are tab stops that the program moved and which of the character sets is in
//! use: the library does not tell. What uses either sets it anew before it draws. Nor is a cursor
//! that was restored to outside of the scroll region while the origin mode keeps it inside.

use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::Line;
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
    while line <= last {
        let row = &grid[line][..];
        pen.put_cells(out, row, 0..used_cells(row));
        // Each line stands for itself. Which of them a long line runs over matters only to who
        // wraps them anew, and that is the server: a client gets a new dump with a new size.
        if line < last {
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
    let row = &grid[line][..];
    let mut column = cursor.point.column.0;
    if cursor.input_needs_wrap && column > 0 && row[column - 1].flags.contains(Flags::WIDE_CHAR) {
        column -= 1;
    }
    out.extend_from_slice(format!("\x1b[{};{}H", line.0 - origin + 1, column + 1).as_bytes());
    if cursor.input_needs_wrap {
        // Only writing into the last column makes the next character wrap.
        out.extend_from_slice(b"\x1b(B");
        pen.put_cells(out, row, column..row.len());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{Size, Unsynchronised};
    use proptest::prelude::*;

    const SIZE: Size = Size { cols: 12, rows: 6 };
    const HISTORY: usize = 20;

    fn screen() -> Screen<Unsynchronised> {
        Screen::new(SIZE, HISTORY)
    }

    /// What is compared: the text with its attributes, the cursors, the modes, the region.
    #[derive(Debug, PartialEq)]
    struct State {
        rows: Vec<Vec<Cell>>,
        cursor: Cursor<Cell>,
        saved: Cursor<Cell>,
        mode: TermMode,
        region: (Line, Line),
        title: Option<String>,
        style: u8,
    }

    fn state(screen: &mut Screen<Unsynchronised>) -> State {
        let grid = screen.term.grid();
        let mut rows = Vec::new();
        let mut line = grid.topmost_line();
        while line <= grid.bottommost_line() {
            let mut row = grid[line][..].to_vec();
            for index in 0..row.len() {
                let flag = |at: usize, flag| row.get(at).is_some_and(|c| c.flags.contains(flag));
                // Halves of wide characters that have lost the other one.
                let orphan = flag(index, Flags::WIDE_CHAR)
                    && !flag(index + 1, Flags::WIDE_CHAR_SPACER)
                    || flag(index, Flags::WIDE_CHAR_SPACER)
                        && !(index > 0 && flag(index - 1, Flags::WIDE_CHAR));
                let cell = &mut row[index];
                // Neither a tab's note of itself nor where a line was wrapped is to be seen.
                cell.flags
                    .remove(Flags::WRAPLINE | Flags::LEADING_WIDE_CHAR_SPACER);
                if orphan || cell.c == '\t' {
                    cell.c = ' ';
                }
            }
            for cell in &mut row {
                // Room for what a cell has lost again.
                if cell.zerowidth().is_none_or(<[char]>::is_empty)
                    && cell.underline_color().is_none()
                    && cell.hyperlink().is_none()
                {
                    cell.extra = None;
                }
            }
            for cell in row.iter_mut().filter(|cell| cell.c == ' ') {
                cell.flags
                    .remove(Flags::WIDE_CHAR | Flags::WIDE_CHAR_SPACER);
            }
            rows.push(row);
            line += 1;
        }
        State {
            rows,
            cursor: grid.cursor.clone(),
            saved: grid.saved_cursor.clone(),
            mode: screen.mode(),
            region: scroll_region(&mut screen.term),
            title: screen.title().map(str::to_owned),
            style: screen.cursor_style(),
        }
    }

    /// Checks that the dump of what `bytes` make is the same thing again.
    fn survives(bytes: &[u8]) -> Result<(), TestCaseError> {
        let mut original = screen();
        original.apply(bytes);
        let State {
            cursor,
            mode,
            region: (top, bottom),
            ..
        } = state(&mut original);
        let inside = (top..=bottom).contains(&cursor.point.line);
        prop_assume!(inside || !mode.contains(TermMode::ORIGIN));
        let dump = original.dump(HISTORY);
        let mut copy = screen();
        copy.apply(&dump);
        let shown = String::from_utf8_lossy(&dump).into_owned();
        prop_assert_eq!(state(&mut original), state(&mut copy), "{:?}", shown);
        // Taking it has changed nothing, the other screen of the two included.
        let leave = b"\x1b[?1049l";
        original.apply(leave);
        copy.apply(leave);
        prop_assert_eq!(state(&mut original).rows, state(&mut copy).rows);
        Ok(())
    }

    fn sequence() -> impl Strategy<Value = String> {
        let n = 1..15u16;
        prop_oneof![
            8 => "[a-z ]{1,20}",
            3 => "[日本語é🙂x]{1,8}",
            1 => Just("e\u{301}".to_owned()),
            4 => Just("\r\n".to_owned()),
            1 => Just("\t".to_owned()),
            1 => Just("\x08".to_owned()),
            2 => (n.clone(), n.clone()).prop_map(|(a, b)| format!("\x1b[{a};{b}H")),
            3 => prop_oneof![
                Just("0"), Just("1"), Just("2;3"), Just("4:3"), Just("7"), Just("9"), Just("31"),
                Just("97;44"), Just("38;5;208"), Just("48;2;1;2;3"), Just("58:5:9"), Just("8"),
            ].prop_map(|p| format!("\x1b[{p}m")),
            2 => (1..7u16, 1..7u16).prop_map(|(a, b)| format!("\x1b[{};{}r", a.min(b), a.max(b))),
            2 => prop_oneof![
                Just("J"), Just("1J"), Just("2J"), Just("3J"), Just("K"), Just("1K"), Just("2K"),
                Just("2L"), Just("2M"), Just("3P"), Just("3@"), Just("2X"), Just("2S"), Just("2T"),
                Just("3b"), Just("2 q"), Just("5 q"),
            ].prop_map(|p| format!("\x1b[{p}")),
            2 => (prop_oneof![
                Just("?1"), Just("?6"), Just("?7"), Just("?25"), Just("?1000"), Just("?1002"),
                Just("?1003"), Just("?1004"), Just("?1005"), Just("?1006"), Just("?2004"),
                Just("?1007"), Just("?1049"), Just("4"), Just("20"),
            ], any::<bool>()).prop_map(|(m, on)| format!("\x1b[{m}{}", if on { 'h' } else { 'l' })),
            1 => prop_oneof![
                Just("\x1b="), Just("\x1b>"), Just("\x1b7"), Just("\x1b8"), Just("\x1bM"),
                Just("\x1bD"), Just("\x1b(0"), Just("\x1b(B"), Just("\x1b]2;title\x07"),
                Just("\x1b]8;id=1;http://x\x1b\\"), Just("\x1b]8;;\x1b\\"), Just("\x1bc"),
            ].prop_map(str::to_owned),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn a_dump_makes_an_empty_screen_equal(parts in prop::collection::vec(sequence(), 0..40)) {
            survives(parts.concat().as_bytes())?;
        }

        #[test]
        fn nothing_that_a_program_writes_brings_it_down(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut screen = screen();
            screen.apply(&bytes);
            screen.resize(Size { cols: 5, rows: 3 });
            screen.dump(HISTORY);
            screen.resize(SIZE);
            screen.apply(&bytes);
        }
    }
}
