//! Protocol buffers as their wire has them, read without anybody's generated code.

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Numbers and enumerations.
    Varint(u64),
    /// Doubles.
    Fixed64(u64),
    /// Strings, messages, packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// A number.
    pub fn number(self) -> u64 {
        match self {
            Value::Varint(n) | Value::Fixed64(n) => n,
            Value::Bytes(b) => panic!("{b:?} is no number"),
        }
    }

    /// A number of type sint32 or sint64.
    pub fn signed(self) -> i64 {
        let n = self.number();
        (n >> 1) as i64 ^ -((n & 1) as i64)
    }

    /// A double.
    pub fn double(self) -> f64 {
        f64::from_bits(self.number())
    }

    /// A message or string.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(b) => b,
            other => panic!("{other:?} is no message"),
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than 64 bits")
}

fn take<'a>(bytes: &mut &'a [u8], length: u64) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(usize::try_from(length).expect("a length"));
    *bytes = rest;
    taken
}

/// The fields of a message, by number, in their order.
pub fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut bytes)),
            1 => {
                let eight = take(&mut bytes, 8).try_into().expect("eight bytes");
                Value::Fixed64(u64::from_le_bytes(eight))
            }
            2 => {
                let length = varint(&mut bytes);
                Value::Bytes(take(&mut bytes, length))
            }
            kind => panic!("wire type {kind}"),
        };
        found.push((key >> 3, value));
    }
    found
}

/// The values of one field.
pub fn all<'a>(message: &'a [u8], number: u64) -> impl Iterator<Item = Value<'a>> {
    let of_field = move |(n, value)| (n == number).then_some(value);
    fields(message).into_iter().filter_map(of_field)
}

/// Messages that each have their length before them.
pub fn delimited(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let length = varint(&mut bytes);
        found.push(take(&mut bytes, length));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_documentation() {
        // "a = 150" and "b = testing" of protobuf.dev/programming-guides/encoding.
        assert_eq!(fields(&[0x08, 0x96, 0x01]), [(1, Value::Varint(150))]);
        let testing = [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67];
        assert_eq!(all(&testing, 2).next(), Some(Value::Bytes(b"testing")));
        let signed = [0, 1, 2, 3, 4_294_967_294].map(|n| Value::Varint(n).signed());
        assert_eq!(signed, [0, -1, 1, -2, 2_147_483_647]);
        assert_eq!(delimited(&[1, 7, 2, 8, 9]), [&[7][..], &[8, 9]]);
    }
}
