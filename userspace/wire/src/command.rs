//! COMMAND and COMMAND_RESULT: requests that a client numbers and a server answers.

use crate::tlv::{Fields, FrameWriter};
use crate::value::{ValueReader, ValueWriter};
use crate::{DecodeError, KeyEvent, ResourceId, Snapshot, kind};

/// Codes in ERROR frames and failed commands.
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub mod error_code {
    pub const VERSION_INCOMPATIBLE: u16 = 1;
    pub const UNKNOWN_TYPE: u16 = 2;
    pub const MALFORMED: u16 = 3;
    pub const FRAME_TOO_LARGE: u16 = 4;
    pub const CODEC_UNAVAILABLE: u16 = 6;
    pub const NOT_ATTACHED: u16 = 100;
    pub const SESSION_NOT_FOUND: u16 = 102;
    pub const RESOURCE_NOT_FOUND: u16 = 104;
    pub const INVALID_COMMAND: u16 = 200;
    pub const PERMISSION_DENIED: u16 = 201;
    pub const RESOURCE_EXHAUSTED: u16 = 202;
    pub const INTERNAL: u16 = 65535;
}

mod tag {
    pub(super) const KILL: u8 = 0x03;
    pub(super) const GET_STATE: u8 = 0x05;
    pub(super) const ROUTE_INPUT: u8 = 0x08;
    pub(super) const SHUT_DOWN: u8 = 0x16;
    pub(super) const GET_PERF: u8 = 0x18;
}

/// What a client can ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// End a pane's child.
    Kill(ResourceId),
    /// List sessions, windows and panes.
    GetState,
    /// Type a key into a pane without being attached.
    RouteInput(KeyEvent),
    /// End all sessions and the server.
    ShutDown,
    /// The server's telemetry. Only where [`feature::GET_PERF`](crate::feature::GET_PERF) is set.
    GetPerf {
        /// Zero it afterwards: that disturbs every other reader.
        reset: bool,
    },
}

impl Command {
    pub(crate) fn encode(&self, request: u32) -> Vec<u8> {
        let mut v = ValueWriter::default();
        match self {
            Self::Kill(resource) => v.u8(tag::KILL).resource(resource),
            Self::GetState => v.u8(tag::GET_STATE).u8(0),
            Self::RouteInput(event) => {
                v.u8(tag::ROUTE_INPUT).resource(&event.resource).u8(0);
                event.encode_event(&mut v)
            }
            Self::ShutDown => v.u8(tag::SHUT_DOWN),
            Self::GetPerf { reset } => v.u8(tag::GET_PERF).u8(u8::from(*reset)),
        };
        FrameWriter::new(kind::COMMAND, v.0.len() + 16)
            .u32(1, request)
            .field(2, &v.0)
            .finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<(u32, Self), DecodeError> {
        let request = ValueReader(f.need(1)?).u32()?;
        let mut r = ValueReader(f.need(2)?);
        let command = match r.u8()? {
            tag::KILL => Self::Kill(r.resource()?),
            tag::GET_STATE => Self::GetState,
            tag::ROUTE_INPUT => {
                let resource = r.resource()?;
                match r.u8()? {
                    0 => Self::RouteInput(KeyEvent::decode_event(resource, &mut r)?),
                    other => {
                        return Err(DecodeError::UnknownValue {
                            what: "RouteInput",
                            value: u32::from(other),
                        });
                    }
                }
            }
            tag::SHUT_DOWN => Self::ShutDown,
            tag::GET_PERF => Self::GetPerf { reset: r.bool()? },
            other => {
                return Err(DecodeError::UnknownValue {
                    what: "Command",
                    value: u32::from(other),
                });
            }
        };
        Ok((request, command))
    }
}

/// What a successful command can hand back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultValue {
    /// A pane.
    Resource(ResourceId),
    /// A group of panes.
    Group(u32),
    /// The server as it is.
    Snapshot(Snapshot),
    /// A JSON document.
    Json(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A kind of value that this crate has no use for.
    Other(u8),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Done.
    Ok,
    /// Done, with an answer.
    OkWith(ResultValue),
    /// Not done.
    Error {
        /// See [`error_code`].
        code: u16,
        /// For people.
        text: String,
    },
}

impl CommandOutcome {
    pub(crate) fn encode(&self, request: u32) -> Vec<u8> {
        let mut v = ValueWriter::default();
        match self {
            Self::Ok => v.u8(0),
            Self::OkWith(value) => {
                v.u8(1);
                match value {
                    ResultValue::Resource(resource) => v.u8(0).resource(resource),
                    ResultValue::Group(id) => v.u8(1).u32(*id),
                    ResultValue::Snapshot(snapshot) => snapshot.encode(v.u8(2)),
                    ResultValue::Json(text) => v.u8(3).str(text),
                    ResultValue::Bytes(bytes) => v.u8(4).bytes(bytes),
                    ResultValue::Other(tag) => v.u8(*tag),
                }
            }
            Self::Error { code, text } => v.u8(2).u16(*code).str(text),
        };
        let mut w = FrameWriter::new(kind::COMMAND_RESULT, v.0.len() + 16);
        w.u32(1, request).field(2, &v.0).finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<(u32, Self), DecodeError> {
        let request = ValueReader(f.need(1)?).u32()?;
        let mut r = ValueReader(f.need(2)?);
        let outcome = match r.u8()? {
            0 => Self::Ok,
            1 => Self::OkWith(match r.u8()? {
                0 => ResultValue::Resource(r.resource()?),
                1 => ResultValue::Group(r.u32()?),
                2 => ResultValue::Snapshot(Snapshot::decode(&mut r)?),
                3 => ResultValue::Json(r.string()?),
                4 => ResultValue::Bytes(r.bytes()?.to_vec()),
                other => ResultValue::Other(other),
            }),
            2 => Self::Error {
                code: r.u16()?,
                text: r.string()?,
            },
            other => {
                return Err(DecodeError::UnknownValue {
                    what: "CommandResult",
                    value: u32::from(other),
                });
            }
        };
        Ok((request, outcome))
    }
}
