//! The live view of a run, where one is asked for: what it gets, and what it asks.

use std::io::{self, IsTerminal};

use anyhow::{Result, bail};

use super::Output;
use super::session::Session;
use crate::tui::{Request, Tui};

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

    /// Takes the terminal, after privileges were given up: the view's thread is to have none more.
    pub(super) fn start(output: Output) -> Result<Screen> {
        Ok(Screen(output.tui.then(Tui::start).transpose()?))
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
                tui.show(crate::tui::Update::Chains(chains));
            }
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

    /// Gives the terminal back.
    pub(super) fn end(self) -> Result<()> {
        self.0.map_or(Ok(()), Tui::end)
    }
}
