//! The client's own screen, kept equal to the pane's by what the server sends.

use phux_perf::hop;
use phux_wire::{DetachReason, ResourceId, ServerMessage, StreamKey};

use super::HISTORY;
use crate::perf::Stopwatch;
use crate::perf::client::VT_APPLY;
use crate::term::{Notice, Screen, Size, StdSyncHandler};

/// How a session ended for this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The person left.
    Detached,
    /// The child ended, with this status where known.
    Exited(Option<i32>),
    /// The server ended.
    Shutdown,
    /// The server is gone without a word.
    Lost,
    /// A signal asked the client to end, or its terminal is gone.
    Terminated,
}

/// What a message has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Nothing,
    /// The screen, by what the pane's program wrote.
    Output,
    /// The screen, as a whole.
    Screen,
    End(End),
}

pub(super) struct Mirror {
    pub(super) screen: Screen<StdSyncHandler>,
    /// Bell to be rung with the next paint.
    pub(super) bell: bool,
    /// The stream that is shown; input goes to its pane.
    stream: Option<StreamKey>,
    /// A bootstrap that is not complete: what is there is not to be shown.
    incoming: Option<StreamKey>,
    /// The child's exit status.
    exit: Option<i32>,
}

impl Mirror {
    pub(super) fn new(size: Size) -> Self {
        let screen = Screen::new(size, HISTORY.into());
        Self {
            screen,
            bell: false,
            stream: None,
            incoming: None,
            exit: None,
        }
    }

    /// The pane that is shown, once there is one.
    pub(super) fn pane(&self) -> Option<&ResourceId> {
        self.stream.as_ref().map(|stream| &stream.resource)
    }

    /// Whether the screen can be shown: it is not in the middle of a bootstrap.
    pub(super) fn is_whole(&self) -> bool {
        self.incoming.is_none()
    }

    pub(super) fn apply(&mut self, message: ServerMessage) -> News {
        match message {
            // Output of another stream is that of a pane or a size that is no more.
            ServerMessage::Output(output) if self.stream.as_ref() == Some(&output.key) => {
                let start = Stopwatch::start();
                let notices = self.screen.apply(&output.data);
                self.bell |= notices.contains(&Notice::Bell);
                let pane = match output.key.resource {
                    ResourceId::Local(id) | ResourceId::Satellite(_, id) => id,
                };
                hop!(VT_APPLY, start.micros(), pane, output.seq);
                News::Output
            }
            ServerMessage::BootstrapBegin(begin) if begin.codec == 0 => {
                self.screen = Screen::new(Size::clamped(begin.cols, begin.rows), HISTORY.into());
                self.incoming = Some(begin.key);
                News::Nothing
            }
            ServerMessage::BootstrapChunk(chunk) if self.incoming.as_ref() == Some(&chunk.key) => {
                // The bell and the answers in it are long past.
                self.screen.apply(&chunk.data);
                News::Nothing
            }
            ServerMessage::BootstrapReady(key) if self.incoming.as_ref() == Some(&key) => {
                self.incoming = None;
                self.stream = Some(key);
                News::Screen
            }
            ServerMessage::Closed(closed) => {
                self.exit = closed.exit;
                News::Nothing
            }
            ServerMessage::Detached { reason, .. } => News::End(match reason {
                DetachReason::Asked => End::Detached,
                DetachReason::SessionKilled => End::Exited(self.exit),
                DetachReason::Shutdown => End::Shutdown,
                _ => End::Lost,
            }),
            _ => News::Nothing,
        }
    }
}
