//! The loop of an attached client: waits, and decides when to paint.

mod received;
mod typed;

use std::fs::File;
use std::io::{PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use phux_perf::hop;
use phux_wire::{Deframer, ResourceId};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::input::Parser;
use super::mirror::{End, Mirror};
use super::pacer::Pacer;
use super::paint::Painter;
use super::report::RenderProf;
use super::stdout::Stdout;
use crate::perf::Stopwatch;
use crate::perf::client::{FRAMES_PAINTED, FRAMES_SKIPPED, PAINT_FULL, PAINT_SUBMIT};
use crate::term::Size;

/// How long a lone Escape is waited on for the rest of a sequence.
const ESCAPE_WAIT: Duration = Duration::from_millis(10);
/// Most bytes in one read from the socket.
const READ_SIZE: usize = 64 * 1024;
/// Most bytes in one read from the terminal, which has no more.
const TYPED_SIZE: usize = 4096;
/// How long the server may take to say goodbye.
const DETACH_WAIT: Duration = Duration::from_secs(1);
/// How long the terminal may take to show the last paint.
const LAST_PAINT: Duration = Duration::from_secs(1);

pub(super) struct Session {
    /// Standard input, of which std's own has a buffer.
    keyboard: File,
    socket: UnixStream,
    /// For what is read from the socket.
    buf: Box<[u8]>,
    /// For what is read from the terminal.
    typed: Box<[u8]>,
    deframer: Deframer,
    mirror: Mirror,
    painter: Painter,
    stdout: Stdout,
    pacer: Pacer,
    parser: Parser,
    prof: RenderProf,
    /// The terminal did not keep up: no paints before it has caught up.
    stalled: bool,
    echo_since: Option<Instant>,
    escape_since: Option<Instant>,
    detaching: Option<Instant>,
    /// Frames received and not yet in a paint.
    unpainted: u64,
    key_seq: u64,
    frame_seq: u64,
    paint_seq: u64,
    resized: UnixStream,
    terminated: UnixStream,
    idle: PipeReader,
}

impl Session {
    pub(super) fn new(
        socket: UnixStream,
        deframer: Deframer,
        size: Size,
        detach: u8,
    ) -> anyhow::Result<Self> {
        let (idle, idle_writer) = std::io::pipe()?;
        let resized = signal_pipe(&[libc::SIGWINCH])?;
        let terminated = signal_pipe(&[libc::SIGTERM, libc::SIGHUP, libc::SIGINT])?;
        Ok(Self {
            keyboard: rustix::stdio::stdin().try_clone_to_owned()?.into(),
            socket,
            buf: vec![0; READ_SIZE].into(),
            typed: vec![0; TYPED_SIZE].into(),
            deframer,
            mirror: Mirror::new(size),
            painter: Painter::new(size),
            stdout: Stdout::start(idle_writer)?,
            pacer: Pacer::from_env(),
            parser: Parser::new(detach),
            prof: RenderProf::from_env(),
            stalled: false,
            echo_since: None,
            escape_since: None,
            detaching: None,
            unpainted: 0,
            key_seq: 0,
            frame_seq: 0,
            paint_seq: 0,
            resized,
            terminated,
            idle,
        })
    }

    /// Runs until the session ends for this client.
    pub(super) fn run(mut self) -> anyhow::Result<End> {
        // A resize before the signal was caught.
        self.on_resize()?;
        // What came with the answer to ATTACH.
        let mut end = self.on_frames()?;
        while end.is_none() {
            let now = Instant::now();
            self.prof.tick(now);
            if self
                .escape_since
                .is_some_and(|since| now >= since + ESCAPE_WAIT)
            {
                self.escape_since = None;
                let events = self.parser.flush();
                end = self.on_input(events)?;
                continue;
            }
            if self
                .mirror
                .screen
                .sync_deadline()
                .is_some_and(|deadline| now >= deadline)
            {
                self.mirror.screen.end_sync();
                self.pacer.dirty(now);
            }
            if !self.stalled && self.mirror.is_whole() && self.pacer.take(now) {
                self.paint();
            }
            if self
                .detaching
                .is_some_and(|since| now >= since + DETACH_WAIT)
            {
                end = Some(End::Detached);
                break;
            }
            end = self.wait(now)?;
        }
        self.stdout.finish(LAST_PAINT);
        Ok(end.unwrap_or(End::Lost))
    }

    /// Waits for the next thing to happen, and handles it.
    fn wait(&mut self, now: Instant) -> anyhow::Result<Option<End>> {
        let paint = if self.stalled || !self.mirror.is_whole() {
            None
        } else {
            self.pacer.due()
        };
        let next = [
            self.escape_since.map(|since| since + ESCAPE_WAIT),
            self.detaching.map(|since| since + DETACH_WAIT),
            self.mirror.screen.sync_deadline(),
            self.prof.due(),
            paint,
        ];
        let timeout = next.into_iter().flatten().min().map(|at| {
            let left = at.saturating_duration_since(now);
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        // What is typed before there is a pane waits in the terminal.
        let typing = if self.mirror.pane().is_some() {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let mut fds = [
            PollFd::new(&self.keyboard, typing),
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::new(&self.resized, PollFlags::IN),
            PollFd::new(&self.terminated, PollFlags::IN),
            PollFd::new(&self.idle, PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let [typed, frames, resized, terminated, idle] = fds.map(|fd| !fd.revents().is_empty());
        if terminated {
            return Ok(Some(End::Terminated));
        }
        if typed && let Some(end) = self.read_terminal()? {
            return Ok(Some(end));
        }
        if resized {
            drain(&self.resized);
            self.on_resize()?;
        }
        if idle {
            drain(&self.idle);
            self.stalled = false;
            self.painter.forget();
            self.pacer.dirty(Instant::now());
        }
        if frames { self.read_socket() } else { Ok(None) }
    }

    fn paint(&mut self) {
        let start = Stopwatch::start();
        let mut out = Vec::new();
        self.painter.paint(&mut self.mirror.screen, &mut out);
        if std::mem::take(&mut self.mirror.bell) {
            out.push(0x07);
        }
        FRAMES_SKIPPED.add(std::mem::take(&mut self.unpainted).saturating_sub(1));
        if out.is_empty() {
            return;
        }
        self.paint_seq += 1;
        let submit = Stopwatch::start();
        if !self.stdout.submit(&out, self.paint_seq) {
            self.stalled = true;
        }
        hop!(
            PAINT_SUBMIT,
            submit.micros(),
            self.pane_id(),
            self.paint_seq
        );
        hop!(PAINT_FULL, start.micros(), self.pane_id(), self.paint_seq);
        FRAMES_PAINTED.increment();
    }

    /// The pane's id for the probes; 0 before there is one.
    fn pane_id(&self) -> u32 {
        match self.mirror.pane() {
            Some(ResourceId::Local(id) | ResourceId::Satellite(_, id)) => *id,
            None => 0,
        }
    }
}

/// A socket that becomes readable when one of the signals arrives.
fn signal_pipe(signals: &[i32]) -> std::io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    for &signal in signals {
        signal_hook::low_level::pipe::register(signal, OwnedFd::from(write.try_clone()?))?;
    }
    read.set_nonblocking(true)?;
    Ok(read)
}

/// Takes what is there and does not matter: that it came is all.
fn drain(mut from: impl Read) {
    let _ = from.read(&mut [0; 256]);
}
