//! The screen of a pane, kept by a terminal-emulation library: in the server, to bootstrap and
//! resynchronise clients from; in the client, to paint from.

mod dump;
mod pen;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use alacritty_terminal::event::{Event, EventListener, WindowSize};
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::{Config, Term, TermDamage};
use alacritty_terminal::vte::ansi::{Processor, Timeout};

pub(crate) use alacritty_terminal::grid::Scroll;
pub(crate) use alacritty_terminal::index::Line;
pub(crate) use alacritty_terminal::term::TermMode;
pub(crate) use alacritty_terminal::term::cell::{Cell, Flags};
pub(crate) use alacritty_terminal::vte::ansi::{CursorShape, StdSyncHandler};
pub(crate) use pen::Pen;

/// Smallest and largest size of a pane, in cells: what a client says is clamped to it.
pub(crate) const MIN_SIZE: u16 = 2;
/// See [`MIN_SIZE`].
pub(crate) const MAX_SIZE: u16 = 1000;

/// Something that the pane's program wants of the world outside of its screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Bytes to write back to the program: the answer to a query.
    Reply(String),
    /// A new title, or none.
    Title(Option<String>),
    /// The bell.
    Bell,
}

/// For the server, which shows nothing: synchronised updates are applied as they come.
#[derive(Debug, Default)]
pub(crate) struct Unsynchronised;

impl Timeout for Unsynchronised {
    fn set_timeout(&mut self, _: std::time::Duration) {}
    fn clear_timeout(&mut self) {}
    fn pending_timeout(&self) -> bool {
        false
    }
}

/// Collects what the library reports while it parses.
#[derive(Debug, Clone)]
struct Listener {
    notices: Rc<RefCell<Vec<Notice>>>,
    size: Rc<RefCell<Size>>,
}

impl EventListener for Listener {
    fn send_event(&self, event: Event) {
        let notice = match event {
            Event::PtyWrite(text) => Notice::Reply(text),
            Event::TextAreaSizeRequest(format) => {
                let size = *self.size.borrow();
                Notice::Reply(format(WindowSize {
                    num_lines: size.rows,
                    num_cols: size.cols,
                    cell_width: 0,
                    cell_height: 0,
                }))
            }
            Event::Title(title) => Notice::Title(Some(title)),
            Event::ResetTitle => Notice::Title(None),
            Event::Bell => Notice::Bell,
            _ => return,
        };
        self.notices.borrow_mut().push(notice);
    }
}

/// The size of a screen, in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
}

impl Size {
    /// A size within the limits.
    pub(crate) fn clamped(cols: u16, rows: u16) -> Self {
        Self {
            cols: cols.clamp(MIN_SIZE, MAX_SIZE),
            rows: rows.clamp(MIN_SIZE, MAX_SIZE),
        }
    }
}

impl Dimensions for Size {
    fn total_lines(&self) -> usize {
        self.screen_lines()
    }
    fn screen_lines(&self) -> usize {
        self.rows.into()
    }
    fn columns(&self) -> usize {
        self.cols.into()
    }
}

/// A screen with the lines above it.
pub(crate) struct Screen<T: Timeout> {
    term: Term<Listener>,
    parser: Processor<T>,
    listener: Listener,
    title: Option<String>,
}

impl<T: Timeout> Screen<T> {
    /// An empty screen that keeps up to `history` lines above it.
    pub(crate) fn new(size: Size, history: usize) -> Self {
        let listener = Listener {
            notices: Rc::default(),
            size: Rc::new(RefCell::new(size)),
        };
        let config = Config {
            scrolling_history: history,
            ..Config::default()
        };
        let term = Term::new(config, &size, listener.clone());
        Self {
            term,
            parser: Processor::new(),
            listener,
            title: None,
        }
    }

    /// Parses what the program wrote, and returns what it wants besides.
    pub(crate) fn apply(&mut self, bytes: &[u8]) -> Vec<Notice> {
        self.parser.advance(&mut self.term, bytes);
        let notices = std::mem::take(&mut *self.listener.notices.borrow_mut());
        for notice in &notices {
            if let Notice::Title(title) = notice {
                self.title.clone_from(title);
            }
        }
        notices
    }

    /// Changes the size; long lines are wrapped anew.
    pub(crate) fn resize(&mut self, size: Size) {
        *self.listener.size.borrow_mut() = size;
        self.term.resize(size);
    }

    pub(crate) fn size(&self) -> Size {
        *self.listener.size.borrow()
    }

    pub(crate) fn mode(&self) -> TermMode {
        *self.term.mode()
    }

    pub(crate) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Scrolls what is shown through the lines above the screen.
    pub(crate) fn scroll(&mut self, scroll: Scroll) {
        self.term.scroll_display(scroll);
    }

    /// How many lines above the screen's top the shown part begins.
    pub(crate) fn scrolled(&self) -> usize {
        self.term.grid().display_offset()
    }

    /// The cells of a shown row, counted from the top.
    pub(crate) fn row(&self, row: u16) -> &[Cell] {
        let line = Line(i32::from(row)) - self.scrolled();
        &self.term.grid()[line][..]
    }

    /// What may have changed since the last call: rows, and of each the columns; `None` for all.
    pub(crate) fn take_damage(&mut self) -> Option<Vec<(u16, Range<usize>)>> {
        let rows = match self.term.damage() {
            TermDamage::Full => None,
            TermDamage::Partial(lines) => Some(
                lines
                    .filter_map(|line| {
                        // The other half of a wide character changes with it.
                        let columns = line.left.saturating_sub(1)..line.right.saturating_add(2);
                        Some((u16::try_from(line.line).ok()?, columns))
                    })
                    .collect(),
            ),
        };
        self.term.reset_damage();
        rows
    }

    /// Column and row of the cursor where it is shown, and its shape.
    pub(crate) fn cursor(&self) -> Option<(u16, u16, u8)> {
        if !self.mode().contains(TermMode::SHOW_CURSOR) || self.scrolled() > 0 {
            return None;
        }
        let point = self.term.grid().cursor.point;
        let row = u16::try_from(point.line.0).ok()?;
        let col = u16::try_from(point.column.0).ok()?;
        Some((col, row, self.cursor_style()))
    }

    /// The shape of the cursor as the parameter of DECSCUSR.
    fn cursor_style(&self) -> u8 {
        let style = self.term.cursor_style();
        let steady = u8::from(!style.blinking);
        match style.shape {
            CursorShape::Underline => 3 + steady,
            CursorShape::Beam => 5 + steady,
            _ if style.blinking => 1,
            _ => 0,
        }
    }
}

impl Screen<StdSyncHandler> {
    /// When a synchronised update that has not ended is to be shown all the same.
    pub(crate) fn sync_deadline(&self) -> Option<std::time::Instant> {
        self.parser.sync_timeout().sync_timeout()
    }

    /// Shows it.
    pub(crate) fn end_sync(&mut self) {
        self.parser.stop_sync(&mut self.term);
    }
}
