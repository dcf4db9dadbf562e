//! One task per client: reads its frames and carries them out.

use std::collections::HashSet;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use phux_perf::hop;
use phux_wire::{
    Attach, Attached, ClientCaps, ClientMessage, DecodeError, Deframer, DetachReason, Hello,
    HelloOk, Profile, RawFrame, ResourceId, ServerMessage, Target, Viewport, error_code, feature,
    kind, profile,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::input_lane::{self, Event};
use super::pane::Control;
use super::pump::{Gone, Pump, post};
use super::state::{Server, Session};
use super::{command, socket, writer};
use crate::perf::server::{CMD_HANDLE, PROC_CLIENTS};
use crate::perf::{Stopwatch, warn_throttled};
use crate::term::Size;

/// How long a client that is sent away may take to read why.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why a client is sent away.
pub(super) struct Fault {
    pub(super) code: u16,
    pub(super) text: String,
}

impl Fault {
    pub(super) fn new(code: u16, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::FrameLength(_) => error_code::FRAME_TOO_LARGE,
            _ => error_code::MALFORMED,
        };
        Self::new(code, format!("could not decode client frame: {error}"))
    }
}

/// How handling a frame can end the connection.
pub(super) enum Stop {
    /// The client did something wrong and is told so.
    Fault(Fault),
    /// The client is gone.
    Gone,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Self {
        Self::Fault(error.into())
    }
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// A client's place at a session. Dropping it detaches.
struct Attachment {
    client: u32,
    session: Rc<Session>,
    /// Cleared when the client has left: input that is still on its way is not for the pane.
    subscribed: Arc<AtomicBool>,
    pump: JoinHandle<()>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.subscribed.store(false, Ordering::Release);
        self.pump.abort();
        self.session.set_viewport(self.client, None);
        // The others may have more room now. A full queue means that a newer size is on its way.
        if let Some(size) = self.session.smallest_viewport() {
            let _ = self.session.pane.control.try_send(Control::Resize(size));
        }
    }
}

pub(super) struct Client {
    pub(super) id: u32,
    pub(super) server: Rc<Server>,
    pub(super) mailbox: mpsc::Sender<ServerMessage>,
    caps: Option<ClientCaps>,
    attachment: Option<Attachment>,
    attach_ids: HashSet<u32>,
    command_seq: u64,
}

