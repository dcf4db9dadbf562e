//! One capture: a recording on a thread of its own, so that a slow disk or a target with ten thousand
//! threads holds up nobody else.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::answer::{CaptureRow, State};
use crate::attach::waits::until;
use crate::cli::{RecordArgs, StartArgs, duration};
use crate::privileges::Files;
use crate::record::{self, Figures, Pulse, Session, Step};
use crate::target::Survey;

/// Longest wait for an answer of a capture that is busy.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a capture is told.
enum Word {
    Stop,
    Trigger(oneshot::Sender<Result<(), String>>),
    Figures(oneshot::Sender<Figures>),
}

/// A capture, as the daemon holds it.
pub(super) struct Capture {
    pub(super) name: String,
    words: mpsc::Sender<Word>,
    told: watch::Receiver<CaptureRow>,
}

impl Capture {
    /// Starts one that writes to `dir`, which is new and ours.
    pub(super) fn start(name: String, dir: PathBuf, start: &StartArgs) -> Result<Capture> {
        let args = to_record(start, &dir)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let row = CaptureRow {
            name: name.clone(),
            target: named(start),
            state: State::Starting,
            dir: dir.display().to_string(),
            start_unix_ms: since.map_or(0, |t| u64::try_from(t.as_millis()).unwrap_or(0)),
            rows: 0,
            lost: 0,
            ring_bytes: 0,
            dumps: 0,
            error: None,
        };
        let (tell, told) = watch::channel(row);
        let (words, heard) = mpsc::channel(16);
        std::thread::Builder::new()
            .name("phux-capture".into())
            .spawn(move || {
                let result = catch_unwind(AssertUnwindSafe(|| run(&args, heard, &tell)));
                let error = match result {
                    Ok(Ok(())) => None,
                    Ok(Err(e)) => Some(format!("{e:#}")),
                    // Its message is on standard error.
                    Err(_) => Some("it broke off".into()),
                };
                tell.send_modify(|row| {
                    row.state = match error {
                        None => State::Ended,
                        Some(_) => State::Failed,
                    };
                    row.error = error;
                });
            })
            .context("a thread")?;
        Ok(Capture { name, words, told })
    }

    /// How it is.
    pub(super) fn row(&self) -> CaptureRow {
        self.told.borrow().clone()
    }

    /// Nothing more comes of it.
    pub(super) fn is_over(&self) -> bool {
        self.told.borrow().state.is_over()
    }

    /// Says that it shall end.
    pub(super) fn stop(&self) {
        stop(&self.words);
    }

    /// A view of it that outlives our hold on it.
    pub(super) fn watch(&self) -> Watch {
        Watch {
            words: self.words.clone(),
            told: self.told.clone(),
        }
    }
}

fn stop(words: &mpsc::Sender<Word>) {
    // No room: sixteen others are before us, and the next tidying or stop tells it again.
    // Closed: it has ended.
    let _ = words.try_send(Word::Stop);
}

/// A view of a capture.
pub(super) struct Watch {
    words: mpsc::Sender<Word>,
    told: watch::Receiver<CaptureRow>,
}

impl Watch {
    /// Waits until it records, or has failed to.
    pub(super) async fn started(mut self) -> CaptureRow {
        self.reached(|row| row.state != State::Starting).await
    }

    /// Ends it, and waits until all is written.
    pub(super) async fn stop(self) -> CaptureRow {
        let _ = self.words.send(Word::Stop).await;
        self.ended().await
    }

    /// Waits until all is written.
    pub(super) async fn ended(mut self) -> CaptureRow {
        self.reached(|row| row.state.is_over()).await
    }

    async fn reached(&mut self, there: impl FnMut(&CaptureRow) -> bool) -> CaptureRow {
        // An error: its thread has ended, and what it told last stands.
        let _ = self.told.wait_for(there).await;
        self.told.borrow().clone()
    }

    /// Writes out what its ring holds.
    pub(super) async fn trigger(self) -> Result<CaptureRow> {
        let (answer, done) = oneshot::channel();
        let sent = self.words.send(Word::Trigger(answer)).await;
        match (sent, timeout(PATIENCE, done).await) {
            (Ok(()), Ok(Ok(Ok(())))) => Ok(self.told.borrow().clone()),
            (Ok(()), Ok(Ok(Err(why)))) => bail!(why),
            (Ok(()), Err(_)) => bail!("it is busy; the ring is written out as soon as it is not"),
            _ => bail!("it has ended"),
        }
    }

