//! The live view: `top`, and `attach --tui`.
//!
//! The session stays what it is, on its own thread; this one has the terminal. Reports and echoes come
//! to it through a channel that sheds and counts when the terminal is too slow to take them, so that a
//! stuck terminal holds nobody up. [`app`] is all the state there is, [`keys`] changes it, [`draw`] and
//! [`tabs`] show it; none of these touch a terminal, which [`terminal`] does.

mod app;
mod draw;
mod export;
mod input;
mod keys;
mod picker;
mod table;
mod tabs;
mod terminal;
#[cfg(test)]
mod tests;

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::crossterm::event::{Event, KeyCode, KeyModifiers};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::report::model::{ChainRow, Report};
use crate::syscalls::view::{Filter, Look, Seen};
use crate::target::unresolved::Candidate;
use app::App;
use input::Input;
use picker::{Picked, Picker};
use terminal::Screen;

/// Between two frames that no key asked for: 4 a second.
const FRAME: Duration = Duration::from_millis(250);
/// Updates on their way; more are shed. The session sends about a dozen a second, some with
/// thousands of calls.
const QUEUE: usize = 16;

/// What the session tells.
#[derive(Debug)]
pub(crate) enum Update {
    /// What came since the last interval, and since the beginning (or the reset).
    Reports {
        /// Of the interval.
        interval: Box<Report>,
        /// Of the whole run so far.
        run: Box<Report>,
        /// Updates so far that the view was too slow to take.
        shed: u64,
    },
    /// Inputs that ended.
    Chains(Vec<ChainRow>),
    /// What is looked at of the calls.
    Calls(Box<Seen>),
    /// How far the recording is; `None`: there is none.
    Recorded(Option<Recorded>),
    /// Something to read.
    Said(String),
}

/// A recording under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Its directory.
    pub(crate) dir: String,
    /// Rows so far.
    pub(crate) rows: u64,
    /// Rows that came too fast for the disk.
    pub(crate) shed: u64,
}

/// What the person at the keyboard asks of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// End the run.
    Quit,
    /// Count from here.
    Reset,
    /// Something else of the calls is looked at.
    Look(Look),
    /// Only calls that pass these.
    Filters(Vec<Filter>),
    /// Begin a recording, or end it.
    Record,
}

/// The view on its thread. Dropping it gives the terminal back.
#[derive(Debug)]
pub(crate) struct Tui {
    updates: Option<SyncSender<Update>>,
    requests: UnboundedReceiver<Request>,
    thread: Option<JoinHandle<Result<()>>>,
    shed: u64,
}

impl Tui {
    /// Takes the terminal. The new thread has the privileges of the one that calls: give up what is
    /// not needed before.
    ///
    /// # Errors
    /// The terminal refuses, or there can be no thread.
    pub(crate) fn start() -> Result<Tui> {
        let (updates, incoming) = sync_channel(QUEUE);
        let (asked, requests) = unbounded_channel();
        // Here, so that an error is this call's, and the terminal is ours before anything is shown.
        let screen = Screen::enter().context("the terminal")?;
        let thread = std::thread::Builder::new()
            .name("tui".into())
            .spawn(move || run(screen, &incoming, &asked))
            .context("a thread for the terminal")?;
        Ok(Tui {
            updates: Some(updates),
            requests,
            thread: Some(thread),
            shed: 0,
        })
    }

    /// Hands over what was found out so far.
    pub(crate) fn show_reports(&mut self, interval: Report, run: Report) {
        self.show(Update::Reports {
            interval: Box::new(interval),
            run: Box::new(run),
            shed: self.shed,
        });
    }

    /// Hands over an update, unless the view is that far behind; whether it was taken.
    pub(crate) fn show(&mut self, update: Update) -> bool {
        let Some(updates) = &self.updates else {
            return false;
        };
        match updates.try_send(update) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.shed += 1;
                false
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    /// Waits for a request. A view that ended asks to quit.
    pub(crate) async fn request(&mut self) -> Request {
        self.requests.recv().await.unwrap_or(Request::Quit)
    }

    /// Gives the terminal back, and says how the view ended.
    ///
    /// # Errors
    /// It could not draw, or panicked.
    pub(crate) fn end(mut self) -> Result<()> {
        self.close()
    }

    fn close(&mut self) -> Result<()> {
        self.updates = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => anyhow::bail!("the view panicked"),
        }
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        // An error is on its way already, if this is how it ends.
        let _ = self.close();
    }
}

/// Has the person choose one of these; `None`: he would not.
///
/// # Errors
/// The terminal refuses.
pub(crate) fn choose(question: String, candidates: Vec<Candidate>) -> Result<Option<Candidate>> {
    let choices: Vec<(String, Candidate)> = candidates
        .into_iter()
        .map(|c| {
            let ptys = if c.ptys == 1 { "PTY" } else { "PTYs" };
            let name = crate::escape::name(&c.name).into_owned();
            let text = format!("{:>7} {name:<16} {:<12} {} {ptys}", c.pid, c.user, c.ptys);
            (text, c)
        })
        .collect();
    let mut screen = Screen::enter().context("the terminal")?;
    let mut input = Input::new()?;
    let mut picker = Picker::default();
    let question = question + " (enter: this one, esc: none):";
    loop {
        screen.list(|height| picker.lines(&question, &choices, height))?;
        for event in input.wait(FRAME)? {
            let Event::Key(key) = event else { continue };
            if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
                return Ok(None);
            }
            let left = picker.left(&choices).len();
            match picker.key(key.code, left) {
                Picked::Nothing => {}
                Picked::Closed => return Ok(None),
                Picked::Row(row) => {
                    let chosen = picker.left(&choices).get(row).map(|(_, c)| c.clone());
                    return Ok(chosen);
                }
            }
        }
    }
}

/// Until the session is over or nobody can see us any more.
fn run(
    mut screen: Screen,
    incoming: &Receiver<Update>,
    asked: &UnboundedSender<Request>,
) -> Result<()> {
    let mut app = App::default();
    let mut input = Input::new()?;
    let mut drawn = Instant::now();
    let (mut looked, mut filtered) = (None, Vec::new());
    screen.draw(&mut app)?;
    loop {
        // The session may be over: then the updates have ended too.
        if filtered != app.filters {
            filtered.clone_from(&app.filters);
            let _ = asked.send(Request::Filters(filtered.clone()));
        }
        let look = app.look();
        if looked.as_ref() != Some(&look) {
            looked = Some(look.clone());
            let _ = asked.send(Request::Look(look));
        }
        let mut dirty = false;
        // All that is there, a pasted text or a turned wheel, before one frame.
        for event in input.wait(FRAME.saturating_sub(drawn.elapsed()))? {
            dirty = true;
            if let Event::Resize(..) = event {
                screen.resized()?;
            }
            if let Some(request) = keys::handle(&mut app, &event) {
                // The session is over: the next lines find out.
                let _ = asked.send(request);
            }
        }
        loop {
            match incoming.try_recv() {
                Ok(update) => {
                    app.take(update);
                    app.stale = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        let due = drawn.elapsed() >= FRAME;
        if dirty || (due && app.stale) {
            screen.draw(&mut app)?;
            app.stale = false;
        }
        if dirty || due {
            drawn = Instant::now();
        }
    }
}
