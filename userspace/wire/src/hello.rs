//! HELLO and HELLO_OK: who speaks, which version, and what both sides can do.

use crate::tlv::{Fields, FrameWriter};
use crate::value::{ValueReader, ValueWriter, text};
use crate::{DecodeError, kind};

/// Bits of the features word in HELLO_OK.
pub mod feature {
    /// COMMAND 0x18 hands out the telemetry. Never send that command without this bit: a server
    /// that does not know it drops the connection.
    pub const GET_PERF: u32 = 0x800;
}

/// A protocol version. Two sides understand each other when major and minor are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Must match.
    pub major: u16,
    /// Must match.
    pub minor: u16,
    /// Never looked at.
    pub patch: u16,
}

impl Version {
    /// The older of the two versions in the field.
    pub const V0_8: Self = Self {
        major: 0,
        minor: 8,
        patch: 0,
    };
    /// The newer one, tried first.
    pub const V0_9: Self = Self {
        major: 0,
        minor: 9,
        patch: 0,
    };

    /// Whether a server that speaks `self` admits a client that speaks `other`.
    pub fn admits(self, other: Self) -> bool {
        (self.major, self.minor) == (other.major, other.minor)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Bits of [`ClientCaps::profiles`]: how a client can take a pane's content.
pub mod profile {
    /// VT bytes as the child wrote them, after a bootstrap made from the screen.
    pub const RAW: u8 = 0x02;
    /// Redraw differences, paced by a tick.
    pub const STATE_SYNC: u8 = 0x04;
}

/// The largest chunk and page size that may be asked for, in bytes.
pub const MAX_TRANSFER: u32 = 8 << 20;

/// What a client can show and take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientCaps {
    /// 0 true colour, 1 256 colours, 2 16 colours, 3 monochrome.
    pub colour: u8,
    /// Bit set of protocol layers: 1 = L1, 4 = L3.
    pub layers: u8,
    /// Image protocols.
    pub images: u8,
    /// Keyboard protocols.
    pub keyboard: u8,
    /// Hyperlinks.
    pub hyperlinks: u8,
    /// 0 raw, 1 state-sync.
    pub output_mode: u8,
    /// Default foreground and background, three bytes each, where known.
    pub default_colours: Option<[u8; 6]>,
    /// Bit set, see [`profile`].
    pub profiles: u8,
    /// Bit set of native codecs.
    pub native_codecs: u64,
    /// Bit set of native features.
    pub native_features: u32,
    /// The largest BOOTSTRAP_CHUNK payload wanted, 1 to [`MAX_TRANSFER`] bytes.
    pub max_chunk: u32,
    /// The largest HISTORY_PAGE payload wanted, 1 to [`MAX_TRANSFER`] bytes.
    pub max_page: u32,
}

impl Default for ClientCaps {
    fn default() -> Self {
        Self {
            colour: 0,
            layers: 5,
            images: 0,
            keyboard: 0,
            hyperlinks: 0,
            output_mode: 0,
            default_colours: None,
            profiles: profile::RAW | profile::STATE_SYNC,
            native_codecs: 0,
            native_features: 0,
            max_chunk: 262_144,
            max_page: 1_048_576,
        }
    }
}

impl ClientCaps {
    fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        w.u8(self.colour)
            .u8(self.layers)
            .u8(self.images)
            .u8(self.keyboard)
            .u8(self.hyperlinks);
        w.u8(self.output_mode)
            .opt(self.default_colours, |w, colours| {
                w.0.extend_from_slice(&colours);
                w
            });
        w.u8(self.profiles)
            .u64(self.native_codecs)
            .u32(self.native_features);
        w.u32(self.max_chunk).u32(self.max_page);
        w.0
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = ValueReader(bytes);
        let caps = Self {
            colour: r.u8()?,
            layers: r.u8()?,
            images: r.u8()?,
            keyboard: r.u8()?,
            hyperlinks: r.u8()?,
            output_mode: r.u8()?,
            default_colours: r.opt(|r| {
                let mut colours = [0; 6];
                for byte in &mut colours {
                    *byte = r.u8()?;
                }
                Ok(colours)
            })?,
            profiles: r.u8()?,
            native_codecs: r.u64()?,
            native_features: r.u32()?,
            max_chunk: r.u32()?,
            max_page: r.u32()?,
        };
        for limit in [caps.max_chunk, caps.max_page] {
            if limit == 0 || limit > MAX_TRANSFER {
                return Err(DecodeError::UnknownValue {
                    what: "transfer limit",
                    value: limit,
                });
            }
        }
        Ok(caps)
    }
}

