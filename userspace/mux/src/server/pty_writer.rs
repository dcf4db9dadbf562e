//! From the actor to the child: at once where that does not block, else through the thread
//! `phux-pty-writer`, which waits for as long as the child does not read.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use phux_perf::hop;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use tokio::sync::mpsc;

use crate::perf::server::{INPUT_PTY_WRITE, INPUT_WRITER_QUEUE_WAIT};
use crate::perf::{self, Stopwatch};

/// Pieces of input between the actor and the thread.
const WRITER_QUEUE: usize = 64;

/// Bytes for the child.
#[derive(Debug)]
pub(super) struct ToChild {
    pub(super) data: Bytes,
    pub(super) queued_at: Stopwatch,
    seq: u64,
}

/// The actor's end.
#[derive(Debug)]
pub(super) struct PtyWriter {
    pane: u32,
    master: Arc<File>,
    queue: mpsc::Sender<ToChild>,
    /// Pieces that the thread has not written yet. Only the actor adds to it.
    in_flight: Arc<AtomicUsize>,
    seq: u64,
}

impl PtyWriter {
    /// Starts the thread; it ends with this.
    ///
    /// # Errors
    /// Where the system has no room for a thread.
    pub(super) fn start(pane: u32, master: &Arc<File>) -> std::io::Result<Self> {
        let (queue, receiver) = mpsc::channel(WRITER_QUEUE);
        let in_flight = Arc::<AtomicUsize>::default();
        let (fd, left) = (Arc::clone(master), Arc::clone(&in_flight));
        std::thread::Builder::new()
            .name("phux-pty-writer".into())
            .spawn(move || write_all_queued(pane, &fd, receiver, &left))?;
        Ok(Self {
            pane,
            master: Arc::clone(master),
            queue,
            in_flight,
            seq: 0,
        })
    }

    /// Writes the bytes, or hands them to the thread where it is at work or the terminal is full.
    ///
    /// # Errors
    /// What the thread has no room for.
    pub(super) fn send(&mut self, data: Bytes, queued_at: Stopwatch) -> Result<(), ToChild> {
        self.seq += 1;
        let mut input = ToChild {
            data,
            queued_at,
            seq: self.seq,
        };
        if self.in_flight.load(Ordering::Acquire) == 0 {
            let waited = input.queued_at.micros();
            let start = Stopwatch::start();
            match (&*self.master).write(&input.data) {
                Ok(n) if n == input.data.len() => {
                    hop!(INPUT_WRITER_QUEUE_WAIT, waited, self.pane, input.seq);
                    hop!(INPUT_PTY_WRITE, start.micros(), self.pane, input.seq);
                    return Ok(());
                }
                Ok(n) => input.data = input.data.split_off(n),
                // The thread finds out what it is.
                Err(_) => {}
            }
        }
        self.queue(input)
    }

    /// Hands to the thread what it had no room for before.
    ///
    /// # Errors
    /// There is still none.
    pub(super) fn queue(&self, input: ToChild) -> Result<(), ToChild> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        match self.queue.try_send(input) {
            Err(mpsc::error::TrySendError::Full(input)) => {
                self.in_flight.fetch_sub(1, Ordering::Relaxed);
                Err(input)
            }
            // A thread that has ended: the terminal is gone, and the actor will learn it.
            _ => Ok(()),
        }
    }

    /// Waits until the thread has room; `false` if it has ended.
    pub(super) async fn room(&self) -> bool {
        self.queue.reserve().await.is_ok()
    }
}

/// The thread.
fn write_all_queued(
    pane: u32,
    master: &File,
    mut queue: mpsc::Receiver<ToChild>,
    left: &AtomicUsize,
) {
    perf::promote("phux-pty-writer");
    while let Some(input) = queue.blocking_recv() {
        hop!(
            INPUT_WRITER_QUEUE_WAIT,
            input.queued_at.micros(),
            pane,
            input.seq
        );
        let start = Stopwatch::start();
        if write_all(master, &input.data).is_err() {
            return;
        }
        hop!(INPUT_PTY_WRITE, start.micros(), pane, input.seq);
        left.fetch_sub(1, Ordering::Release);
    }
}

/// Waits for as long as the child does not read: that is what the thread is for.
fn write_all(mut master: &File, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match master.write(bytes) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(&master, PollFlags::OUT)];
                match rustix::event::poll(&mut fds, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::pty::raw_pair;
    use super::*;

    #[test]
    fn what_a_full_terminal_does_not_take_follows_in_order() {
        let (master, mut child) = raw_pair();
        let mut writer = PtyWriter::start(1, &master).expect("a thread");
        writer
            .send(Bytes::from_static(b"key"), Stopwatch::start())
            .expect("room");
        assert_eq!(writer.in_flight.load(Ordering::Acquire), 0, "at once");
        let mut expected = b"key".to_vec();
        let mut refused = None;
        // The terminal and the queue: more than that is refused, and nothing before.
        for n in 0..1000u32 {
            let piece: Bytes = format!("{n:04}").repeat(1000).into_bytes().into();
            expected.extend_from_slice(&piece);
            if let Err(rest) = writer.send(piece, Stopwatch::start()) {
                refused = Some(rest);
                break;
            }
        }
        let mut refused = refused.expect("the queue has an end");
        assert!(writer.in_flight.load(Ordering::Acquire) >= WRITER_QUEUE);
        let reader = std::thread::spawn(move || {
            let mut seen = vec![0; expected.len()];
            child.read_exact(&mut seen).expect("all of it");
            assert!(seen == expected, "not what was written");
        });
        // There is room as soon as the child reads.
        while let Err(rest) = writer.queue(refused) {
            refused = rest;
            std::thread::yield_now();
        }
        reader.join().expect("all of it, in order");
    }
}
