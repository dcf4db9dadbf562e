//! From the child to the actor. While the child writes little and the server is quiet the actor
//! reads by itself, so that an echo does not have to wake two threads. When there is more, the
//! thread `phux-pty-reader` reads ahead of it, and parks once there is nothing for a moment.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc as sync_mpsc;
use std::time::Duration;

use bytes::Bytes;
use phux_perf::hop;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::perf::server::{PTY_READ_BYTES, PTY_READ_SIZE, PTY_READER_BLOCKED};
use crate::perf::{self, Stopwatch};

/// What is asked for at a time, in bytes. Linux hands out 4,095 or so.
const READ_SIZE: usize = 16 * 1024;
/// Chunks between the thread and the actor.
const CHUNK_QUEUE: usize = 128;
/// A read that returns as much, in bytes, was not an echo: the thread takes over.
const MUCH: usize = 1024;
/// After so long without output the thread parks.
const QUIET: Duration = Duration::from_millis(20);

/// Panes whose thread is at work. The others' threads take over too: where the actors have to wait
/// for each other, that shows as the wait of chunks in their queues.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// What one read returned.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) data: Bytes,
    pub(super) read_at: Stopwatch,
}

enum FromThread {
    Chunk(Chunk),
    /// The thread has parked.
    Quiet,
}

/// Reads, and counts what it has read.
struct Source {
    pane: u32,
    master: Arc<File>,
    buf: Vec<u8>,
    /// Numbers the reads, whoever makes them.
    seq: Arc<AtomicU64>,
}

impl Source {
    /// The same terminal, for another reader.
    fn another(&self) -> Self {
        Self {
            pane: self.pane,
            master: Arc::clone(&self.master),
            buf: vec![0; READ_SIZE],
            seq: Arc::clone(&self.seq),
        }
    }

    /// What is there; `Ok(None)` at the end, `WouldBlock` where there is nothing yet.
    fn read(&mut self) -> std::io::Result<Option<Chunk>> {
        let len = loop {
            match (&*self.master).read(&mut self.buf) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(e),
                // Linux ends a PTY with EIO, other systems with nothing to read.
                Ok(0) | Err(_) => return Ok(None),
                Ok(len) => break len,
            }
        };
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        hop!(PTY_READ_SIZE, len, self.pane, seq);
        PTY_READ_BYTES.add(len as u64);
        let data = Bytes::copy_from_slice(&self.buf[..len]);
        let read_at = Stopwatch::start();
        Ok(Some(Chunk { data, read_at }))
    }
}

/// The actor's end.
pub(super) struct PtyReader {
    source: Source,
    /// There while the actor reads by itself; else the thread does.
    own: Option<AsyncFd<Arc<File>>>,
    queue: mpsc::Receiver<FromThread>,
    /// Tells the thread to go on.
    resume: sync_mpsc::SyncSender<()>,
}

impl PtyReader {
    /// Starts the thread, parked; it ends with this.
    ///
    /// # Errors
    /// Where the system has no room for a thread.
    pub(super) fn start(pane: u32, master: &Arc<File>) -> std::io::Result<Self> {
        let (sender, queue) = mpsc::channel(CHUNK_QUEUE);
        // Room for the one word that a parked thread waits for.
        let (resume, resumed) = sync_mpsc::sync_channel(1);
        let source = Source {
            pane,
            master: Arc::clone(master),
            buf: vec![0; READ_SIZE],
            seq: Arc::default(),
        };
        let mut for_thread = source.another();
        std::thread::Builder::new()
            .name("phux-pty-reader".into())
            .spawn(move || {
                perf::promote("phux-pty-reader");
                while resumed.recv().is_ok() && read_ahead(&mut for_thread, &sender) {}
            })?;
        AT_WORK.fetch_add(1, Ordering::Relaxed);
        let mut reader = Self {
            source,
            own: None,
            queue,
            resume,
        };
        reader.take_over();
        Ok(reader)
    }

    /// Waits for what the child writes; `None` when it has closed the terminal. What a dropped
    /// wait would have returned is there for the next one.
    pub(super) async fn next(&mut self) -> Option<Chunk> {
        loop {
            let Some(own) = &self.own else {
                match self.queue.recv().await? {
                    FromThread::Chunk(chunk) => return Some(chunk),
                    FromThread::Quiet => self.take_over(),
                }
                continue;
            };
            let Ok(mut ready) = own.ready(Interest::READABLE).await else {
                self.hand_over();
                continue;
            };
            match self.source.read() {
                Err(_) => ready.clear_ready(),
                Ok(chunk) => return self.seen(chunk),
            }
        }
    }

    /// What is there behind the first chunk, if it is the thread that reads.
    pub(super) fn ready(&mut self) -> Option<Chunk> {
        if self.own.is_some() {
            return None;
        }
        match self.queue.try_recv().ok()? {
            FromThread::Chunk(chunk) => Some(chunk),
            FromThread::Quiet => {
                self.take_over();
                None
            }
        }
    }