/// HELLO, the first frame of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Who connects, for logs.
    pub name: String,
    /// The version that the client speaks.
    pub version: Version,
    /// What it can do.
    pub caps: ClientCaps,
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = FrameWriter::new(kind::HELLO, 64);
        w.field(1, self.name.as_bytes())
            .u16(2, self.version.major)
            .u16(3, self.version.minor);
        w.u16(4, self.version.patch)
            .field(5, &self.caps.encode())
            .finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: text(f.need(1)?)?,
            version: version(f, 2)?,
            caps: ClientCaps::decode(f.need(5)?)?,
        })
    }
}

/// The version in three fields from `first` on.
fn version(f: &Fields<'_>, first: u32) -> Result<Version, DecodeError> {
    let part = |id| ValueReader(f.need(id)?).u16();
    Ok(Version {
        major: part(first)?,
        minor: part(first + 1)?,
        patch: part(first + 2)?,
    })
}

/// The way of sending a pane's content that the server chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// VT bytes.
    Raw,
    /// Paced differences.
    StateSync,
    /// An engine's own encoding.
    Native {
        /// Which encoding.
        codec: u8,
        /// Its options.
        features: u32,
    },
}

/// HELLO_OK, the server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloOk {
    /// The version that the server speaks.
    pub version: Version,
    /// Bit set of protocol layers.
    pub layers: u8,
    /// Bit set, see [`feature`].
    pub features: u32,
    /// New for each start of a server.
    pub incarnation: [u8; 16],
    /// How content will be sent.
    pub profile: Profile,
    /// The effective chunk limit, in bytes.
    pub max_chunk: u32,
    /// The effective page limit, in bytes.
    pub max_page: u32,
}

impl HelloOk {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut caps = ValueWriter::default();
        caps.u8(self.layers).u32(self.features);
        let mut chosen = ValueWriter::default();
        match self.profile {
            Profile::Raw => chosen.u8(1),
            Profile::StateSync => chosen.u8(2),
            Profile::Native { codec, features } => chosen.u8(3).u8(codec).u32(features),
        };
        let mut w = FrameWriter::new(kind::HELLO_OK, 64);
        w.u16(1, self.version.major)
            .u16(2, self.version.minor)
            .u16(3, self.version.patch);
        w.field(4, &caps.0)
            .field(5, &self.incarnation)
            .field(6, &chosen.0);
        w.u32(7, self.max_chunk).u32(8, self.max_page).finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        let mut caps = ValueReader(f.need(4)?);
        let layers = caps.u8()?;
        // A server old enough to send the layers alone has none of the features.
        let features = caps.u32().unwrap_or(0);
        let mut chosen = ValueReader(f.need(6)?);
        let profile = match chosen.u8()? {
            1 => Profile::Raw,
            2 => Profile::StateSync,
            3 => Profile::Native {
                codec: chosen.u8()?,
                features: chosen.u32()?,
            },
            other => {
                return Err(DecodeError::UnknownValue {
                    what: "profile",
                    value: u32::from(other),
                });
            }
        };
        Ok(Self {
            version: version(f, 1)?,
            layers,
            features,
            incarnation: *f.need(5)?.first_chunk().ok_or(DecodeError::Truncated)?,
            profile,
            max_chunk: ValueReader(f.need(7)?).u32()?,
            max_page: ValueReader(f.need(8)?).u32()?,
        })
    }

    /// Whether this server can be asked for its telemetry.
    pub fn has_get_perf(&self) -> bool {
        self.features & feature::GET_PERF != 0
    }
}
