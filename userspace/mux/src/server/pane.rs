//! The actor of a pane: owns its screen and its PTY, takes input before output, and never waits
//! for a client.

use std::cell::{OnceCell, RefCell};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use phux_perf::hop;
use rustix::process::{Pid, Signal};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::sleep_until;

use super::input_lane::{Input, PaneInput};
use super::pty::{self, Pty};
use super::pty_reader::{Chunk, PtyReader};
use super::pty_writer::{PtyWriter, ToChild};
use crate::perf::server::{
    BOOTSTRAP_SYNTH, ECHO_SERVER, INPUT_EVENTS, INPUT_WRITER_FULL, PTY_BURST_BYTES,
    PTY_BURST_CHUNKS, PTY_POST_APPLY, PTY_QUEUE_WAIT, PTY_VT_APPLY, PTY_VT_PARSE, PTY_YIELD_WAIT,
};
use crate::perf::{Stopwatch, warn_throttled};
use crate::term::{Notice, Screen, Size, Unsynchronised};

/// Bursts of output that a slow client may be behind before it is resynchronised.
const RING: usize = 256;
/// Most input events in one turn, so that output is not kept waiting by a paste.
const INPUT_PER_TURN: usize = 16;
/// Most chunks in one burst.
const BURST_CHUNKS: usize = 64;
/// Most bytes in one burst, unless its last chunk goes beyond.
const BURST_BYTES: usize = 48 * 1024;
/// An answer that takes longer than this is no echo.
const ECHO_CEILING_MICROS: u64 = 2_000_000;
/// How long sizes must be at rest before the child is told.
const RESIZE_DEBOUNCE: Duration = Duration::from_millis(50);
/// How long the output of a child that has exited is waited for.
const DRAIN_GRACE: Duration = Duration::from_millis(500);
/// How long a child that was asked to end may take.
const KILL_GRACE: Duration = Duration::from_secs(3);
/// Requests on their way to an actor.
const CONTROL_QUEUE: usize = 64;

/// What the ring carries to the pumps.
#[derive(Debug, Clone)]
pub(super) enum Frame {
    /// What the child wrote.
    Output { seq: u64, data: Bytes },
    /// The size changed: ask for a new bootstrap.
    Resized,
}

/// All that a client needs to show the pane from here on.
#[derive(Debug)]
pub(super) struct Bootstrap {
    pub(super) size: Size,
    /// The number of the last burst that is in `data`.
    pub(super) base_seq: u64,
    pub(super) data: Bytes,
    /// What comes after `base_seq`, without a gap.
    pub(super) ring: broadcast::Receiver<Frame>,
}

/// What an actor can be asked.
#[derive(Debug)]
pub(super) enum Control {
    /// The screen, with at most so many lines above it, and a place at the ring.
    Bootstrap {
        history: usize,
        reply: oneshot::Sender<Bootstrap>,
    },
    /// Another size, once it has been at rest for a moment.
    Resize(Size),
    /// End the child.
    Kill,
}

/// What the rest of the server sees of a pane.
#[derive(Debug)]
pub(super) struct Pane {
    pub(super) id: u32,
    pub(super) input: Arc<PaneInput>,
    pub(super) control: mpsc::Sender<Control>,
    /// The child's exit status, once it and its output have ended.
    pub(super) exit: OnceCell<i32>,
    pub(super) size: RefCell<Size>,
    pub(super) title: RefCell<Option<String>>,
}

/// What an actor does next.
enum Turn {
    Control(Control),
    WriterHasRoom,
    Input(Input),
    Resize,
    Kill,
    Chunk(Chunk),
    Exit(i32),
    AtEnd,
}

/// The actor.
pub(super) struct Actor {
    pane: Rc<Pane>,
    pty: Pty,
    screen: Screen<Unsynchronised>,
    ring: broadcast::Sender<Frame>,
    reader: PtyReader,
    input: mpsc::Receiver<Input>,
    writer: PtyWriter,
    /// Input that the writer had no room for; no more is taken before it is gone.
    pending: Option<ToChild>,
    control: mpsc::Receiver<Control>,
    /// Number of the last burst.
    seq: u64,
    /// Number of the last input event.
    input_seq: u64,
    /// When the input left that the next output may be the echo of.
    echo_since: Option<Stopwatch>,
    resize: Option<(Size, Instant)>,
    kill_at: Option<Instant>,
}