    /// A chunk that the actor has read: is it to go on doing so?
    fn seen(&mut self, chunk: Option<Chunk>) -> Option<Chunk> {
        let much = chunk.as_ref().is_some_and(|c| c.data.len() >= MUCH);
        if much || AT_WORK.load(Ordering::Relaxed) > 0 {
            self.hand_over();
        }
        chunk
    }

    /// The thread is to read.
    fn hand_over(&mut self) {
        self.own = None;
        AT_WORK.fetch_add(1, Ordering::Relaxed);
        // There is room, and where the thread has ended `next` learns it from the queue.
        let _ = self.resume.try_send(());
    }

    /// The thread has parked.
    fn take_over(&mut self) {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
        let master = Arc::clone(&self.source.master);
        // SAFETY: `Arc<File>` always gives the same descriptor, and the one that is moved into
        // the AsyncFd keeps it open for as long as it is registered.
        let own = unsafe { AsyncFd::register_with_interest(master, Interest::READABLE) };
        match own {
            Ok(own) => self.own = Some(own),
            // No room in the runtime's poll: the thread does without.
            Err(_) => self.hand_over(),
        }
    }
}

impl Drop for PtyReader {
    fn drop(&mut self) {
        if self.own.is_none() {
            AT_WORK.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The thread while it is at work: until nothing has come for a while, or `false` if there is
/// nothing more to do.
fn read_ahead(source: &mut Source, queue: &mpsc::Sender<FromThread>) -> bool {
    let quiet = Timespec {
        tv_sec: 0,
        tv_nsec: QUIET.subsec_nanos().into(),
    };
    loop {
        match source.read() {
            Ok(None) => return false,
            Ok(Some(chunk)) => {
                let sent = match queue.try_send(FromThread::Chunk(chunk)) {
                    Err(mpsc::error::TrySendError::Full(chunk)) => {
                        PTY_READER_BLOCKED.increment();
                        queue.blocking_send(chunk).is_ok()
                    }
                    sent => sent.is_ok(),
                };
                if !sent {
                    return false;
                }
            }
            Err(_) => {
                let mut fds = [PollFd::new(&source.master, PollFlags::IN)];
                match rustix::event::poll(&mut fds, Some(&quiet)) {
                    Ok(0) => return queue.blocking_send(FromThread::Quiet).is_ok(),
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(_) => return false,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::pty::raw_pair;
    use super::*;

    /// Longer than anything takes on a machine that is busy with other things.
    const DEADLINE: Duration = Duration::from_secs(30);

    async fn take(reader: &mut PtyReader, wanted: &[u8]) {
        let mut seen = Vec::new();
        while seen.len() < wanted.len() {
            let chunk = tokio::time::timeout(DEADLINE, reader.next()).await;
            seen.extend_from_slice(&chunk.expect("in time").expect("not the end").data);
        }
        assert!(seen == wanted, "not what was written");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_thread_takes_over_for_much_and_gives_back_when_quiet() {
        let (master, mut child) = raw_pair();
        let mut reader = PtyReader::start(1, &master).expect("a thread");
        for round in 0..3 {
            for letter in [b"a", b"b", b"c"] {
                child.write_all(letter).expect("room");
                take(&mut reader, letter).await;
                assert!(reader.own.is_some(), "round {round}: little is read here");
            }
            let much: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
            let mut writer = child.try_clone().expect("dup");
            let for_thread = much.clone();
            let written = std::thread::spawn(move || writer.write_all(&for_thread));
            take(&mut reader, &much).await;
            written.join().expect("no panic").expect("all of it");
            let quiet = tokio::time::timeout(QUIET / 2, reader.next()).await;
            assert!(quiet.is_err(), "there is nothing more");
            // It gives back while it is waited for.
            let given_back = async {
                while reader.own.is_none() {
                    let nothing = tokio::time::timeout(QUIET, reader.next()).await;
                    assert!(nothing.is_err(), "there is nothing more");
                }
            };
            let waited = tokio::time::timeout(DEADLINE, given_back).await;
            waited.expect("the thread parks");
        }
        drop(child);
        let end = tokio::time::timeout(DEADLINE, reader.next()).await;
        assert!(end.expect("in time").is_none(), "the end is told");
        the_end_is_told_by_the_thread_too().await;
    }

    /// Not a test of its own: a pane whose thread is at work changes what the others do.
    async fn the_end_is_told_by_the_thread_too() {
        let (master, mut child) = raw_pair();
        let mut reader = PtyReader::start(1, &master).expect("a thread");
        reader.hand_over();
        child.write_all(b"last").expect("room");
        take(&mut reader, b"last").await;
        drop(child);
        let end = tokio::time::timeout(DEADLINE, reader.next()).await;
        assert!(end.expect("in time").is_none(), "the end is told");
    }
}