/// Serves a client until it is gone.
pub(super) async fn serve(server: Rc<Server>, stream: UnixStream) {
    let id = server.new_id();
    let (mut socket, write_half) = match socket::split(stream) {
        Ok(ends) => ends,
        Err(e) => {
            warn_throttled!("cannot serve a client: {e}");
            return;
        }
    };
    let (mailbox, outgoing) = mpsc::channel(writer::MAILBOX);
    tokio::task::spawn_local(writer::run(id, outgoing, write_half));
    server.clients.borrow_mut().insert(id, mailbox.clone());
    PROC_CLIENTS.add(1);
    let mut client = Client {
        id,
        server: Rc::clone(&server),
        mailbox,
        caps: None,
        attachment: None,
        attach_ids: HashSet::new(),
        command_seq: 0,
    };
    let mut deframer = Deframer::new();
    let mut buf = vec![0; 16 * 1024];
    let stop = 'connection: loop {
        match socket.read(&mut buf).await {
            Ok(0) | Err(_) => break Stop::Gone,
            Ok(len) => deframer.feed(&buf[..len]),
        }
        loop {
            let handled = match deframer.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => client.on_frame(frame).await,
                Err(error) => Err(error.into()),
            };
            if let Err(stop) = handled {
                break 'connection stop;
            }
        }
    };
    client.attachment = None;
    if let Stop::Fault(Fault { code, text }) = stop {
        log::info!("client {id} sent away: {text}");
        let farewell = async {
            client
                .post(ServerMessage::Error {
                    request: None,
                    code,
                    text: text.clone(),
                })
                .await?;
            let reason = DetachReason::Protocol;
            client
                .post(ServerMessage::Detached {
                    reason,
                    text: Some(text),
                })
                .await
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
    PROC_CLIENTS.add(-1);
    server.client_ended(id);
}

impl Client {
    pub(super) async fn post(&self, message: ServerMessage) -> Result<(), Gone> {
        post(self.id, &self.mailbox, message).await
    }

    async fn on_frame(&mut self, frame: RawFrame<'_>) -> Result<(), Stop> {
        let greeting = matches!(frame.kind, kind::HELLO | kind::PING);
        if self.caps.is_none() && !greeting {
            let code = error_code::VERSION_INCOMPATIBLE;
            return Err(Fault::new(code, format!("frame {:#04x} before HELLO", frame.kind)).into());
        }
        match ClientMessage::decode(frame)? {
            ClientMessage::Hello(hello) => self.hello(hello).await?,
            ClientMessage::Ping(n) => self.post(ServerMessage::Pong(n)).await?,
            ClientMessage::Attach(attach) => self.attach(attach).await?,
            ClientMessage::Detach => {
                self.attachment = None;
                let reason = DetachReason::Asked;
                self.post(ServerMessage::Detached { reason, text: None })
                    .await?;
            }
            ClientMessage::Key(event) => self.input(Event::Key(event)).await,
            ClientMessage::Paste(event) => self.input(Event::Paste(event)).await,
            ClientMessage::Mouse(event) => self.input(Event::Mouse(event)).await,
            ClientMessage::Focus(event) => self.input(Event::Focus(event)).await,
            ClientMessage::ViewportResize(viewport) => self.resize(viewport).await,
            // The raw stream is not paced by what the client acknowledges.
            ClientMessage::FrameAck { .. } => {}
            ClientMessage::Command { request, command } => {
                let start = Stopwatch::start();
                let outcome = command::carry_out(self, command).await?;
                self.command_seq += 1;
                hop!(CMD_HANDLE, start.micros(), self.id, self.command_seq);
                self.post(ServerMessage::CommandResult { request, outcome })
                    .await?;
            }
        }
        Ok(())
    }

    async fn hello(&mut self, hello: Hello) -> Result<(), Stop> {
        if self.caps.is_some() {
            return Err(Fault::new(error_code::INVALID_COMMAND, "second HELLO").into());
        }
        let config = &self.server.config;
        let version = config.version;
        if !version.admits(hello.version) {
            let text = format!(
                "server speaks {}.{}, client {}",
                version.major, version.minor, hello.version
            );
            return Err(Fault::new(error_code::VERSION_INCOMPATIBLE, text).into());
        }
        if hello.caps.profiles & profile::RAW == 0 {
            let text = "only the raw profile is served";
            return Err(Fault::new(error_code::CODEC_UNAVAILABLE, text).into());
        }
        log::debug!("client {} is {:?}", self.id, hello.name);
        let answer = HelloOk {
            version,
            layers: 1,
            features: if config.old_server {
                0
            } else {
                feature::GET_PERF
            },
            incarnation: self.server.incarnation,
            profile: Profile::Raw,
            max_chunk: hello.caps.max_chunk.min(ClientCaps::default().max_chunk),
            max_page: hello.caps.max_page.min(ClientCaps::default().max_page),
        };
        self.caps = Some(hello.caps);
        Ok(self.post(ServerMessage::HelloOk(answer)).await?)
    }

    /// An error that leaves the connection as it is.
    async fn refuse(&self, code: u16, text: String) -> Result<(), Stop> {
        Ok(self
            .post(ServerMessage::Error {
                request: None,
                code,
                text,
            })
            .await?)
    }

    async fn attach(&mut self, attach: Attach) -> Result<(), Stop> {
        let started = Stopwatch::start();
        if !self.attach_ids.insert(attach.attach_id) {
            let text = format!("attach id {} was used before", attach.attach_id);
            return self.refuse(error_code::MALFORMED, text).await;
        }
        let size = Size::clamped(attach.viewport.cols, attach.viewport.rows);
        let server = &self.server;
        let (session, shown) = match attach.target {
            Target::Last => (server.last_session(), "no session".to_owned()),
            Target::Id(id) => (
                server.sessions.borrow().get(&id).cloned(),
                format!("no session {id}"),
            ),
            Target::Name(name) => (server.session_named(&name), format!("no session {name}")),
            Target::Create { name, argv, cwd } => match server.session_named(&name) {
                Some(session) => (Some(session), String::new()),
                None => match server.create_session(&name, argv, cwd, size) {
                    Ok(session) => (Some(session), String::new()),
                    Err(error) => {
                        let code = error_code::RESOURCE_EXHAUSTED;
                        return self.refuse(code, format!("{error:#}")).await;
                    }
                },
            },
        };
        let Some(session) = session else {
            return self.refuse(error_code::SESSION_NOT_FOUND, shown).await;
        };
        // Leaving first: the old size must not count beside the new one.
        self.attachment = None;
        session.set_viewport(self.id, Some(size));
        server.last.set(session.id);
        let history = match (attach.want_scrollback, attach.scrollback_limit) {
            (false, _) => 0,
            (true, 0) => usize::MAX,
            (true, limit) => limit as usize,
        };
        // Asked for before anything is waited for: a child that exits at once is still seen.
        let (reply, first) = tokio::sync::oneshot::channel();
        let asked = session
            .pane
            .control
            .try_send(Control::Bootstrap { history, reply });
        if asked.is_err() {
            log::debug!(
                "client {}: pane {} is busy or gone",
                self.id,
                session.pane.id
            );
        }
        let pump = Pump {
            client: self.id,
            attach_id: attach.attach_id,
            pane: Rc::clone(&session.pane),
            mailbox: self.mailbox.clone(),
            history,
            max_chunk: self.caps.map_or(1, |caps| caps.max_chunk as usize),
            started,
        };
        let attached = ServerMessage::Attached(Attached {
            snapshot: server.snapshot(),
            client_id: self.id,
            attach_id: attach.attach_id,
        });
        self.post(attached).await?;
        self.attachment = Some(Attachment {
            client: self.id,
            session: Rc::clone(&session),
            subscribed: Arc::new(AtomicBool::new(true)),
            pump: tokio::task::spawn_local(pump.run(first)),
        });
        if let Some(size) = session.smallest_viewport() {
            let _ = session.pane.control.send(Control::Resize(size)).await;
        }
        Ok(())
    }

    async fn resize(&mut self, viewport: Viewport) {
        let Some(attachment) = &self.attachment else {
            return;
        };
        let session = &attachment.session;
        session.set_viewport(self.id, Some(Size::clamped(viewport.cols, viewport.rows)));
        if let Some(size) = session.smallest_viewport() {
            // A pane that has ended has no size.
            let _ = session.pane.control.send(Control::Resize(size)).await;
        }
    }

    /// Hands an event to the lane, if it is for the pane that the client is attached to.
    async fn input(&mut self, event: Event) {
        let Some(attachment) = &self.attachment else {
            return;
        };
        let pane = &attachment.session.pane;
        if *event.resource() != ResourceId::Local(pane.id) {
            return;
        }
        let subscribed = Arc::clone(&attachment.subscribed);
        input_lane::send(&self.server.lane, pane.id, &pane.input, event, subscribed).await;
    }
}
