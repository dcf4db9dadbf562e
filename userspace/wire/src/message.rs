//! The messages of both directions, and their frames.

use crate::tlv::{Fields, FrameWriter};
use crate::value::{ValueReader, text};
use crate::{
    Attach, Attached, BootstrapBegin, BootstrapChunk, Closed, Command, CommandOutcome, DecodeError,
    FocusEvent, Hello, HelloOk, KeyEvent, MouseEvent, Output, PasteEvent, RawFrame, StreamKey,
    Viewport, kind,
};

/// What a client sends.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each variant is the frame of that name")]
pub enum ClientMessage {
    Hello(Hello),
    Attach(Attach),
    Detach,
    Key(KeyEvent),
    Paste(PasteEvent),
    Mouse(MouseEvent),
    Focus(FocusEvent),
    ViewportResize(Viewport),
    FrameAck { key: StreamKey, seq: u64 },
    Command { request: u32, command: Command },
    Ping(u64),
}

impl ClientMessage {
    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello(m) => m.encode(),
            Self::Attach(m) => m.encode(),
            Self::Detach => FrameWriter::new(kind::DETACH, 0).finish(),
            Self::Key(m) => m.encode(),
            Self::Paste(m) => m.encode(),
            Self::Mouse(m) => m.encode(),
            Self::Focus(m) => m.encode(),
            Self::ViewportResize(m) => FrameWriter::new(kind::VIEWPORT_RESIZE, 16)
                .field(1, &m.encode())
                .finish(),
            Self::FrameAck { key, seq } => Output::encode_ack(key, *seq),
            Self::Command { request, command } => command.encode(*request),
            Self::Ping(n) => FrameWriter::new(kind::PING, 16).u64(1, *n).finish(),
        }
    }

    /// Reads what a client sent.
    ///
    /// # Errors
    /// [`DecodeError::UnknownType`] for a frame that a server has no use for; it drops the
    /// connection then, as upstream does.
    pub fn decode(frame: RawFrame<'_>) -> Result<Self, DecodeError> {
        // The type is looked at before the body, so that an unknown one is named as such.
        let f = || Fields::parse(frame.payload);
        Ok(match frame.kind {
            kind::HELLO => Self::Hello(Hello::decode(&f()?)?),
            kind::ATTACH => Self::Attach(Attach::decode(&f()?)?),
            kind::DETACH => Self::Detach,
            kind::INPUT_KEY => Self::Key(KeyEvent::decode(&f()?)?),
            kind::INPUT_PASTE => Self::Paste(PasteEvent::decode(&f()?)?),
            kind::INPUT_MOUSE => Self::Mouse(MouseEvent::decode(&f()?)?),
            kind::INPUT_FOCUS => Self::Focus(FocusEvent::decode(&f()?)?),
            kind::VIEWPORT_RESIZE => Self::ViewportResize(Viewport::decode(f()?.need(1)?)?),
            kind::FRAME_ACK => {
                let (key, seq) = Output::decode_ack(&f()?)?;
                Self::FrameAck { key, seq }
            }
            kind::COMMAND => {
                let (request, command) = Command::decode(&f()?)?;
                Self::Command { request, command }
            }
            kind::PING => Self::Ping(ValueReader(f()?.need(1)?).u64()?),
            other => return Err(DecodeError::UnknownType(other)),
        })
    }
}

/// Why a server detached a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetachReason {
    /// It asked.
    Asked,
    /// The server ends.
    Shutdown,
    /// The session ended.
    SessionKilled,
    /// Another client took its place.
    Replaced,
    /// It sent something that is not understood.
    Protocol,
    /// Any other number.
    Other(u8),
}

impl DetachReason {
    fn code(self) -> u8 {
        match self {
            Self::Asked => 0,
            Self::Shutdown => 1,
            Self::SessionKilled => 2,
            Self::Replaced => 3,
            Self::Protocol => 4,
            Self::Other(code) => code,
        }
    }

    fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Asked,
            1 => Self::Shutdown,
            2 => Self::SessionKilled,
            3 => Self::Replaced,
            4 => Self::Protocol,
            other => Self::Other(other),
        }
    }
}

