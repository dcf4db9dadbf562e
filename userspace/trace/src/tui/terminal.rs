//! The terminal itself: taken over, drawn on, and given back whatever happens.

use std::io::{self, Stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::text::Line;
use ratatui::{Frame, Terminal};

use super::app::App;
use super::draw;

/// For the test of what a panic leaves behind.
#[cfg(debug_assertions)]
const PANICS: &str = "PHUX_TRACE_PANICS_IN_DRAW";

/// Whether the terminal is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal while it is ours: raw, another screen, the mouse reported.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes it. From now on a panic of any thread gives it back before it says anything.
    pub(super) fn enter() -> Result<Screen> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                before(panic);
            }));
        });
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let entered = execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match entered {
            Ok(terminal) => Ok(Screen(terminal)),
            Err(error) => {
                leave();
                Err(error.into())
            }
        }
    }

    /// One frame: what differs from the one before is written.
    pub(super) fn draw(&mut self, app: &mut App) -> Result<()> {
        #[cfg(debug_assertions)]
        if app.report().is_some() && std::env::var_os(PANICS).is_some() {
            panic!("as {PANICS} asks");
        }
        self.0
            .draw(|frame| draw::frame(app, frame.buffer_mut()))
            .context("drawing")?;
        Ok(())
    }

    /// A list and nothing else, made for the lines that there are.
    pub(super) fn list(&mut self, lines: impl FnOnce(usize) -> Vec<Line<'static>>) -> Result<()> {
        let draw = |frame: &mut Frame<'_>| {
            let area = frame.area();
            let lines = lines(area.height.into());
            for (y, line) in (area.y..area.bottom()).zip(&lines) {
                draw::put(frame.buffer_mut(), area.x, y, line);
            }
        };
        self.0.draw(draw).context("drawing")?;
        Ok(())
    }

    /// The terminal has another size, and perhaps rubbish on it.
    pub(super) fn resized(&mut self) -> Result<()> {
        self.0.autoresize().context("drawing")?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back as it was, once. A terminal that is gone needs nothing.
fn leave() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(
            io::stdout(),
            DisableMouseCapture,
            LeaveAlternateScreen,
            Show
        );
        let _ = disable_raw_mode();
    }
}
