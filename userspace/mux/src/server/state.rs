//! What the server has: sessions, each with one pane, and clients.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use phux_wire::{
    Layout, PaneInfo, ResourceId, ServerMessage, SessionInfo, Snapshot, Version, WindowInfo,
};
use tokio::sync::{Notify, mpsc};

use super::input_lane::LaneItem;
use super::pane::{Actor, Pane};
use super::pty::{self, Spawn};
use crate::perf::server::{PROC_PANES, PROC_SESSIONS};
use crate::term::Size;

/// Most sessions of one server: each has threads and a PTY.
const MAX_SESSIONS: usize = 256;
/// The longest name of a session, in bytes.
const MAX_NAME: usize = 64;

/// How a server was started.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) socket: PathBuf,
    /// The version to answer HELLO with.
    pub(crate) version: Version,
    /// Behave as a server that has no GET_PERF.
    pub(crate) old_server: bool,
    /// Lines kept above each screen.
    pub(crate) history: usize,
    /// End with the last session.
    pub(crate) exit_empty: bool,
}

/// A session. It has one window with one pane, and all three have the same id.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u32,
    pub(super) name: String,
    created: i64,
    pub(super) pane: Rc<Pane>,
    /// The sizes of the clients that are attached.
    viewports: RefCell<BTreeMap<u32, Size>>,
}

impl Session {
    /// The largest size that every client can show in full; `None` without clients.
    pub(super) fn smallest_viewport(&self) -> Option<Size> {
        let viewports = self.viewports.borrow();
        let cols = viewports.values().map(|v| v.cols).min()?;
        let rows = viewports.values().map(|v| v.rows).min()?;
        Some(Size { cols, rows })
    }

    pub(super) fn set_viewport(&self, client: u32, size: Option<Size>) {
        match size {
            Some(size) => self.viewports.borrow_mut().insert(client, size),
            None => self.viewports.borrow_mut().remove(&client),
        };
    }
}

/// The server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) incarnation: [u8; 16],
    pub(super) lane: mpsc::Sender<LaneItem>,
    pub(super) sessions: RefCell<BTreeMap<u32, Rc<Session>>>,
    pub(super) clients: RefCell<BTreeMap<u32, mpsc::Sender<ServerMessage>>>,
    /// The session attached to last.
    pub(super) last: Cell<u32>,
    /// Whether anybody has asked for a session yet, or long enough ago that nobody will.
    begun: Cell<bool>,
    /// Counts sessions and clients.
    next_id: Cell<u32>,
    /// Rung to end the server.
    pub(super) shutdown: Notify,
}

impl Server {
    pub(super) fn new(config: Config, incarnation: [u8; 16], lane: mpsc::Sender<LaneItem>) -> Self {
        Self {
            config,
            incarnation,
            lane,
            sessions: RefCell::default(),
            clients: RefCell::default(),
            last: Cell::new(0),
            begun: Cell::new(false),
            next_id: Cell::new(1),
            shutdown: Notify::new(),
        }
    }

    pub(super) fn new_id(&self) -> u32 {
        self.next_id
            .replace(self.next_id.get().wrapping_add(1).max(1))
    }

    pub(super) fn session_named(&self, name: &str) -> Option<Rc<Session>> {
        self.sessions
            .borrow()
            .values()
            .find(|s| s.name == name)
            .cloned()
    }

    /// The session attached to last, or else the newest.
    pub(super) fn last_session(&self) -> Option<Rc<Session>> {
        let sessions = self.sessions.borrow();
        sessions
            .get(&self.last.get())
            .or_else(|| sessions.values().next_back())
            .cloned()
    }

    /// Makes a session and starts its pane.
    ///
    /// # Errors
    /// A name that cannot be, too many sessions, or a program that cannot be run.
    pub(super) fn create_session(
        self: &Rc<Self>,
        name: &str,
        argv: Option<Vec<String>>,
        cwd: Option<String>,
        size: Size,
    ) -> anyhow::Result<Rc<Session>> {
        self.begun.set(true);
        ensure!(
            !name.is_empty() && name.len() <= MAX_NAME && !name.contains(char::is_control),
            "a session's name has 1 to {MAX_NAME} bytes and no control characters"
        );
        ensure!(
            self.sessions.borrow().len() < MAX_SESSIONS,
            "too many sessions"
        );
        let socket = &self.config.socket;
        let pty = pty::spawn(Spawn {
            argv,
            cwd,
            size,
            socket,
            session: name,
        })?;
        let id = self.new_id();
        let (pane, actor) = Actor::new(id, pty, size, self.config.history)?;
        let created = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let session = Rc::new(Session {
            id,
            name: name.to_owned(),
            created: created.cast_signed(),
            pane,
            viewports: RefCell::default(),
        });
        self.sessions.borrow_mut().insert(id, Rc::clone(&session));
        PROC_SESSIONS.add(1);
        PROC_PANES.add(1);
        log::info!("session {name} ({id}) started");
        let server = Rc::clone(self);
        tokio::task::spawn_local(async move {
            actor.run().await;
            server.session_ended(id);
        });
        Ok(session)
    }

    fn session_ended(&self, id: u32) {
        let Some(session) = self.sessions.borrow_mut().remove(&id) else {
            return;
        };
        PROC_SESSIONS.add(-1);
        PROC_PANES.add(-1);
        let exit = session.pane.exit.get().copied().unwrap_or(-1);
        log::info!("session {} ({id}) ended with status {exit}", session.name);
        self.end_if_empty();
    }

    pub(super) fn client_ended(&self, id: u32) {
        self.clients.borrow_mut().remove(&id);
        self.end_if_empty();
    }

    /// Who started the server has had the time to ask for a session. From now on an empty server
    /// ends, even if that one was killed and nobody has ever asked.
    pub(super) fn begin(&self) {
        self.begun.set(true);
        self.end_if_empty();
    }

    fn end_if_empty(&self) {
        let empty = self.sessions.borrow().is_empty() && self.clients.borrow().is_empty();
        // Not yet begun: a `phux perf` or `phux ls` that comes and goes before the client that
        // started the server must not end it.
        if self.config.exit_empty && empty && self.begun.get() {
            self.shutdown.notify_one();
        }
    }

    /// The server as clients see it.
    pub(super) fn snapshot(&self) -> Snapshot {
        let sessions = self.sessions.borrow();
        let focused = self.last_session().map_or(0, |s| s.id);
        let resource = |s: &Session| ResourceId::Local(s.pane.id);
        Snapshot {
            sessions: sessions
                .values()
                .map(|s| SessionInfo {
                    id: s.id,
                    name: s.name.clone(),
                    active_window: Some(s.id),
                    created: s.created,
                    windows: 1,
                    attached: u16::try_from(s.viewports.borrow().len()).unwrap_or(u16::MAX),
                })
                .collect(),
            windows: sessions
                .values()
                .map(|s| WindowInfo {
                    id: s.id,
                    session: s.id,
                    index: 0,
                    name: s.name.clone(),
                    active: Some(resource(s)),
                    layout: Some(Layout::Leaf(resource(s))),
                })
                .collect(),
            panes: sessions
                .values()
                .map(|s| {
                    let size = *s.pane.size.borrow();
                    PaneInfo {
                        resource: resource(s),
                        window: s.id,
                        cols: size.cols,
                        rows: size.rows,
                        title: s.pane.title.borrow().clone(),
                        cwd: None,
                    }
                })
                .collect(),
            focused_session: focused,
            focused_window: focused,
            focused: ResourceId::Local(focused),
        }
    }
}