/// What a server sends.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "each variant is the frame of that name")]
pub enum ServerMessage {
    HelloOk(HelloOk),
    Attached(Attached),
    Detached {
        reason: DetachReason,
        text: Option<String>,
    },
    AttachReady {
        attach_id: u32,
    },
    Output(Output),
    BootstrapBegin(BootstrapBegin),
    BootstrapChunk(BootstrapChunk),
    BootstrapReady(StreamKey),
    Closed(Closed),
    Error {
        request: Option<u32>,
        code: u16,
        text: String,
    },
    CommandResult {
        request: u32,
        outcome: CommandOutcome,
    },
    Pong(u64),
    /// A frame of a type that this crate has no use for: to be skipped.
    Other(u8),
}

impl ServerMessage {
    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::HelloOk(m) => m.encode(),
            Self::Attached(m) => m.encode(),
            Self::Detached { reason, text } => {
                let mut w = FrameWriter::new(kind::DETACHED, 64);
                w.field(1, &[reason.code()]);
                if let Some(text) = text {
                    w.field(2, text.as_bytes());
                }
                w.finish()
            }
            Self::AttachReady { attach_id } => FrameWriter::new(kind::ATTACH_READY, 8)
                .u32(1, *attach_id)
                .finish(),
            Self::Output(m) => m.encode(),
            Self::BootstrapBegin(m) => m.encode(),
            Self::BootstrapChunk(m) => m.encode(),
            Self::BootstrapReady(key) => key.encode_ready(),
            Self::Closed(m) => m.encode(),
            Self::Error {
                request,
                code,
                text,
            } => {
                let mut w = FrameWriter::new(kind::ERROR, text.len() + 24);
                if let Some(request) = request {
                    w.u32(1, *request);
                }
                w.u16(2, *code).field(3, text.as_bytes()).finish()
            }
            Self::CommandResult { request, outcome } => outcome.encode(*request),
            Self::Pong(n) => FrameWriter::new(kind::PONG, 16).u64(1, *n).finish(),
            Self::Other(kind) => FrameWriter::new(*kind, 0).finish(),
        }
    }

    /// Reads what a server sent; frames of other types come out as [`ServerMessage::Other`].
    ///
    /// # Errors
    /// A frame of a known type whose fields are not as they must be.
    pub fn decode(frame: RawFrame<'_>) -> Result<Self, DecodeError> {
        let f = || Fields::parse(frame.payload);
        Ok(match frame.kind {
            kind::HELLO_OK => Self::HelloOk(HelloOk::decode(&f()?)?),
            kind::ATTACHED => Self::Attached(Attached::decode(&f()?)?),
            kind::DETACHED => {
                let f = f()?;
                Self::Detached {
                    reason: DetachReason::from_code(ValueReader(f.need(1)?).u8()?),
                    text: f.get(2).map(text).transpose()?,
                }
            }
            kind::ATTACH_READY => Self::AttachReady {
                attach_id: ValueReader(f()?.need(1)?).u32()?,
            },
            kind::OUTPUT => Self::Output(Output::decode(&f()?)?),
            kind::BOOTSTRAP_BEGIN => Self::BootstrapBegin(BootstrapBegin::decode(&f()?)?),
            kind::BOOTSTRAP_CHUNK => Self::BootstrapChunk(BootstrapChunk::decode(&f()?)?),
            kind::BOOTSTRAP_READY => Self::BootstrapReady(StreamKey::decode(&f()?)?),
            kind::CLOSED => Self::Closed(Closed::decode(&f()?)?),
            kind::ERROR => {
                let f = f()?;
                Self::Error {
                    request: f.get(1).map(|v| ValueReader(v).u32()).transpose()?,
                    code: ValueReader(f.need(2)?).u16()?,
                    text: text(f.need(3)?)?,
                }
            }
            kind::COMMAND_RESULT => {
                let (request, outcome) = CommandOutcome::decode(&f()?)?;
                Self::CommandResult { request, outcome }
            }
            kind::PONG => Self::Pong(ValueReader(f()?.need(1)?).u64()?),
            other => Self::Other(other),
        })
    }
}
