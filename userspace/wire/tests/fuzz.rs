//! Fuzzes what reads frames from the other side: what arrives ends in messages or an error, and
//! what was understood is understood again, as the same, when this crate writes it.

#[path = "../../../tests/fuzz/driver.rs"]
#[allow(unreachable_pub, reason = "shared by the targets of several crates")]
mod driver;

use std::fmt::Debug;

use driver::fuzz;
use phux_wire::{ClientMessage, DecodeError, Deframer, MAX_FRAME, RawFrame, ServerMessage};

/// The messages in a stream that arrives in two parts.
fn messages<M>(stream: &[u8], decode: impl Fn(RawFrame<'_>) -> Result<M, DecodeError>) -> Vec<M> {
    let mut deframer = Deframer::new();
    let mut out = Vec::new();
    let (first, second) = stream.split_at(stream.len() / 2);
    for part in [first, second] {
        deframer.feed(part);
        loop {
            match deframer.next_frame() {
                Ok(Some(frame)) => {
                    assert!(frame.payload.len() < MAX_FRAME as usize);
                    out.extend(decode(frame));
                }
                Ok(None) => break,
                // The stream cannot be read on.
                Err(_) => return out,
            }
        }
    }
    assert!(deframer.pending() <= stream.len());
    out
}

fn check<M: Debug + PartialEq>(
    stream: &[u8],
    decode: impl Fn(RawFrame<'_>) -> Result<M, DecodeError>,
    encode: impl Fn(&M) -> Vec<u8>,
) {
    for message in messages(stream, &decode) {
        let again = messages(&encode(&message), &decode);
        assert!(again.iter().eq([&message]), "{message:?} became {again:?}");
    }
}

/// Makes the length word right, so that the damage is seen by what is behind it.
fn mend(stream: &mut [u8]) {
    let len = stream.len().saturating_sub(4) as u32;
    if let Some(word) = stream.first_chunk_mut::<4>() {
        *word = len.to_be_bytes();
    }
}

#[test]
fn what_a_client_sends() {
    fuzz(
        "wire-client",
        |bytes| mend(bytes),
        |stream| {
            check(stream, ClientMessage::decode, ClientMessage::encode);
        },
    );
}

#[test]
fn what_a_server_sends() {
    fuzz(
        "wire-server",
        |bytes| mend(bytes),
        |stream| {
            check(stream, ServerMessage::decode, ServerMessage::encode);
        },
    );
}
