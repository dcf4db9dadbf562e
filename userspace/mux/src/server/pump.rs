//! One task per client and pane: takes frames from the pane's ring and puts them into the
//! client's mailbox, and resynchronises the client from the screen when it fell behind.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use phux_perf::hop;
use phux_wire::{
    BootstrapBegin, BootstrapChunk, Closed, DetachReason, Output, ResourceId, ServerMessage,
    StreamKey,
};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, oneshot};

use super::pane::{Bootstrap, Control, Frame, Pane};
use crate::perf::server::{
    ATTACH_HANDLE, CONSUMER_MAILBOX_FULL, PUMP_BYTES, PUMP_FRAME_BYTES, PUMP_FRAMES,
    PUMP_GAP_RESYNC, PUMP_LAGGED,
};
use crate::perf::{Stopwatch, warn_throttled};

/// Pause before the second resynchronisation in a row; it doubles with each further one.
const RESYNC_PAUSE: Duration = Duration::from_millis(500);
/// The longest such pause.
const RESYNC_PAUSE_MAX: Duration = Duration::from_secs(4);
/// After so long without one, a resynchronisation is the first in a row again.
const RESYNC_CALM: Duration = Duration::from_secs(5);

/// The client is gone.
#[derive(Debug)]
pub(super) struct Gone;

/// Puts a message into a client's mailbox, and waits for room where there is none.
pub(super) async fn post(
    client: u32,
    mailbox: &mpsc::Sender<ServerMessage>,
    message: ServerMessage,
) -> Result<(), Gone> {
    match mailbox.try_send(message) {
        Ok(()) => Ok(()),
        Err(mpsc::error::TrySendError::Closed(_)) => Err(Gone),
        Err(mpsc::error::TrySendError::Full(message)) => {
            CONSUMER_MAILBOX_FULL.increment();
            warn_throttled!("client {client}: mailbox full, the client does not keep up");
            mailbox.send(message).await.map_err(|_| Gone)
        }
    }
}

/// A pump and what it is for.
pub(super) struct Pump {
    pub(super) client: u32,
    pub(super) attach_id: u32,
    pub(super) pane: Rc<Pane>,
    pub(super) mailbox: mpsc::Sender<ServerMessage>,
    /// Lines above the screen that the client wants.
    pub(super) history: usize,
    /// Largest chunk of a bootstrap, in bytes.
    pub(super) max_chunk: usize,
    pub(super) started: Stopwatch,
}

impl Pump {
    /// Runs until the pane or the client is gone. `first` is the answer to a request that was
    /// made when the client attached.
    pub(super) async fn run(self, first: oneshot::Receiver<Bootstrap>) {
        // Gone is what the client's reader finds out too; there is nothing to do about it here.
        let _ = self.pump(first).await;
    }

    async fn pump(&self, first: oneshot::Receiver<Bootstrap>) -> Result<(), Gone> {
        let mut answer = first;
        // Upstream's streams count from the attach id as well; to the client it is opaque.
        let stream = u64::from(self.attach_id) + 1;
        let resource = ResourceId::Local(self.pane.id);
        let mut key = StreamKey {
            resource,
            stream,
            bootstrap: 1,
        };
        let mut pause = Duration::ZERO;
        let mut last_resync = Instant::now();
        loop {
            let Ok(bootstrap) = answer.await else {
                return self.closed().await;
            };
            self.bootstrap(&key, bootstrap.size, bootstrap.base_seq, bootstrap.data)
                .await?;
            if key.bootstrap == 1 {
                let attach_id = self.attach_id;
                self.post(ServerMessage::AttachReady { attach_id }).await?;
                hop!(ATTACH_HANDLE, self.started.micros(), self.client, attach_id);
            }
            let mut ring = bootstrap.ring;
            let lost = loop {
                match ring.recv().await {
                    Ok(Frame::Output { seq, data }) => self.output(&key, seq, data).await?,
                    Ok(Frame::Resized) => break 0,
                    Err(RecvError::Lagged(lost)) => break lost,
                    Err(RecvError::Closed) => return self.closed().await,
                }
            };
            // The place at the ring is given up at once: what is in it is not waited for.
            drop(ring);
            if lost > 0 {
                PUMP_LAGGED.increment();
                warn_throttled!("client {}: fell behind by {lost} frames", self.client);
                if last_resync.elapsed() > RESYNC_CALM {
                    pause = Duration::ZERO;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).clamp(RESYNC_PAUSE, RESYNC_PAUSE_MAX);
                last_resync = Instant::now();
                PUMP_GAP_RESYNC.increment();
            }
            answer = request(&self.pane, self.history).await;
            key.bootstrap += 1;
        }
    }

    async fn post(&self, message: ServerMessage) -> Result<(), Gone> {
        post(self.client, &self.mailbox, message).await
    }

    async fn output(&self, key: &StreamKey, seq: u64, data: Bytes) -> Result<(), Gone> {
        PUMP_FRAMES.increment();
        PUMP_BYTES.add(data.len() as u64);
        hop!(PUMP_FRAME_BYTES, data.len(), self.pane.id, seq);
        self.post(ServerMessage::Output(Output {
            key: key.clone(),
            seq,
            data,
        }))
        .await
    }

    async fn bootstrap(
        &self,
        key: &StreamKey,
        size: crate::term::Size,
        base_seq: u64,
        mut data: Bytes,
    ) -> Result<(), Gone> {
        self.post(ServerMessage::BootstrapBegin(BootstrapBegin {
            key: key.clone(),
            codec: 0,
            cols: size.cols,
            rows: size.rows,
            mode: 0,
            base_seq,
        }))
        .await?;
        let mut number = 0;
        while !data.is_empty() {
            let chunk = data.split_to(data.len().min(self.max_chunk));
            let chunk = BootstrapChunk {
                key: key.clone(),
                number,
                data: chunk,
            };
            self.post(ServerMessage::BootstrapChunk(chunk)).await?;
            number += 1;
        }
        self.post(ServerMessage::BootstrapReady(key.clone())).await
    }

    /// Tells the client that the pane has ended, and how.
    async fn closed(&self) -> Result<(), Gone> {
        let exit = self.pane.exit.get().copied();
        let resource = ResourceId::Local(self.pane.id);
        self.post(ServerMessage::Closed(Closed { resource, exit }))
            .await?;
        let text = Some("the session has ended".to_owned());
        self.post(ServerMessage::Detached {
            reason: DetachReason::SessionKilled,
            text,
        })
        .await
    }
}

/// Asks a pane for a bootstrap. Where the pane is gone the answer is an error.
pub(super) async fn request(pane: &Pane, history: usize) -> oneshot::Receiver<Bootstrap> {
    let (reply, answer) = oneshot::channel();
    let _ = pane
        .control
        .send(Control::Bootstrap { history, reply })
        .await;
    answer
}
