//! The frames of the phux multiplexer's protocol.
