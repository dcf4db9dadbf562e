//! The field list that every frame's payload is: `varint id | wire type | varint length | bytes`.
//!
//! What is written is minimal and has wire type 4. What is read is tolerant, as upstream's own
//! decoder is: any wire type, varints longer than they need be, fields in any order, and unknown
//! ids skipped. Where an id occurs twice, the last one counts.

use crate::DecodeError;

/// The wire type of a length-delimited field, the only one in use.
const WIRE_TYPE: u8 = 4;

/// Builds one frame: the length word, the type byte and the fields.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    buf: Vec<u8>,
}

impl FrameWriter {
    /// Starts a frame of type `kind`; `room` is a guess at the payload's size in bytes.
    pub(crate) fn new(kind: u8, room: usize) -> Self {
        let mut buf = Vec::with_capacity(room + 5);
        buf.extend_from_slice(&[0, 0, 0, 0, kind]);
        Self { buf }
    }

    /// Appends a field.
    pub(crate) fn field(&mut self, id: u32, value: &[u8]) -> &mut Self {
        put_varint(&mut self.buf, u64::from(id));
        self.buf.push(WIRE_TYPE);
        put_varint(&mut self.buf, value.len() as u64);
        self.buf.extend_from_slice(value);
        self
    }

    /// Appends a field that is a big-endian `u16`.
    pub(crate) fn u16(&mut self, id: u32, value: u16) -> &mut Self {
        self.field(id, &value.to_be_bytes())
    }

    /// Appends a field that is a big-endian `u32`.
    pub(crate) fn u32(&mut self, id: u32, value: u32) -> &mut Self {
        self.field(id, &value.to_be_bytes())
    }

    /// Appends a field that is a big-endian `u64`.
    pub(crate) fn u64(&mut self, id: u32, value: u64) -> &mut Self {
        self.field(id, &value.to_be_bytes())
    }

    /// Fills in the length word and hands the frame over.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut buf = std::mem::take(&mut self.buf);
        let len = u32::try_from(buf.len() - 4).unwrap_or(u32::MAX);
        buf[..4].copy_from_slice(&len.to_be_bytes());
        buf
    }
}

/// Appends `value` as LEB128, in as few bytes as it takes.
pub(crate) fn put_varint(buf: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            buf.push(low);
            return;
        }
        buf.push(low | 0x80);
    }
}

/// Takes a LEB128 number off the front of `buf`.
fn take_varint(buf: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = buf.split_first().ok_or(DecodeError::Truncated)?;
        *buf = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return Err(DecodeError::Varint);
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DecodeError::Varint)
}

/// The fields of one payload, by id; ids above the highest one known are dropped.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    values: [Option<&'a [u8]>; Fields::MAX_ID as usize + 1],
}

impl<'a> Fields<'a> {
    /// The highest field id that any frame of this protocol has a meaning for.
    const MAX_ID: u64 = 10;

    /// Splits a payload into its fields.
    pub(crate) fn parse(mut payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut values = [None; Self::MAX_ID as usize + 1];
        while !payload.is_empty() {
            let id = take_varint(&mut payload)?;
            let (_wire_type, rest) = payload.split_first().ok_or(DecodeError::Truncated)?;
            payload = rest;
            let len =
                usize::try_from(take_varint(&mut payload)?).map_err(|_| DecodeError::Truncated)?;
            let (value, rest) = payload
                .split_at_checked(len)
                .ok_or(DecodeError::Truncated)?;
            payload = rest;
            let known = usize::try_from(id).ok().and_then(|id| values.get_mut(id));
            if let Some(slot) = known {
                *slot = Some(value);
            }
        }
        Ok(Self { values })
    }

    /// The bytes of field `id`, if it was sent.
    pub(crate) fn get(&self, id: usize) -> Option<&'a [u8]> {
        self.values.get(id).copied().flatten()
    }

    /// The bytes of field `id`, which must be there.
    pub(crate) fn need(&self, id: u32) -> Result<&'a [u8], DecodeError> {
        self.get(id as usize).ok_or(DecodeError::MissingField(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_minimal_and_read_back() {
        for (value, len) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16383, 2),
            (16384, 3),
            (u64::MAX, 10),
        ] {
            let mut buf = Vec::new();
            put_varint(&mut buf, value);
            assert_eq!(buf.len(), len, "{value}");
            assert_eq!(take_varint(&mut buf.as_slice()), Ok(value));
        }
    }

    #[test]
    fn longer_than_needed_is_accepted_and_overflow_is_not() {
        assert_eq!(take_varint(&mut [0x81, 0x00].as_slice()), Ok(1));
        assert_eq!(
            take_varint(&mut [0xff; 10].as_slice()),
            Err(DecodeError::Varint)
        );
        assert_eq!(
            take_varint(&mut [0x80].as_slice()),
            Err(DecodeError::Truncated)
        );
    }

    #[test]
    fn unknown_ids_are_skipped_any_wire_type_is_read_and_the_last_duplicate_wins() {
        let payload = [
            7, 4, 1, 9, 0xac, 2, 4, 2, 1, 1, 1, 0, 1, 5, 0x81, 0, 4, 1, 6,
        ];
        let fields = Fields::parse(&payload).expect("well formed");
        assert_eq!(fields.get(7), Some([9].as_slice()));
        assert_eq!(fields.get(1), Some([6].as_slice()));
        assert_eq!(fields.need(2), Err(DecodeError::MissingField(2)));
    }

    #[test]
    fn a_length_past_the_end_is_refused() {
        assert_eq!(
            Fields::parse(&[1, 4, 2, 0]).err(),
            Some(DecodeError::Truncated)
        );
        assert_eq!(Fields::parse(&[1]).err(), Some(DecodeError::Truncated));
    }
}
