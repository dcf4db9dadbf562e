//! The thread that writes to the outer terminal, so that a slow one does not stall the client.

use std::io::{PipeWriter, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phux_perf::hop;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
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
pub(super) struct Stdout(Arc<Shared>);

impl Stdout {
    /// Starts the thread. It writes a byte to `idle` when it is done after a backlog was dropped.
    pub(super) fn start(idle: PipeWriter) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let for_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("phux-stdout".into())
            .spawn(move || write_all_pending(&for_thread, idle))?;
        Ok(Self(shared))
    }

    /// Hands a paint over; `false` if all that waited was dropped with it, because the terminal
    /// does not keep up: what is painted next must be the whole screen.
    pub(super) fn submit(&self, paint: &[u8], seq: u64) -> bool {
        let mut pending = self.0.lock();
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
                self.0.changed.notify_one();
            }
            return false;
        }
        pending.bytes.extend_from_slice(paint);
        pending.since.get_or_insert_with(Stopwatch::start);
        hop!(STDOUT_BACKLOG, pending.bytes.len(), 0u32, seq);
        self.0.changed.notify_one();
        true
    }

    /// Waits until everything is written, but no longer than `timeout`; then the thread ends.
    pub(super) fn finish(&self, timeout: Duration) {
        let pending = self.0.lock();
        let working = |p: &mut Pending| p.busy || !p.bytes.is_empty();
        let waited = self.0.changed.wait_timeout_while(pending, timeout, working);
        let (mut pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pending.closed = true;
        self.0.changed.notify_all();
    }
}

/// The thread.
fn write_all_pending(shared: &Shared, mut idle: PipeWriter) {
    perf::promote("phux-stdout");
    let mut taken = Vec::new();
    let mut seq = 0u64;
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
        drop(pending);
        seq += 1;
        if let Some(since) = since {
            hop!(STDOUT_QUEUE_WAIT, since.micros(), 0u32, seq);
        }
        let start = Stopwatch::start();
        match write_all(&taken) {
            Ok(()) => STDOUT_WRITTEN.add(taken.len() as u64),
            Err(_) => STDOUT_ERRORS.increment(),
        }
        hop!(STDOUT_WRITE, start.micros(), 0u32, seq);
        taken.clear();
        pending = shared.lock();
    }
}

fn write_all(mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(stdout(), bytes) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // Somebody else has set the terminal to non-blocking.
                let mut fds = [PollFd::from_borrowed_fd(stdout(), PollFlags::OUT)];
                rustix::event::poll(&mut fds, None)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
