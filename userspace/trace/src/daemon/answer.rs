//! What goes back over the socket: a JSON line for each command.

use serde::{Deserialize, Serialize};

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Answer {
    /// It was not done.
    Error {
        /// Why.
        message: String,
    },
    /// It was done: the capture as it is now.
    Capture(CaptureRow),
    /// All there is.
    Status {
        /// Captures, in the order in which they were started; of those that ended the last ones.
        captures: Vec<CaptureRow>,
        /// Recordings on the disk, by name.
        recordings: Vec<RecordingRow>,
        /// What the recordings may take, bytes.
        max_bytes: u64,
        /// Where Prometheus finds the figures.
        metrics: Option<String>,
    },
}

/// A capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CaptureRow {
    /// Its name.
    pub(super) name: String,
    /// What it records, as it was named.
    pub(super) target: String,
    /// How far it is.
    pub(super) state: State,
    /// Folder of its recording.
    pub(super) dir: String,
    /// When it was started, ms since the Unix epoch.
    pub(super) start_unix_ms: u64,
    /// Rows recorded.
    pub(super) rows: u64,
    /// Records that the kernel could not hand over.
    pub(super) lost: u64,
    /// What a flight recorder holds, bytes.
    pub(super) ring_bytes: u64,
    /// How often that was written out.
    pub(super) dumps: u64,
    /// What ended it early.
    pub(super) error: Option<String>,
}

/// How far a capture is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Being loaded and attached.
    #[default]
    Starting,
    /// Records.
    Recording,
    /// Writes the rest.
    Ending,
    /// Complete.
    Ended,
    /// Ended by an error; what was written until then is there.
    Failed,
}

impl State {
    /// Nothing more comes of it.
    pub(super) fn is_over(self) -> bool {
        matches!(self, State::Ended | State::Failed)
    }

    /// In words.
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Recording => "recording",
            State::Ending => "ending",
            State::Ended => "ended",
            State::Failed => "failed",
        }
    }
}

/// A recording on the disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordingRow {
    /// Its folder's name.
    pub(super) name: String,
    /// What it takes, bytes.
    pub(super) bytes: u64,
    /// When it was last written, ms since the Unix epoch.
    pub(super) written_unix_ms: i64,
    /// It is being recorded.
    pub(super) living: bool,
}
