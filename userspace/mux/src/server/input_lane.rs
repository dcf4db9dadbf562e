//! The input lane: one thread that turns input events into bytes and hands them to the pane's
//! actor, so that a key does not wait behind the output that the runtime thread is busy with. The
//! client's task does so itself while none of the pane's events is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use phux_perf::hop;
use phux_wire::{FocusEvent, KeyEvent, MouseEvent, PasteEvent, ResourceId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::keys::{encode_key, encode_mouse, encode_paste};
use crate::perf::server::{INPUT_CREDIT_TIMEOUTS, INPUT_CREDIT_WAIT, INPUT_CREDIT_WAITS};
use crate::perf::{self, Stopwatch, warn_throttled};
use crate::term::TermMode;

/// Input events on their way to the lane, of all clients.
const LANE_QUEUE: usize = 1024;
/// Input events on their way to one pane: as many as its actor's queue takes.
const PANE_CREDITS: usize = 64;
/// How long a client waits for a pane that does not take its input, before the event is dropped.
const CREDIT_TIMEOUT: Duration = Duration::from_secs(1);

/// What the lane knows of a pane.
#[derive(Debug)]
pub(super) struct PaneInput {
    /// The modes that the pane's program has set, published by the actor.
    modes: AtomicU32,
    /// One for each event that may be on its way to the actor.
    credits: Arc<Semaphore>,
    /// The last event waited for a credit in vain: the next one does not wait.
    stuck: AtomicBool,
    queue: mpsc::Sender<Input>,
}

impl PaneInput {
    /// The lane's end and the actor's end of a pane's input queue.
    pub(super) fn new() -> (Arc<Self>, mpsc::Receiver<Input>) {
        let (queue, input) = mpsc::channel(PANE_CREDITS);
        let credits = Arc::new(Semaphore::new(PANE_CREDITS));
        (
            Arc::new(Self {
                modes: AtomicU32::new(0),
                credits,
                stuck: AtomicBool::new(false),
                queue,
            }),
            input,
        )
    }

    /// Publishes the modes for the keys to come.
    pub(super) fn publish_modes(&self, mode: TermMode) {
        self.modes.store(mode.bits(), Ordering::Release);
    }

    fn modes(&self) -> TermMode {
        TermMode::from_bits_truncate(self.modes.load(Ordering::Acquire))
    }
}

/// Bytes for the actor to pass on. The credit goes back when it has done so.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) data: Bytes,
    pub(super) _credit: OwnedSemaphorePermit,
}

/// An event of any kind.
#[derive(Debug)]
pub(super) enum Event {
    Key(KeyEvent),
    Paste(PasteEvent),
    Mouse(MouseEvent),
    Focus(FocusEvent),
}

impl Event {
    /// The pane that it is meant for.
    pub(super) fn resource(&self) -> &ResourceId {
        match self {
            Self::Key(e) => &e.resource,
            Self::Paste(e) => &e.resource,
            Self::Mouse(e) => &e.resource,
            Self::Focus(e) => &e.resource,
        }
    }

    fn encode(&self, mode: TermMode) -> Vec<u8> {
        match self {
            Self::Key(e) => encode_key(e, mode),
            Self::Paste(e) => encode_paste(&e.data, mode),
            Self::Mouse(e) => encode_mouse(e, mode),
            Self::Focus(_) if !mode.contains(TermMode::FOCUS_IN_OUT) => Vec::new(),
            Self::Focus(e) => if e.focused { b"\x1b[I" } else { b"\x1b[O" }.to_vec(),
        }
    }
}

/// An event, the pane it goes to, and whether its client is still attached to that pane.
#[derive(Debug)]
pub(super) struct LaneItem {
    event: Event,
    pane: Arc<PaneInput>,
    subscribed: Arc<AtomicBool>,
    credit: OwnedSemaphorePermit,
}

impl LaneItem {
    /// Turns the event into bytes and hands them to the actor.
    fn deliver(self) {
        if !self.subscribed.load(Ordering::Acquire) {
            return;
        }
        let data = self.event.encode(self.pane.modes());
        if data.is_empty() {
            return;
        }
        // There is room, since the event has a credit. A pane that is gone needs no input.
        let _ = self.pane.queue.try_send(Input {
            data: data.into(),
            _credit: self.credit,
        });
    }
}

/// Starts the lane's thread; it ends when all senders are dropped.
pub(super) fn start() -> std::io::Result<mpsc::Sender<LaneItem>> {
    let (sender, mut queue) = mpsc::channel::<LaneItem>(LANE_QUEUE);
    let run = move || {
        perf::promote("phux-input-lane");
        while let Some(item) = queue.blocking_recv() {
            item.deliver();
        }
    };
    std::thread::Builder::new()
        .name("phux-input-lane".into())
        .spawn(run)?;
    Ok(sender)
}

/// Hands an event to the lane, once the pane has room for it; drops it where that takes too long.
pub(super) async fn send(
    lane: &mpsc::Sender<LaneItem>,
    id: u32,
    pane: &Arc<PaneInput>,
    event: Event,
    subscribed: Arc<AtomicBool>,
) {
    let Some(credit) = credit(id, pane).await else {
        INPUT_CREDIT_TIMEOUTS.increment();
        warn_throttled!("pane {id}: input dropped, the program does not read it");
        return;
    };
    let item = LaneItem {
        event,
        pane: Arc::clone(pane),
        subscribed,
        credit,
    };
    if pane.credits.available_permits() == PANE_CREDITS - 1 {
        // No other event is on its way that this one could overtake, and the actor waits for it.
        item.deliver();
    } else if lane.try_send(item).is_err() {
        warn_throttled!("pane {id}: input dropped, the lane is full");
    }
}

/// A credit for one event; `None` if the pane has none for too long.
async fn credit(id: u32, pane: &PaneInput) -> Option<OwnedSemaphorePermit> {
    let credits = Arc::clone(&pane.credits);
    if let Ok(credit) = Arc::clone(&credits).try_acquire_owned() {
        pane.stuck.store(false, Ordering::Relaxed);
        return Some(credit);
    }
    if pane.stuck.load(Ordering::Relaxed) {
        return None;
    }
    INPUT_CREDIT_WAITS.increment();
    let start = Stopwatch::start();
    let waited = tokio::time::timeout(CREDIT_TIMEOUT, credits.acquire_owned()).await;
    hop!(INPUT_CREDIT_WAIT, start.micros(), id);
    let credit = waited.ok().and_then(Result::ok);
    pane.stuck.store(credit.is_none(), Ordering::Relaxed);
    credit
}
