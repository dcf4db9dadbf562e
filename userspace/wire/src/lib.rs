//! The frames of the phux multiplexer's protocol, versions 0.8 and 0.9, as far as a small server,
//! its client and the profiler need them.
//!
//! * [`Deframer`] cuts a byte stream into frames; [`ClientMessage`] and [`ServerMessage`] are
//!   what is inside them. Every length is bounded and every value checked: whatever arrives, the
//!   answer is a message or a [`DecodeError`].
//! * [`socket`] finds a server's socket by upstream's rules.
//! * [`get_perf`] asks a server for its telemetry, over a connection of its own.
//!
//! One codec serves both versions: what 0.9 adds are fields that 0.8 skips and bytes at the end
//! of values that 0.8 ignores.

mod command;
mod connection;
mod content;
mod error;
mod frame;
mod hello;
mod input;
mod message;
mod perf_client;
mod session;
pub mod socket;
mod tlv;
mod value;

pub use command::{Command, CommandOutcome, ResultValue, error_code};
pub use connection::{Connection, ConnectionError};
pub use content::{BootstrapBegin, BootstrapChunk, Closed, Output, StreamKey};
pub use error::DecodeError;
pub use frame::{Deframer, MAX_FRAME, RawFrame, kind};
pub use hello::{ClientCaps, Hello, HelloOk, MAX_TRANSFER, Profile, Version, feature, profile};
pub use input::{FocusEvent, KeyEvent, MouseEvent, PasteEvent, action, button, key, mods};
pub use message::{ClientMessage, DetachReason, ServerMessage};
pub use perf_client::{PerfError, get_perf};
pub use session::{
    Attach, Attached, Layout, PaneInfo, SessionInfo, Snapshot, Target, Viewport, WindowInfo,
};

/// Names a pane. Upstream calls it a terminal id in 0.8 and a resource id in 0.9.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ResourceId {
    /// A pane of this server.
    Local(u32),
    /// A pane of another host behind this server.
    Satellite(String, u32),
}
