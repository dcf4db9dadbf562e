//! One task per client: takes what is in the mailbox and writes it to the socket.

use phux_perf::hop;
use phux_wire::ServerMessage;
use tokio::sync::mpsc;

use super::socket::Outgoing;
use crate::perf::Stopwatch;
use crate::perf::server::{
    WIRE_BATCH_FRAMES, WIRE_BYTES_OUT, WIRE_ENCODE, WIRE_WRITE, WIRE_WRITE_BYTES,
};

/// Frames that may wait for a client. More would only be staleness: a client that does not keep
/// up is brought up to date from the screen.
pub(super) const MAILBOX: usize = 8;
/// Most frames in one write.
const BATCH: usize = 32;

/// Runs until all senders of the mailbox are dropped or the client is gone.
pub(super) async fn run(
    client: u32,
    mut mailbox: mpsc::Receiver<ServerMessage>,
    mut socket: Outgoing,
) {
    let mut seq = 0u64;
    while let Some(first) = mailbox.recv().await {
        seq += 1;
        let start = Stopwatch::start();
        let mut bytes = first.encode();
        let mut frames = 1usize;
        while frames < BATCH
            && let Ok(message) = mailbox.try_recv()
        {
            bytes.extend_from_slice(&message.encode());
            frames += 1;
        }
        let encoded = start.micros();
        let start = Stopwatch::start();
        if socket.write_all(&bytes).await.is_err() {
            return;
        }
        hop!(WIRE_WRITE, start.micros(), client, seq);
        // Recorded when the client has it: none of this is for it to wait for.
        hop!(WIRE_ENCODE, encoded, client, seq);
        hop!(WIRE_BATCH_FRAMES, frames, client, seq);
        hop!(WIRE_WRITE_BYTES, bytes.len(), client, seq);
        WIRE_BYTES_OUT.add(bytes.len() as u64);
    }
    socket.end();
}
