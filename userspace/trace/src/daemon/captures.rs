//! All captures of a daemon.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use phux_recording::Stored;

use super::answer::{Answer, CaptureRow, RecordingRow};
use super::capture::{Capture, Watch};
use super::retention::{Limits, judge};
use crate::cli::{CtlCommand, StartArgs, WhichArgs};
use crate::record::Figures;
use crate::report::units::bytes;
use crate::say;

/// Captures at once: each has programs and rings of its own in the kernel.
const MOST: usize = 8;
/// Captures that have ended and are still told of.
const REMEMBERED: usize = 64;

/// All of them, and where their recordings are.
pub(super) struct Captures {
    dir: PathBuf,
    limits: Limits,
    metrics: Option<SocketAddr>,
    /// Running ones and the last ended ones, in the order in which they were started. Not borrowed
    /// across an await.
    all: RefCell<Vec<Capture>>,
    removed: Cell<u64>,
    /// Those that could not be removed: told once.
    stuck: RefCell<BTreeSet<String>>,
}

impl Captures {
    pub(super) fn new(dir: PathBuf, limits: Limits, metrics: Option<SocketAddr>) -> Captures {
        Captures {
            dir,
            limits,
            metrics,
            all: RefCell::default(),
            removed: Cell::default(),
            stuck: RefCell::default(),
        }
    }

    /// Does what is asked.
    pub(super) async fn answer(&self, command: CtlCommand) -> Answer {
        let done = match command {
            CtlCommand::Status => Ok(self.status()),
            CtlCommand::Start(start) => match self.start(&start) {
                Ok(watch) => started(watch.started().await),
                Err(e) => Err(e),
            },
            CtlCommand::Stop(which) => match self.running(&which) {
                Ok(watch) => Ok(Answer::Capture(watch.stop().await)),
                Err(e) => Err(e),
            },
            CtlCommand::Trigger(which) => match self.running(&which) {
                Ok(watch) => watch.trigger().await.map(Answer::Capture),
                Err(e) => Err(e),
            },
        };
        done.unwrap_or_else(|e| Answer::Error {
            message: format!("{e:#}"),
        })
    }

    fn status(&self) -> Answer {
        let rows = |s: &Stored| RecordingRow {
            name: s.name.clone(),
            bytes: s.bytes,
            written_unix_ms: s.written_ns / 1_000_000,
            living: s.living,
        };
        Answer::Status {
            captures: self.all.borrow().iter().map(Capture::row).collect(),
            recordings: self.stored().iter().map(rows).collect(),
            max_bytes: self.limits.max_bytes,
            metrics: self.metrics.map(|m| format!("http://{m}/metrics")),
        }
    }

    fn start(&self, start: &StartArgs) -> Result<Watch> {
        let running = self.all.borrow().iter().filter(|c| !c.is_over()).count();
        if running >= MOST {
            bail!("{MOST} captures run already; end one first");
        }
        let (name, dir) = self.new_folder(start)?;
        let capture = match Capture::start(name, dir.clone(), start) {
            Ok(capture) => capture,
            Err(e) => {
                let _ = std::fs::remove_dir(&dir);
                return Err(e);
            }
        };
        let watch = capture.watch();
        let mut all = self.all.borrow_mut();
        let ended = all.iter().filter(|c| c.is_over()).count();
        if ended >= REMEMBERED
            && let Some(oldest) = all.iter().position(Capture::is_over)
        {
            all.remove(oldest);
        }
        all.push(capture);
        Ok(watch)
    }

    /// A folder that nobody had, for a capture that nobody has the name of.
    fn new_folder(&self, start: &StartArgs) -> Result<(String, PathBuf)> {
        let make = |name: &str| {
            let dir = self.dir.join(name);
            let mut builder = std::fs::DirBuilder::new();
            builder.mode(0o700).create(&dir).map(|()| dir)
        };
        if let Some(name) = &start.name {
            if *name != harmless(name) || name.starts_with('.') || name.len() > 64 {
                bail!("a name has letters, digits, - and _, and dots after the first: {name:?}");
            }
            return match make(name) {
                Ok(dir) => Ok((name.clone(), dir)),
                Err(e) => Err(e).with_context(|| format!("cannot make a recording {name}")),
            };
        }
        let mut named = match (&start.target, start.pid) {
            (Some(target), _) => harmless(target).trim_start_matches('.').to_owned(),
            (None, Some(pid)) => format!("pid-{pid}"),
            (None, None) => String::new(),
        };
        named.truncate(40);
        if named.is_empty() {
            named.push_str("capture");
        }
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let stamp = now.replace(['-', ':'], "");
        for n in 1..100 {
            let name = match n {
                1 => format!("{named}-{stamp}"),
                n => format!("{named}-{stamp}-{n}"),
            };
            match make(&name) {
                Ok(dir) => return Ok((name, dir)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).context("cannot make a folder for the recording"),
            }
        }
        bail!("a hundred captures of {named} in one second")
    }