impl Actor {
    /// Starts the threads of a PTY and makes the pane and its actor.
    ///
    /// # Errors
    /// Where the system has no room for the threads.
    pub(super) fn new(
        id: u32,
        pty: Pty,
        size: Size,
        history: usize,
    ) -> anyhow::Result<(Rc<Pane>, Self)> {
        let reader = PtyReader::start(id, &pty.master)?;
        let writer = PtyWriter::start(id, &pty.master)?;
        let (pane_input, input) = PaneInput::new();
        let (control_sender, control) = mpsc::channel(CONTROL_QUEUE);
        let pane = Rc::new(Pane {
            id,
            input: pane_input,
            control: control_sender,
            exit: OnceCell::new(),
            size: RefCell::new(size),
            title: RefCell::new(None),
        });
        let actor = Self {
            pane: Rc::clone(&pane),
            pty,
            screen: Screen::new(size, history),
            ring: broadcast::channel(RING).0,
            reader,
            input,
            writer,
            pending: None,
            control,
            seq: 0,
            input_seq: 0,
            echo_since: None,
            resize: None,
            kill_at: None,
        };
        Ok((pane, actor))
    }

    /// Runs until the child has exited and its output is through.
    pub(super) async fn run(mut self) {
        let mut exit: Option<(i32, Instant)> = None;
        let mut at_end = false;
        loop {
            match self.turn(at_end, exit).await {
                Turn::Control(control) => self.on_control(control),
                Turn::WriterHasRoom => {
                    if let Some(pending) = self.pending.take() {
                        self.pending = self.writer.queue(pending).err();
                    }
                }
                Turn::Input(input) => self.on_input(input),
                Turn::Resize => self.on_resize(),
                Turn::Kill => self.signal(Signal::KILL),
                Turn::Chunk(chunk) => {
                    if self.on_chunk(chunk) {
                        // There is more: let the pumps have a turn.
                        let start = Stopwatch::start();
                        tokio::task::yield_now().await;
                        hop!(PTY_YIELD_WAIT, start.micros(), self.pane.id, self.seq);
                    }
                }
                Turn::Exit(code) => exit = Some((code, Instant::now() + DRAIN_GRACE)),
                Turn::AtEnd => at_end = true,
            }
            if let (true, Some((code, _))) = (at_end, exit) {
                // Who attached meanwhile still gets to see the last screen.
                while let Ok(control) = self.control.try_recv() {
                    if matches!(control, Control::Bootstrap { .. }) {
                        self.on_control(control);
                    }
                }
                // Set before the ring closes, which is when the pumps look.
                let _ = self.pane.exit.set(code);
                return;
            }
        }
    }

    /// Waits for the next thing to do: input before output.
    async fn turn(&mut self, at_end: bool, exit: Option<(i32, Instant)>) -> Turn {
        let at = async |time: Option<Instant>| match time {
            Some(time) => sleep_until(time.into()).await,
            None => std::future::pending().await,
        };
        tokio::select! {
            biased;
            Some(control) = self.control.recv() => Turn::Control(control),
            true = self.writer.room(), if self.pending.is_some() => Turn::WriterHasRoom,
            Some(input) = self.input.recv(), if self.pending.is_none() => Turn::Input(input),
            () = at(self.resize.map(|r| r.1)) => Turn::Resize,
            () = at(self.kill_at) => Turn::Kill,
            chunk = self.reader.next(), if !at_end => chunk.map_or(Turn::AtEnd, Turn::Chunk),
            status = self.pty.child.wait(), if exit.is_none() => Turn::Exit(exit_code(status.ok())),
            () = at(exit.map(|e| e.1)) => Turn::AtEnd,
            // Without the threads and the rest of the server there is nothing left to do.
            else => Turn::AtEnd,
        }
    }

    fn on_control(&mut self, control: Control) {
        match control {
            Control::Bootstrap { history, reply } => {
                // Taken in the same turn as the place at the ring: nothing twice, nothing missed.
                let start = Stopwatch::start();
                let data = self.screen.dump(history).into();
                hop!(BOOTSTRAP_SYNTH, start.micros(), self.pane.id, self.seq);
                let bootstrap = Bootstrap {
                    size: self.screen.size(),
                    base_seq: self.seq,
                    data,
                    ring: self.ring.subscribe(),
                };
                // Who asked may be gone.
                let _ = reply.send(bootstrap);
            }
            Control::Resize(size) => {
                let changed = size != self.screen.size();
                self.resize = changed.then(|| (size, Instant::now() + RESIZE_DEBOUNCE));
            }
            Control::Kill => {
                self.signal(Signal::HUP);
                self.kill_at = Some(Instant::now() + KILL_GRACE);
            }
        }
    }

