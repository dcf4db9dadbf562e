//! Frames: `u32` big-endian length, a type byte, a payload. The length counts type and payload.

use crate::DecodeError;

/// The largest value of a frame's length word, in bytes.
pub const MAX_FRAME: u32 = 0x0100_0000;

/// The type byte of each frame that this crate speaks; the same numbers in 0.8 and 0.9.
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub mod kind {
    pub const HELLO: u8 = 0x01;
    pub const ATTACH: u8 = 0x02;
    pub const DETACH: u8 = 0x03;
    pub const INPUT_KEY: u8 = 0x10;
    pub const INPUT_PASTE: u8 = 0x11;
    pub const INPUT_MOUSE: u8 = 0x12;
    pub const INPUT_FOCUS: u8 = 0x14;
    pub const VIEWPORT_RESIZE: u8 = 0x20;
    pub const FRAME_ACK: u8 = 0x21;
    pub const COMMAND: u8 = 0x31;
    pub const PING: u8 = 0x7f;
    pub const HELLO_OK: u8 = 0x80;
    pub const ATTACHED: u8 = 0x81;
    pub const DETACHED: u8 = 0x82;
    pub const ATTACH_READY: u8 = 0x83;
    pub const OUTPUT: u8 = 0x90;
    pub const BOOTSTRAP_BEGIN: u8 = 0x93;
    pub const BOOTSTRAP_CHUNK: u8 = 0x94;
    pub const BOOTSTRAP_READY: u8 = 0x95;
    pub const CLOSED: u8 = 0xa1;
    pub const ERROR: u8 = 0xc1;
    pub const COMMAND_RESULT: u8 = 0xc2;
    pub const PONG: u8 = 0xff;
}

/// A frame that has arrived whole and is not yet decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawFrame<'a> {
    /// The type byte, see [`kind`].
    pub kind: u8,
    /// The fields.
    pub payload: &'a [u8],
}

/// Cuts a byte stream into frames, however it was split or glued on the way.
///
/// It holds at most one frame and what was read behind it: [`Deframer::next_frame`] refuses a
/// length out of bounds as soon as the length word is there, before a byte of it is kept.
#[derive(Debug, Default)]
pub struct Deframer {
    buf: Vec<u8>,
    start: usize,
}

impl Deframer {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends what was read from the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start == self.buf.len() {
            self.buf.clear();
            self.start = 0;
        } else if self.start > self.buf.len() / 2 {
            self.buf.drain(..self.start);
            self.start = 0;
        }
        self.buf.extend_from_slice(bytes);
    }

    /// The next whole frame, or `None` where more bytes are needed.
    ///
    /// # Errors
    /// [`DecodeError::FrameLength`] for a length of zero or above [`MAX_FRAME`]. The stream cannot
    /// be read on after that.
    pub fn next_frame(&mut self) -> Result<Option<RawFrame<'_>>, DecodeError> {
        let ready = &self.buf[self.start..];
        let Some(word) = ready.first_chunk::<4>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*word);
        if len == 0 || len > MAX_FRAME {
            return Err(DecodeError::FrameLength(len));
        }
        let end = 4 + len as usize;
        if ready.len() < end {
            return Ok(None);
        }
        let from = self.start;
        self.start += end;
        let frame = &self.buf[from..from + end];
        Ok(Some(RawFrame {
            kind: frame[4],
            payload: &frame[5..],
        }))
    }

    /// Bytes that were fed and not yet handed out.
    pub fn pending(&self) -> usize {
        self.buf.len() - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_the_same_split_and_glued() {
        let stream = [0, 0, 0, 1, 3, 0, 0, 0, 3, 0x7f, 9, 8, 0, 0, 0, 1, 3];
        for step in 1..=stream.len() {
            let mut deframer = Deframer::new();
            let mut seen = Vec::new();
            for part in stream.chunks(step) {
                deframer.feed(part);
                while let Some(frame) = deframer.next_frame().expect("valid") {
                    seen.push((frame.kind, frame.payload.to_vec()));
                }
            }
            assert_eq!(
                seen,
                [(3, vec![]), (0x7f, vec![9, 8]), (3, vec![])],
                "step {step}"
            );
            assert_eq!(deframer.pending(), 0);
        }
    }

    #[test]
    fn lengths_out_of_bounds_are_refused_from_the_word_alone() {
        for (word, len) in [
            ([0; 4], 0),
            ([1, 0, 0, 1], MAX_FRAME + 1),
            ([255; 4], u32::MAX),
        ] {
            let mut deframer = Deframer::new();
            deframer.feed(&word);
            assert_eq!(deframer.next_frame(), Err(DecodeError::FrameLength(len)));
        }
        let mut deframer = Deframer::new();
        deframer.feed(&MAX_FRAME.to_be_bytes());
        assert_eq!(deframer.next_frame(), Ok(None));
    }
}
