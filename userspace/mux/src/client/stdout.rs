//! Writes to the outer terminal: at once where that does not block, else through the thread
//! `phux-stdout`, so that a slow terminal does not stall the client.

use std::fs::File;
use std::io::{ErrorKind, PipeWriter, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phux_perf::hop;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::stdio::stdout;

use crate::perf::client::{
    STDOUT_BACKLOG, STDOUT_BYTES, STDOUT_DROPPED_BYTES, STDOUT_DROPS, STDOUT_ERRORS,
    STDOUT_FLUSHES, STDOUT_QUEUE_WAIT, STDOUT_WRITE, STDOUT_WRITTEN,
};
use crate::perf::{self, Stopwatch, warn_throttled};

/// Most bytes that may wait for the terminal. What is beyond would only be staleness.
const BACKLOG: usize = 256 * 1024;

#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    since: Option<Stopwatch>,
    /// The writer is in the middle of a write.
    busy: bool,
    /// Ring when the writer has nothing left to do.
    wake_when_idle: bool,
    closed: bool,
    /// Numbers the writes.
    seq: u64,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The main thread's end.
#[derive(Debug)]
pub(super) struct Stdout {
    shared: Arc<Shared>,
    /// The terminal again, opened so that it does not block: the mode of standard output itself
    /// belongs to the shell as well. `None` where it cannot be opened.
    at_once: Option<File>,
}

impl Stdout {
    /// Starts the thread. It writes a byte to `idle` when it is done after a backlog was dropped.
    pub(super) fn start(idle: PipeWriter) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let for_thread = Arc::clone(&shared);
        // Std's own standard output has a buffer.
        let terminal = File::from(stdout().try_clone_to_owned()?);
        std::thread::Builder::new()
            .name("phux-stdout".into())
            .spawn(move || write_all_pending(&for_thread, &terminal, idle))?;
        let at_once = rustix::termios::ttyname(stdout(), Vec::new()).and_then(|name| {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(name, flags, Mode::empty())
        });
        let at_once = at_once.ok().map(File::from);
        Ok(Self { shared, at_once })
    }

    /// Hands a paint over; `false` if all that waited was dropped with it, because the terminal
    /// does not keep up: what is painted next must be the whole screen.
    pub(super) fn submit(&self, paint: &[u8], seq: u64) -> bool {
        let mut pending = self.shared.lock();
        STDOUT_FLUSHES.increment();
        STDOUT_BYTES.add(paint.len() as u64);
        if pending.bytes.len() + paint.len() > BACKLOG {
            STDOUT_DROPS.increment();
            STDOUT_DROPPED_BYTES.add((pending.bytes.len() + paint.len()) as u64);
            warn_throttled!("the terminal does not keep up: output dropped, repainting");
            pending.bytes.clear();
            pending.since = None;
            pending.wake_when_idle = true;
            if !pending.busy {
                // One paint alone is too much. The writer is idle already, so it rings at once.
                self.shared.changed.notify_one();
            }
            return false;
        }
        let since = *pending.since.get_or_insert_with(Stopwatch::start);
        let backlog = pending.bytes.len() + paint.len();
        let mut rest = paint;
        if pending.bytes.is_empty() && !pending.busy {
            let waited = since.micros();
            let start = Stopwatch::start();
            let written = self.write_at_once(paint);
            let wrote = start.micros();
            STDOUT_WRITTEN.add(written as u64);
            rest = paint.get(written..).unwrap_or_default();
            if rest.is_empty() {
                pending.since = None;
                pending.seq += 1;
                hop!(STDOUT_QUEUE_WAIT, waited, 0u32, pending.seq);
                hop!(STDOUT_WRITE, wrote, 0u32, pending.seq);
                hop!(STDOUT_BACKLOG, backlog, 0u32, seq);
                return true;
            }
        }
        hop!(STDOUT_BACKLOG, backlog, 0u32, seq);
        pending.bytes.extend_from_slice(rest);
        self.shared.changed.notify_one();
        true
    }

    /// Writes what the terminal takes without a wait, and returns how much that was.
    fn write_at_once(&self, bytes: &[u8]) -> usize {
        let written = self.at_once.as_ref().map(|mut to| to.write(bytes));
        // What went wrong, if it did, the thread finds out.
        written.and_then(Result::ok).unwrap_or(0)
    }

    /// Waits until everything is written, but no longer than `timeout`; then the thread ends.
    pub(super) fn finish(&self, timeout: Duration) {
        let pending = self.shared.lock();
        let working = |p: &mut Pending| p.busy || !p.bytes.is_empty();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(pending, timeout, working);
        let (mut pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pending.closed = true;
        self.shared.changed.notify_all();
    }
}

/// The thread.
fn write_all_pending(shared: &Shared, terminal: &File, mut idle: PipeWriter) {
    perf::promote("phux-stdout");
    let mut taken = Vec::new();
    let mut pending = shared.lock();
    loop {
        if pending.bytes.is_empty() {
            pending.busy = false;
            if std::mem::take(&mut pending.wake_when_idle) {
                // The main thread has ended if this fails, and so does this one soon.
                let _ = idle.write_all(b"i");
            }
            if pending.closed {
                return;
            }
            shared.changed.notify_all();
            let quiet = |p: &mut Pending| p.bytes.is_empty() && !p.closed && !p.wake_when_idle;
            pending = shared
                .changed
                .wait_while(pending, quiet)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        pending.busy = true;
        std::mem::swap(&mut pending.bytes, &mut taken);
        let since = pending.since.take();
        pending.seq += 1;
        let seq = pending.seq;
        drop(pending);
        if let Some(since) = since {
            hop!(STDOUT_QUEUE_WAIT, since.micros(), 0u32, seq);
        }
        let start = Stopwatch::start();
        match write_all(terminal, &taken) {
            Ok(()) => STDOUT_WRITTEN.add(taken.len() as u64),
            Err(_) => STDOUT_ERRORS.increment(),
        }
        hop!(STDOUT_WRITE, start.micros(), 0u32, seq);
        taken.clear();
        pending = shared.lock();
    }
}

fn write_all(mut to: &File, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                // Somebody else has set the terminal to non-blocking.
                let mut fds = [PollFd::new(&to, PollFlags::OUT)];
                rustix::event::poll(&mut fds, None)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
