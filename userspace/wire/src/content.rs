//! A pane's content on its way to a client: bootstrap, live output, end.

use bytes::Bytes;

use crate::tlv::{Fields, FrameWriter};
use crate::value::{ValueReader, ValueWriter};
use crate::{DecodeError, ResourceId, kind};

/// Which stream of which pane a frame belongs to. A receiver drops content whose stream and
/// bootstrap are not the current pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamKey {
    /// The pane.
    pub resource: ResourceId,
    /// Opaque; the same for as long as the attach lasts.
    pub stream: u64,
    /// Goes up with each new bootstrap of the stream.
    pub bootstrap: u64,
}

pub(crate) fn resource_bytes(resource: &ResourceId) -> Vec<u8> {
    let mut w = ValueWriter::default();
    w.resource(resource);
    w.0
}

fn read_u64(f: &Fields<'_>, id: u32) -> Result<u64, DecodeError> {
    ValueReader(f.need(id)?).u64()
}

fn read_resource(f: &Fields<'_>) -> Result<ResourceId, DecodeError> {
    ValueReader(f.need(1)?).resource()
}

impl StreamKey {
    /// A frame of type `kind` that starts with fields 1 to 3.
    fn writer(&self, kind: u8, room: usize) -> FrameWriter {
        let mut w = FrameWriter::new(kind, room);
        w.field(1, &resource_bytes(&self.resource))
            .u64(2, self.stream)
            .u64(3, self.bootstrap);
        w
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            resource: read_resource(f)?,
            stream: read_u64(f, 2)?,
            bootstrap: read_u64(f, 3)?,
        })
    }

    /// BOOTSTRAP_READY: the bootstrap is complete.
    pub(crate) fn encode_ready(&self) -> Vec<u8> {
        self.writer(kind::BOOTSTRAP_READY, 40).finish()
    }
}

/// BOOTSTRAP_BEGIN: what follows replaces all that the client knows of the pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapBegin {
    /// The stream.
    pub key: StreamKey,
    /// How the chunks are encoded: 0 for VT bytes. Others are to be ignored.
    pub codec: u8,
    /// Columns of the pane.
    pub cols: u16,
    /// Rows of the pane.
    pub rows: u16,
    /// 0 raw, 1 state-sync.
    pub mode: u8,
    /// The first OUTPUT after it has this sequence number plus one.
    pub base_seq: u64,
}

impl BootstrapBegin {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = self.key.writer(kind::BOOTSTRAP_BEGIN, 64);
        w.field(4, &[self.codec])
            .u16(5, self.cols)
            .u16(6, self.rows)
            .field(7, &[self.mode]);
        w.u64(8, self.base_seq).finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            key: StreamKey::decode(f)?,
            codec: ValueReader(f.need(4)?).u8()?,
            cols: ValueReader(f.need(5)?).u16()?,
            rows: ValueReader(f.need(6)?).u16()?,
            mode: ValueReader(f.need(7)?).u8()?,
            base_seq: read_u64(f, 8)?,
        })
    }
}

/// BOOTSTRAP_CHUNK: a part of the pane's content, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapChunk {
    /// The stream.
    pub key: StreamKey,
    /// Counts from 0.
    pub number: u32,
    /// VT bytes.
    pub data: Bytes,
}

impl BootstrapChunk {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = self.key.writer(kind::BOOTSTRAP_CHUNK, self.data.len() + 64);
        w.u32(4, self.number).field(5, &self.data).finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            key: StreamKey::decode(f)?,
            number: ValueReader(f.need(4)?).u32()?,
            data: Bytes::copy_from_slice(f.need(5)?),
        })
    }
}

/// OUTPUT: what the child wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The stream.
    pub key: StreamKey,
    /// One more than that of the frame before.
    pub seq: u64,
    /// VT bytes.
    pub data: Bytes,
}

impl Output {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = FrameWriter::new(kind::OUTPUT, self.data.len() + 64);
        w.field(1, &resource_bytes(&self.key.resource))
            .u64(2, self.seq)
            .field(3, &self.data);
        w.u64(4, self.key.stream)
            .u64(5, self.key.bootstrap)
            .finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            key: StreamKey {
                resource: read_resource(f)?,
                stream: read_u64(f, 4)?,
                bootstrap: read_u64(f, 5)?,
            },
            seq: read_u64(f, 2)?,
            data: Bytes::copy_from_slice(f.need(3)?),
        })
    }

    /// FRAME_ACK: the client has shown this frame. It has the same identity and no data.
    pub(crate) fn encode_ack(key: &StreamKey, seq: u64) -> Vec<u8> {
        let mut w = FrameWriter::new(kind::FRAME_ACK, 48);
        w.field(1, &resource_bytes(&key.resource)).u64(2, seq);
        w.u64(3, key.stream).u64(4, key.bootstrap).finish()
    }

    pub(crate) fn decode_ack(f: &Fields<'_>) -> Result<(StreamKey, u64), DecodeError> {
        let key = StreamKey {
            resource: read_resource(f)?,
            stream: read_u64(f, 3)?,
            bootstrap: read_u64(f, 4)?,
        };
        Ok((key, read_u64(f, 2)?))
    }
}

/// CLOSED: the pane is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The pane.
    pub resource: ResourceId,
    /// The exit status of its child, where known.
    pub exit: Option<i32>,
}

impl Closed {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = FrameWriter::new(kind::CLOSED, 24);
        w.field(1, &resource_bytes(&self.resource));
        if let Some(exit) = self.exit {
            w.field(2, &exit.to_be_bytes());
        }
        w.finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            resource: read_resource(f)?,
            exit: f.get(2).map(|v| ValueReader(v).i32()).transpose()?,
        })
    }
}
