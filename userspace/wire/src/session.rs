//! ATTACH, and the snapshot that lists sessions, windows and panes.

use crate::tlv::{Fields, FrameWriter};
use crate::value::{ValueReader, ValueWriter};
use crate::{DecodeError, ResourceId, kind};

/// The size of a client's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewport {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Width in pixels, where known.
    pub px_w: Option<u16>,
    /// Height in pixels, where known.
    pub px_h: Option<u16>,
}

impl Viewport {
    /// A viewport of so many cells.
    pub fn cells(cols: u16, rows: u16) -> Self {
        Self {
            cols,
            rows,
            px_w: None,
            px_h: None,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        w.u16(self.cols).u16(self.rows);
        w.opt(self.px_w, |w, v| w.u16(v))
            .opt(self.px_h, |w, v| w.u16(v));
        w.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = ValueReader(bytes);
        Ok(Self {
            cols: r.u16()?,
            rows: r.u16()?,
            px_w: r.opt(|r| r.u16())?,
            px_h: r.opt(|r| r.u16())?,
        })
    }
}

/// Which session to attach to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The one attached to last.
    Last,
    /// The one of this name.
    Name(String),
    /// The one of this id.
    Id(u32),
    /// The one of this name, made first where there is none.
    Create {
        /// Its name.
        name: String,
        /// The program to run and its arguments; a shell if not given.
        argv: Option<Vec<String>>,
        /// Where to run it.
        cwd: Option<String>,
    },
}

/// ATTACH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// The session.
    pub target: Target,
    /// The client's size.
    pub viewport: Viewport,
    /// Whether the lines above the screen are wanted too.
    pub want_scrollback: bool,
    /// At most so many of them; 0 for all.
    pub scrollback_limit: u32,
    /// Chosen by the client, nonzero, never used twice on a connection.
    pub attach_id: u32,
}

impl Attach {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut target = ValueWriter::default();
        match &self.target {
            Target::Last => target.u8(0),
            Target::Name(name) => target.u8(1).str(name),
            Target::Id(id) => target.u8(2).u32(*id),
            Target::Create { name, argv, cwd } => {
                target.u8(3).str(name);
                target.opt(argv.as_deref(), |w, argv| w.list(argv, |w, s| w.str(s)));
                target.opt(cwd.as_deref(), |w, cwd| w.str(cwd))
            }
        };
        let mut w = FrameWriter::new(kind::ATTACH, target.0.len() + 48);
        w.field(1, &target.0).field(2, &self.viewport.encode());
        w.field(3, &[u8::from(self.want_scrollback)]);
        w.u32(4, self.scrollback_limit)
            .u32(5, self.attach_id)
            .finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        let mut r = ValueReader(f.need(1)?);
        let target = match r.u8()? {
            0 => Target::Last,
            1 => Target::Name(r.string()?),
            2 => Target::Id(r.u32()?),
            3 => Target::Create {
                name: r.string()?,
                argv: r.opt(|r| r.list(|r| r.string()))?,
                cwd: r.opt(|r| r.string())?,
            },
            other => {
                return Err(DecodeError::UnknownValue {
                    what: "AttachTarget",
                    value: u32::from(other),
                });
            }
        };
        let attach_id = ValueReader(f.need(5)?).u32()?;
        if attach_id == 0 {
            return Err(DecodeError::UnknownValue {
                what: "attach id",
                value: 0,
            });
        }
        Ok(Self {
            target,
            viewport: Viewport::decode(f.need(2)?)?,
            want_scrollback: ValueReader(f.need(3)?).bool()?,
            scrollback_limit: ValueReader(f.need(4)?).u32()?,
            attach_id,
        })
    }
}

/// A session in a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The window in front.
    pub active_window: Option<u32>,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// How many windows it has.
    pub windows: u16,
    /// How many clients are attached.
    pub attached: u16,
}

/// How a window is divided.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// One pane.
    Leaf(ResourceId),
    /// Two parts.
    Split {
        /// Side by side or one above the other.
        dir: u8,
        /// The share of the first part, the bits of an `f32`.
        ratio: u32,
        /// Left or upper part.
        first: Box<Layout>,
        /// Right or lower part.
        second: Box<Layout>,
    },
}

impl Eq for Layout {}

impl Layout {
    /// Deeper trees than this are refused, so that a frame cannot exhaust the stack.
    const MAX_DEPTH: u32 = 64;

