//! What can be wrong with a frame.

/// Why bytes are not a frame of this protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The length word is zero or above [`MAX_FRAME`](crate::MAX_FRAME).
    #[error("frame length {0} out of bounds")]
    FrameLength(u32),
    /// A value ends before it is complete.
    #[error("value cut short")]
    Truncated,
    /// A variable-length number of more than 64 bits.
    #[error("number too large")]
    Varint,
    /// A field that must be there is not.
    #[error("field {0} missing")]
    MissingField(u32),
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    NotUtf8,
    /// A type byte that this side does not know.
    #[error("unknown message type {0:#04x}")]
    UnknownType(u8),
    /// A value outside of its range. The form of the text is upstream's for an unknown command.
    #[error("UnknownEnumValue {{ field: \"{what}\", value: {value} }}")]
    UnknownValue {
        /// What it stands for.
        what: &'static str,
        /// The value.
        value: u32,
    },
}
