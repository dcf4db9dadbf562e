//! What comes from the terminal: keys, pastes, mouse and sizes, turned into frames for the server.

use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use phux_perf::hop;
use phux_wire::{ClientMessage, Viewport, key, mods};

use super::super::input::Input;
use super::super::mirror::End;
use super::super::paint::Painter;
use super::super::tty;
use super::Session;
use crate::perf::client::LOOP_INPUT_WALL;
use crate::perf::micros;
use crate::term::Scroll;

impl Session {
    pub(super) fn read_terminal(&mut self) -> anyhow::Result<Option<End>> {
        let len = match self.keyboard.read(&mut self.typed) {
            Ok(0) => return Ok(Some(End::Terminated)),
            Ok(len) => len,
            Err(e) if e.raw_os_error() == Some(libc::EIO) => return Ok(Some(End::Terminated)),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                return Ok(None);
            }
            Err(e) => return Err(e.into()),
        };
        let events = self.parser.feed(&self.typed[..len]);
        let end = self.on_input(events)?;
        self.escape_since = self.parser.waits().then(Instant::now);
        Ok(end)
    }

    pub(super) fn on_input(&mut self, events: Vec<Input>) -> anyhow::Result<Option<End>> {
        let start = Instant::now();
        let mut frames = Vec::new();
        let mut keys = 0;
        for event in events {
            let Some(message) = self.message(event, start) else {
                continue;
            };
            keys += u64::from(matches!(message, ClientMessage::Key(_)));
            frames.extend_from_slice(&message.encode());
        }
        if !frames.is_empty() && self.socket.write_all(&frames).is_err() {
            return Ok(Some(End::Lost));
        }
        if keys > 0 {
            self.key_seq += keys;
            self.pacer.typed(start);
            self.echo_since.get_or_insert(start);
            hop!(LOOP_INPUT_WALL, micros(start), self.pane_id(), self.key_seq);
        }
        Ok(None)
    }

    /// The frame that an event becomes; `None` where it is for this client alone.
    fn message(&mut self, event: Input, now: Instant) -> Option<ClientMessage> {
        if event == Input::Detach {
            self.detaching = Some(now);
            return Some(ClientMessage::Detach);
        }
        let resource = self.mirror.pane()?.clone();
        if let Input::Key { key, mods, .. } = event {
            let page = match key {
                key::PAGE_UP if mods & (mods::SHIFT | mods::ALT) != 0 => Some(Scroll::PageUp),
                key::PAGE_DOWN if mods & (mods::SHIFT | mods::ALT) != 0 => Some(Scroll::PageDown),
                _ => None,
            };
            if let Some(page) = page {
                self.mirror.screen.scroll(page);
                self.pacer.dirty(now);
                return None;
            }
            if self.mirror.screen.scrolled() > 0 {
                self.mirror.screen.scroll(Scroll::Bottom);
                self.pacer.dirty(now);
            }
        }
        Some(event.into_message(resource))
    }

    pub(super) fn on_resize(&mut self) -> anyhow::Result<()> {
        let size = tty::size();
        if size != self.painter.size() {
            self.painter = Painter::new(size);
            self.pacer.dirty(Instant::now());
            let viewport = Viewport::cells(size.cols, size.rows);
            self.socket
                .write_all(&ClientMessage::ViewportResize(viewport).encode())?;
        }
        Ok(())
    }
}