    fn encode<'w>(&self, w: &'w mut ValueWriter) -> &'w mut ValueWriter {
        match self {
            Self::Leaf(resource) => w.u8(0).resource(resource),
            Self::Split {
                dir,
                ratio,
                first,
                second,
            } => second.encode(first.encode(w.u8(1).u8(*dir).u32(*ratio))),
        }
    }

    fn decode(r: &mut ValueReader<'_>, depth: u32) -> Result<Self, DecodeError> {
        match r.u8()? {
            0 => Ok(Self::Leaf(r.resource()?)),
            1 if depth < Self::MAX_DEPTH => Ok(Self::Split {
                dir: r.u8()?,
                ratio: r.u32()?,
                first: Box::new(Self::decode(r, depth + 1)?),
                second: Box::new(Self::decode(r, depth + 1)?),
            }),
            other => Err(DecodeError::UnknownValue {
                what: "layout",
                value: u32::from(other),
            }),
        }
    }
}

/// A window in a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowInfo {
    /// Its id.
    pub id: u32,
    /// Its session.
    pub session: u32,
    /// Its place in the session.
    pub index: u16,
    /// Its name.
    pub name: String,
    /// The pane that has the keyboard.
    pub active: Option<ResourceId>,
    /// How it is divided.
    pub layout: Option<Layout>,
}

/// A pane in a [`Snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneInfo {
    /// Its id.
    pub resource: ResourceId,
    /// Its window.
    pub window: u32,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// The title that its program set.
    pub title: Option<String>,
    /// Where its program runs.
    pub cwd: Option<String>,
}

/// All sessions, windows and panes of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
    /// The windows.
    pub windows: Vec<WindowInfo>,
    /// The panes.
    pub panes: Vec<PaneInfo>,
    /// The session in front, 0 for none.
    pub focused_session: u32,
    /// The window in front, 0 for none.
    pub focused_window: u32,
    /// The pane in front, local 0 for none.
    pub focused: ResourceId,
}

impl Snapshot {
    pub(crate) fn encode<'w>(&self, w: &'w mut ValueWriter) -> &'w mut ValueWriter {
        w.list(&self.sessions, |w, s| {
            w.u32(s.id)
                .str(&s.name)
                .opt(s.active_window, |w, v| w.u32(v));
            w.i64(s.created).u16(s.windows).u16(s.attached)
        });
        w.list(&self.windows, |w, v| {
            w.u32(v.id).u32(v.session).u16(v.index).str(&v.name);
            w.opt(v.active.as_ref(), |w, a| w.resource(a));
            w.opt(v.layout.as_ref(), |w, l| l.encode(w))
        });
        w.list(&self.panes, |w, p| {
            w.resource(&p.resource)
                .u32(p.window)
                .u16(p.cols)
                .u16(p.rows);
            w.opt(p.title.as_deref(), |w, s| w.str(s));
            w.opt(p.cwd.as_deref(), |w, s| w.str(s))
        });
        w.u32(self.focused_session)
            .u32(self.focused_window)
            .resource(&self.focused)
    }

    /// Reads a snapshot and leaves what 0.9 puts behind it.
    pub(crate) fn decode(r: &mut ValueReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            sessions: r.list(|r| {
                Ok(SessionInfo {
                    id: r.u32()?,
                    name: r.string()?,
                    active_window: r.opt(|r| r.u32())?,
                    created: r.i64()?,
                    windows: r.u16()?,
                    attached: r.u16()?,
                })
            })?,
            windows: r.list(|r| {
                Ok(WindowInfo {
                    id: r.u32()?,
                    session: r.u32()?,
                    index: r.u16()?,
                    name: r.string()?,
                    active: r.opt(|r| r.resource())?,
                    layout: r.opt(|r| Layout::decode(r, 0))?,
                })
            })?,
            panes: r.list(|r| {
                Ok(PaneInfo {
                    resource: r.resource()?,
                    window: r.u32()?,
                    cols: r.u16()?,
                    rows: r.u16()?,
                    title: r.opt(|r| r.string())?,
                    cwd: r.opt(|r| r.string())?,
                })
            })?,
            focused_session: r.u32()?,
            focused_window: r.u32()?,
            focused: r.resource()?,
        })
    }
}

/// ATTACHED: the attach was accepted; content follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The server as it is.
    pub snapshot: Snapshot,
    /// The server's number for this client.
    pub client_id: u32,
    /// The attach that this answers.
    pub attach_id: u32,
}

impl Attached {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut snapshot = ValueWriter::default();
        self.snapshot.encode(&mut snapshot);
        let mut w = FrameWriter::new(kind::ATTACHED, snapshot.0.len() + 24);
        w.field(1, &snapshot.0)
            .u32(2, self.client_id)
            .u32(3, self.attach_id)
            .finish()
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            snapshot: Snapshot::decode(&mut ValueReader(f.need(1)?))?,
            client_id: ValueReader(f.need(2)?).u32()?,
            attach_id: ValueReader(f.need(3)?).u32()?,
        })
    }
}
