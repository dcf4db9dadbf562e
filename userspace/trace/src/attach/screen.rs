//! The live view of a run, where one is asked for: what it gets, and what it asks.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result, bail};

use super::Output;
use super::session::Session;
use crate::privileges::Filer;
use crate::say;
use crate::tui::{Request, Tui, Update};

/// The view, or none.
pub(super) struct Screen(Option<Tui>);

impl Screen {
    /// Whether there is a terminal to show it on, before anything is loaded.
    pub(super) fn check(output: Output) -> Result<()> {
        if output.tui && !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            bail!("this needs a terminal for its input and output; attach prints the same as text");
        }
        Ok(())
    }

    /// Takes the terminal: the view's thread has no privileges, as that for files has none.
    pub(super) fn start(files: Option<&Filer>) -> Result<Screen> {
        let start = |files: &Filer| files.run(Tui::start).context("the view")?;
        Ok(Screen(files.map(start).transpose()?))
    }

    /// What the person asks for; never anything without a view.
    pub(super) async fn request(&mut self) -> Request {
        match &mut self.0 {
            Some(tui) => tui.request().await,
            None => std::future::pending().await,
        }
    }

    /// Hands over the echoes that ended.
    pub(super) fn echoes(&mut self, session: &mut Session) {
        if let Some(tui) = &mut self.0 {
            let chains = session.fresh_echoes();
            if !chains.is_empty() {
                tui.show(Update::Chains(chains));
            }
        }
    }

    /// Hands over what is looked at of the calls, when that is due.
    pub(super) fn calls(&mut self, session: &mut Session) {
        if let Some(tui) = &mut self.0
            && let Some(calls) = &mut session.calls
            && let Some(seen) = calls.seen()
            && !tui.show(Update::Calls(Box::new(seen)))
        {
            calls.not_taken();
        }
    }

    /// Tells how far the recording is; one that has ended by itself, of a full disk as a rule, is over.
    pub(super) fn recorded(&mut self, session: &mut Session, output: Output) {
        if session.recording_has_ended() {
            let said = session.end_recording(output);
            self.say(said.unwrap_or_else(|error| format!("recording ended: {error:#}")));
        }
        if let Some(tui) = &mut self.0 {
            tui.show(Update::Recorded(session.recorded()));
        }
    }

    /// Something for the person to read.
    pub(super) fn say(&mut self, what: String) {
        if let Some(tui) = &mut self.0 {
            tui.show(Update::Said(what));
        }
    }

    /// An interval is over: its report goes to the view, or else to where reports go.
    pub(super) fn interval(&mut self, session: &mut Session, output: Output) -> Result<()> {
        let interval = session.interval(output)?;
        match &mut self.0 {
            Some(tui) => {
                let run = session.so_far();
                tui.show_reports(interval, run);
                Ok(())
            }
            None => output.report(&interval),
        }
    }

    /// Does what was asked; whether that is to end the run.
    pub(super) fn answer(
        &mut self,
        request: Request,
        session: &mut Session,
        output: Output,
    ) -> Result<bool> {
        match request {
            Request::Quit => return Ok(true),
            Request::Reset => session.reset(output)?,
            Request::Look(look) => {
                if let Some(calls) = &mut session.calls {
                    calls.look(look);
                }
            }
            Request::Filters(filters) => {
                if let Some(calls) = &mut session.calls {
                    calls.filters(&filters);
                }
            }
            Request::Record => {
                let said = match session.recorded() {
                    None => session.record(output),
                    Some(_) => session.end_recording(output),
                };
                self.say(said.unwrap_or_else(|error| format!("not recorded: {error:#}")));
                self.recorded(session, output);
            }
        }
        self.calls(session);
        Ok(false)
    }

    /// Gives the terminal back.
    pub(super) fn end(self, session: &mut Session, output: Output) -> Result<()> {
        let ended = self.0.map_or(Ok(()), Tui::end);
        if session.recorded().is_some() {
            match session.end_recording(output) {
                Ok(said) => say::remark(&said),
                Err(error) => say::complain(&format!("the recording: {error:#}")),
            }
        }
        ended
    }
}
