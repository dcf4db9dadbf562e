//! The log: one line per event, to a file or to stderr.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;

/// How long a client's log is kept after its last line.
const KEEP_LOGS: Duration = Duration::from_secs(7 * 24 * 3600);

enum Sink {
    Stderr,
    File(Mutex<File>),
}

struct Logger(Sink);

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        // The terminal library tells every sequence that it does not know.
        metadata.target().starts_with("phux")
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let line = format!(
            "{}.{:03} {:5} {}\n",
            now.as_secs(),
            now.subsec_millis(),
            record.level(),
            record.args()
        );
        // One write per line, so that lines of several threads do not mix. A log that cannot be
        // written is no reason to stop.
        let _ = match &self.0 {
            Sink::Stderr => std::io::stderr().write_all(line.as_bytes()),
            Sink::File(file) => match file.lock() {
                Ok(mut file) => file.write_all(line.as_bytes()),
                Err(_) => Ok(()),
            },
        };
    }

    fn flush(&self) {}
}

fn install(sink: Sink) {
    let level = std::env::var("PHUX_LOG").ok().and_then(|v| v.parse().ok());
    log::set_max_level(level.unwrap_or(log::LevelFilter::Info));
    // A second call would fail: there is one process, one role, one log.
    let _ = log::set_boxed_logger(Box::new(Logger(sink)));
}

/// Logs to stderr.
pub(crate) fn to_stderr() {
    install(Sink::Stderr);
}

/// Logs to `name` in [`dir`].
///
/// # Errors
/// Where the file cannot be made.
pub(crate) fn to_file(name: &str) -> anyhow::Result<()> {
    let dir = dir();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .with_context(|| format!("cannot make {}", dir.display()))?;
    prune(&dir);
    let path = dir.join(name);
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    install(Sink::File(Mutex::new(file)));
    Ok(())
}

/// Removes the logs of clients that have not written for a while: there is one for each.
fn prune(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of_client = name
            .to_str()
            .is_some_and(|name| name.starts_with("client-"));
        let age = entry.metadata().and_then(|meta| meta.modified());
        let age = age
            .ok()
            .and_then(|at| at.elapsed().ok())
            .unwrap_or_default();
        if of_client && age > KEEP_LOGS {
            // Another client may have done so at the same moment.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// `$XDG_STATE_HOME/phux[-profile]`, or the same in `~/.local/state`.
fn dir() -> PathBuf {
    let set = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_STATE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/state")))
        .unwrap_or_else(std::env::temp_dir);
    match std::env::var("PHUX_PROFILE") {
        Ok(profile) if !profile.is_empty() => base.join(format!("phux-{profile}")),
        _ => base.join("phux"),
    }
}