    /// The capture that is meant.
    fn running(&self, which: &WhichArgs) -> Result<Watch> {
        let all = self.all.borrow();
        let running: Vec<&Capture> = all.iter().filter(|c| !c.is_over()).collect();
        match (&which.name, running.as_slice()) {
            (Some(name), running) => match running.iter().find(|c| c.name == *name) {
                Some(capture) => Ok(capture.watch()),
                None => bail!("no capture {name:?} runs"),
            },
            (None, [only]) => Ok(only.watch()),
            (None, []) => bail!("no capture runs"),
            (None, several) => {
                let names: Vec<&str> = several.iter().map(|c| c.name.as_str()).collect();
                bail!("several captures run: {}", names.join(", "))
            }
        }
    }

    /// Ends all of them, and waits until all is written.
    pub(super) async fn stop_all(&self) {
        let watches: Vec<Watch> = {
            let all = self.all.borrow();
            all.iter().for_each(|c| c.stop());
            all.iter().map(Capture::watch).collect()
        };
        for watch in watches {
            watch.ended().await;
        }
    }

    /// The figures of all that record, and their rows.
    pub(super) async fn figures(&self) -> Vec<(CaptureRow, Figures)> {
        let watches: Vec<Watch> = self.all.borrow().iter().map(Capture::watch).collect();
        let mut all = Vec::new();
        for watch in watches {
            all.extend(watch.figures().await);
        }
        all
    }

    /// How many there are by state, for the metrics.
    pub(super) fn rows(&self) -> Vec<CaptureRow> {
        self.all.borrow().iter().map(Capture::row).collect()
    }

    /// Recordings removed so far.
    pub(super) fn removed(&self) -> u64 {
        self.removed.get()
    }

    /// The recordings on the disk.
    pub(super) fn stored(&self) -> Vec<Stored> {
        let mut found = phux_recording::stored(&self.dir).unwrap_or_default();
        // One that has just been started has no lock yet.
        let all = self.all.borrow();
        let running = |name: &str| all.iter().any(|c| c.name == name && !c.is_over());
        for one in &mut found {
            one.living |= running(&one.name);
        }
        found
    }

    /// Brings the folder within its bounds.
    pub(super) fn tidy(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = since.map_or(0, |t| i64::try_from(t.as_nanos()).unwrap_or(i64::MAX));
        let verdict = judge(&self.stored(), self.limits, now_ns);
        for name in &verdict.remove {
            match phux_recording::remove(&self.dir, name) {
                Ok(_) => {
                    self.removed.update(|n| n + 1);
                    say::complain(&format!("removed {name}: too old, or the folder too large"));
                }
                Err(e) if self.stuck.borrow_mut().insert(name.clone()) => {
                    let why = anyhow::Error::from(e);
                    say::complain(&format!("{name} cannot be removed: {why:#}"));
                }
                Err(_) => {}
            }
        }
        if let Some(name) = &verdict.end {
            let all = self.all.borrow();
            for capture in all.iter().filter(|c| c.name == *name && !c.is_over()) {
                say::complain(&format!(
                    "{name} ends: the recordings take more than {}",
                    bytes(self.limits.max_bytes)
                ));
                capture.stop();
            }
        }
    }
}

fn started(row: CaptureRow) -> Result<Answer> {
    match &row.error {
        None => Ok(Answer::Capture(row)),
        Some(error) => {
            // It never began. What is in there, if anything, is not ours.
            let _ = std::fs::remove_dir(&row.dir);
            bail!("{error}")
        }
    }
}

/// Letters, digits and a few signs, the rest as `_`.
fn harmless(name: &str) -> String {
    let keep = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' => c,
        _ => '_',
    };
    name.chars().map(keep).collect()
}
