//! GET_PERF for tools: asks a server for its telemetry.

use std::path::Path;
use std::time::Duration;

use crate::connection::{Connection, ConnectionError};
use crate::{Command, CommandOutcome, ResultValue};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// The server could not be talked to.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// A server without telemetry: not a fault, there is only nothing to show.
    #[error("server has no GET_PERF (version {version}, features {features:#x})")]
    NotSupported {
        /// The version that the server speaks.
        version: crate::Version,
        /// Its features word.
        features: u32,
    },
    /// The server does not hand it out.
    #[error("the server refused GET_PERF (code {code}): {text}")]
    Refused {
        /// See [`error_code`](crate::error_code).
        code: u16,
        /// The server's words.
        text: String,
    },
    /// The answer is not a report.
    #[error("the server's answer is not a report: {0}")]
    NotAReport(String),
}

/// Asks the server at `path` for its report, a JSON document that `phux_perf::PerfReport` reads.
///
/// It takes a connection of its own and checks the feature first, since a server that does not know
/// the command would drop the connection. `name` is what the server sees in HELLO. Prefer
/// `reset = false` and the difference of two reports: a reset is seen by every other reader.
///
/// # Errors
/// See [`PerfError`]. It never starts a server, and ends within twice `timeout`.
pub fn get_perf(
    path: &Path,
    name: &str,
    reset: bool,
    timeout: Duration,
) -> Result<String, PerfError> {
    let mut connection = Connection::open(path, name, timeout)?;
    let hello = connection.hello();
    if !hello.has_get_perf() {
        return Err(PerfError::NotSupported {
            version: hello.version,
            features: hello.features,
        });
    }
    match connection.request(Command::GetPerf { reset }, timeout)? {
        CommandOutcome::OkWith(ResultValue::Json(json)) => Ok(json),
        CommandOutcome::Error { code, text } => Err(PerfError::Refused { code, text }),
        other => Err(PerfError::NotAReport(format!("{other:?}"))),
    }
}