    /// Its figures; `None` where it is busy, not begun or over.
    pub(super) async fn figures(self) -> Option<(CaptureRow, Figures)> {
        if self.told.borrow().state != State::Recording {
            return None;
        }
        let (answer, figures) = oneshot::channel();
        self.words.try_send(Word::Figures(answer)).ok()?;
        let figures = timeout(PATIENCE, figures).await.ok()?.ok()?;
        let row = self.told.borrow().clone();
        Some((row, figures))
    }
}

/// What it is of, in words.
fn named(start: &StartArgs) -> String {
    match (&start.target, start.pid, &start.cgroup) {
        (Some(name), _, _) => name.clone(),
        (None, Some(pid), _) => format!("pid {pid}"),
        (None, None, Some(cgroup)) => format!("cgroup {}", cgroup.display()),
        (None, None, None) => String::new(),
    }
}

/// The same as if `record` had been called.
fn to_record(start: &StartArgs, dir: &Path) -> Result<RecordArgs> {
    let time = |text: &Option<String>| match text {
        Some(text) => duration(text).map(Some).map_err(anyhow::Error::msg),
        None => Ok(None),
    };
    let conditions = start
        .on
        .iter()
        .map(|c| c.parse().map_err(anyhow::Error::msg));
    if !start.on.is_empty() && start.ring.is_none() {
        bail!("a condition (on) is of a flight recorder (ring)");
    }
    if start.target.is_some() && start.pid.is_some() {
        bail!("a target or a pid, not both");
    }
    let families = match (start.families.as_slice(), start.syscall.as_slice()) {
        ([], []) => vec!["fs".into()],
        (families, _) => families.to_vec(),
    };
    Ok(RecordArgs {
        target: start.target.as_ref().map(Into::into),
        pid: start.pid,
        duration: time(&start.duration).context("duration")?,
        families,
        syscall: start.syscall.clone(),
        aggregate: start.aggregate.clone(),
        comm: start.comm.clone(),
        tid: start.tid.clone(),
        cgroup: start.cgroup.clone(),
        output: Some(dir.to_owned()),
        ring: time(&start.ring).context("ring")?,
        on: conditions.collect::<Result<_>>().context("on")?,
        json: false,
        events: false,
        cpus_per_ring: None,
        command: Vec::new(),
    })
}

/// The whole of it, on its thread.
fn run(
    args: &RecordArgs,
    words: mpsc::Receiver<Word>,
    tell: &watch::Sender<CaptureRow>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime")?;
    runtime.block_on(record(args, words, tell))
}

async fn record(
    args: &RecordArgs,
    mut words: mpsc::Receiver<Word>,
    tell: &watch::Sender<CaptureRow>,
) -> Result<()> {
    let survey = Survey::take().context("reading /proc")?;
    let target = record::target(args, None, &survey)?;
    let mut session = Session::begin(args, &target, &survey, Files::Ours)?;
    drop(survey);
    tell.send_modify(|row| {
        row.state = State::Recording;
        row.target.clone_from(&target.asked);
    });
    let mut pulse = Pulse::new(true);
    let deadline = args.duration.map(|d| Instant::now() + d);
    loop {
        tokio::select! {
            biased;
            word = words.recv() => match word {
                // The daemon is gone.
                None | Some(Word::Stop) => break,
                Some(Word::Trigger(answer)) => {
                    let done = session.trigger().map_err(|e| e.to_string());
                    let _ = answer.send(done);
                }
                Some(Word::Figures(answer)) => {
                    let _ = answer.send(session.figures()?);
                }
            },
            () = until(deadline) => break,
            step = session.step(&mut pulse) => match step? {
                Step::Pulled => {}
                Step::Looked => {
                    let (stats, lost) = session.recorded()?;
                    tell.send_modify(|row| {
                        row.rows = stats.rows;
                        row.lost = lost;
                        row.ring_bytes = stats.ring_bytes as u64;
                        row.dumps = stats.dumps;
                    });
                }
                Step::TargetEnded | Step::RecorderEnded => break,
            },
        }
    }
    let (stats, lost) = session.recorded()?;
    tell.send_modify(|row| {
        row.state = State::Ending;
        row.rows = stats.rows;
        row.lost = lost;
        row.dumps = stats.dumps;
    });
    let rows = session.finish(args, &target, &mut io::sink())?;
    tell.send_modify(|row| row.rows = rows);
    Ok(())
}