    /// Signals the child's process group and the one in front of its terminal.
    fn signal(&mut self, signal: Signal) {
        self.kill_at = None;
        let child = self
            .pty
            .child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        let front = rustix::termios::tcgetpgrp(&self.pty.master).ok();
        for group in [child, front.filter(|front| Some(*front) != child)]
            .into_iter()
            .flatten()
        {
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    fn on_resize(&mut self) {
        let Some((size, _)) = self.resize.take() else {
            return;
        };
        self.screen.resize(size);
        *self.pane.size.borrow_mut() = size;
        if let Err(e) = pty::set_size(&*self.pty.master, size) {
            log::debug!("pane {}: cannot set the size: {e}", self.pane.id);
        }
        // No receivers, no clients.
        let _ = self.ring.send(Frame::Resized);
    }

    /// Hands input to the writer, up to [`INPUT_PER_TURN`] events.
    fn on_input(&mut self, first: Input) {
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(input) = next {
            taken += 1;
            self.input_seq += 1;
            INPUT_EVENTS.increment();
            let now = Stopwatch::start();
            self.echo_since.get_or_insert(now);
            self.send_to_child(input.data, now);
            let more = taken < INPUT_PER_TURN && self.pending.is_none();
            next = if more {
                self.input.try_recv().ok()
            } else {
                None
            };
        }
    }

    fn send_to_child(&mut self, data: Bytes, queued_at: Stopwatch) {
        if let Err(input) = self.writer.send(data, queued_at) {
            INPUT_WRITER_FULL.increment();
            warn_throttled!("pane {}: the program does not read its input", self.pane.id);
            self.pending = Some(input);
        }
    }

    /// Takes a chunk and what is ready behind it; `true` if the burst was cut short.
    fn on_chunk(&mut self, first: Chunk) -> bool {
        let (pane, seq) = (self.pane.id, self.seq + 1);
        self.seq = seq;
        hop!(PTY_QUEUE_WAIT, first.read_at.micros(), pane, seq);
        let mut chunks = 1usize;
        let mut data = first.data;
        let mut joined = BytesMut::new();
        let mut capped = false;
        loop {
            if chunks == BURST_CHUNKS || data.len().max(joined.len()) >= BURST_BYTES {
                capped = true;
                break;
            }
            let Some(chunk) = self.reader.ready() else {
                break;
            };
            if joined.is_empty() {
                joined.reserve(BURST_BYTES + data.len());
                joined.extend_from_slice(&data);
            }
            joined.extend_from_slice(&chunk.data);
            chunks += 1;
        }
        if chunks > 1 {
            data = joined.freeze();
        }
        hop!(PTY_BURST_BYTES, data.len(), pane, seq);
        hop!(PTY_BURST_CHUNKS, chunks, pane, seq);
        let since = self.echo_since.take().map(Stopwatch::micros);
        if let Some(since) = since.filter(|micros| *micros < ECHO_CEILING_MICROS) {
            hop!(ECHO_SERVER, since, pane, self.input_seq);
        }
        let start = Stopwatch::start();
        let notices = self.screen.apply(&data);
        hop!(PTY_VT_PARSE, start.micros(), pane, seq);
        let parsed = Stopwatch::start();
        for notice in notices {
            match notice {
                // An answer that has no room is as lost as on a line that dropped it.
                Notice::Reply(text) if self.pending.is_none() => {
                    self.send_to_child(text.into(), Stopwatch::start());
                }
                Notice::Reply(_) | Notice::Bell => {}
                Notice::Title(title) => *self.pane.title.borrow_mut() = title,
            }
        }
        self.pane.input.publish_modes(self.screen.mode());
        hop!(PTY_POST_APPLY, parsed.micros(), pane, seq);
        hop!(PTY_VT_APPLY, start.micros(), pane, seq);
        let _ = self.ring.send(Frame::Output { seq, data });
        capped
    }
}

/// The exit status as a shell would tell it: 128 and the signal's number for a child that a
/// signal ended.
fn exit_code(status: Option<ExitStatus>) -> i32 {
    match status {
        Some(status) => status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        None => -1,
    }
}
