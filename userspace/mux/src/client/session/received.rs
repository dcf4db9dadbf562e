//! What comes from the server: frames, applied to the client's own screen.

use std::io::{Error, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use phux_perf::hop;
use phux_wire::ServerMessage;

use super::super::mirror::{End, News};
use super::Session;
use crate::perf::client::{
    ECHO_RTT, FRAMES_RECEIVED, LOOP_BURST_CAPPED, LOOP_BURST_FRAMES, LOOP_FRAMES_WALL,
};
use crate::perf::{Stopwatch, micros};

/// Most frames in one go, so that keys are not kept waiting.
const BURST_FRAMES: u64 = 1024;
/// Most bytes read from the socket in one go, for the same reason.
const BURST_BYTES: usize = 256 * 1024;
/// An answer that takes longer than this is none.
const ECHO_CEILING: Duration = Duration::from_secs(2);

impl Session {
    pub(super) fn read_socket(&mut self) -> anyhow::Result<Option<End>> {
        let mut total = 0;
        loop {
            match receive_now(&self.socket, &mut self.buf) {
                Ok(0) => return self.lost(),
                Ok(len) => {
                    self.deframer.feed(&self.buf[..len]);
                    total += len;
                    if len < self.buf.len() {
                        break;
                    }
                }
                Err(e) => match e.kind() {
                    ErrorKind::WouldBlock => break,
                    ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset => return self.lost(),
                    _ => return Err(e.into()),
                },
            }
            if total >= BURST_BYTES {
                LOOP_BURST_CAPPED.increment();
                break;
            }
        }
        self.on_frames()
    }

    /// The server is gone: what came before the end still counts.
    fn lost(&mut self) -> anyhow::Result<Option<End>> {
        let end = self.on_frames()?;
        Ok(end.or(Some(End::Lost)))
    }

    /// Handles all frames that are there.
    pub(super) fn on_frames(&mut self) -> anyhow::Result<Option<End>> {
        let start = Stopwatch::start();
        let mut frames = 0u64;
        let mut end = None;
        while end.is_none()
            && let Some(frame) = self.deframer.next_frame()?
        {
            let message = ServerMessage::decode(frame)?;
            frames += 1;
            FRAMES_RECEIVED.increment();
            let news = self.mirror.apply(message);
            end = self.on_news(news);
            if frames.is_multiple_of(BURST_FRAMES) {
                LOOP_BURST_CAPPED.increment();
            }
        }
        if frames > 0 {
            self.frame_seq += frames;
            hop!(LOOP_BURST_FRAMES, frames, self.pane_id(), self.frame_seq);
            hop!(
                LOOP_FRAMES_WALL,
                start.micros(),
                self.pane_id(),
                self.frame_seq
            );
        }
        Ok(end)
    }

    fn on_news(&mut self, news: News) -> Option<End> {
        match news {
            News::Nothing => return None,
            News::End(end) => return Some(end),
            News::Output => {
                self.unpainted += 1;
                if let Some(since) = self
                    .echo_since
                    .take()
                    .filter(|t| t.elapsed() < ECHO_CEILING)
                {
                    self.pacer.answered(since.elapsed());
                    hop!(ECHO_RTT, micros(since), self.pane_id(), self.key_seq);
                }
            }
            News::Screen => {}
        }
        self.pacer.dirty(Instant::now());
        None
    }
}

/// What is there, on a socket that blocks for those who write to it.
fn receive_now(socket: &UnixStream, buf: &mut [u8]) -> std::io::Result<usize> {
    let (fd, at, len) = (socket.as_raw_fd(), buf.as_mut_ptr(), buf.len());
    // SAFETY: at most `len` bytes are written to `at`, which is ours for so many.
    let got = unsafe { libc::recv(fd, at.cast(), len, libc::MSG_DONTWAIT) };
    usize::try_from(got).map_err(|_| Error::last_os_error())
}
