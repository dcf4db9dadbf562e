//! What a person does at a client: keys, paste, mouse, focus.
//!
//! Keys travel as events and become bytes in the server, which knows the pane's modes. The
//! numbers are those of the terminal library that upstream builds on, whose order is that of the
//! W3C list of `KeyboardEvent.code` values.

use bytes::Bytes;

use crate::content::resource_bytes;
use crate::tlv::{Fields, FrameWriter};
use crate::value::{ValueReader, ValueWriter};
use crate::{DecodeError, ResourceId, kind};

/// Values of [`KeyEvent::action`] and [`MouseEvent::action`].
pub mod action {
    /// The key went up.
    pub const KEY_RELEASE: u32 = 0;
    /// The key went down.
    pub const KEY_PRESS: u32 = 1;
    /// The key is held down.
    pub const KEY_REPEAT: u32 = 2;
    /// A mouse button went down, or a wheel notch.
    pub const MOUSE_PRESS: u32 = 0;
    /// A mouse button went up.
    pub const MOUSE_RELEASE: u32 = 1;
    /// The mouse moved.
    pub const MOUSE_MOTION: u32 = 2;
}

/// Bits of [`KeyEvent::mods`] and [`MouseEvent::mods`].
#[allow(missing_docs, reason = "the names say it")]
pub mod mods {
    pub const SHIFT: u16 = 1;
    pub const CTRL: u16 = 2;
    pub const ALT: u16 = 4;
    pub const SUPER: u16 = 8;
}

/// Values of [`MouseEvent::button`]. The wheel is buttons 4 to 7.
#[allow(missing_docs, reason = "the names say it")]
pub mod button {
    pub const NONE: u32 = 0;
    pub const LEFT: u32 = 1;
    pub const RIGHT: u32 = 2;
    pub const MIDDLE: u32 = 3;
    pub const WHEEL_UP: u32 = 4;
    pub const WHEEL_DOWN: u32 = 5;
    pub const WHEEL_LEFT: u32 = 6;
    pub const WHEEL_RIGHT: u32 = 7;
}

/// Values of [`KeyEvent::key`]: physical keys.
#[allow(missing_docs, reason = "the names say it")]
pub mod key {
    pub const UNIDENTIFIED: u32 = 0;
    pub const DIGIT_0: u32 = 6;
    pub const A: u32 = 20;
    pub const BACKSPACE: u32 = 53;
    pub const ENTER: u32 = 58;
    pub const SPACE: u32 = 63;
    pub const TAB: u32 = 64;
    pub const DELETE: u32 = 68;
    pub const END: u32 = 69;
    pub const HOME: u32 = 71;
    pub const INSERT: u32 = 72;
    pub const PAGE_DOWN: u32 = 73;
    pub const PAGE_UP: u32 = 74;
    pub const DOWN: u32 = 75;
    pub const LEFT: u32 = 76;
    pub const RIGHT: u32 = 77;
    pub const UP: u32 = 78;
    pub const ESCAPE: u32 = 120;
    /// F1; the others up to F25 follow.
    pub const F1: u32 = 121;

    /// The key that types `c` on a US keyboard without modifiers, for letters and digits.
    pub fn of_char(c: char) -> u32 {
        match c.to_ascii_lowercase() {
            c @ 'a'..='z' => A + (c as u32 - 'a' as u32),
            c @ '0'..='9' => DIGIT_0 + (c as u32 - '0' as u32),
            ' ' => SPACE,
            _ => UNIDENTIFIED,
        }
    }
}

/// Frame `kind` with the pane in field 1 and the event in field 2.
fn input_frame(kind: u8, resource: &ResourceId, event: &[u8]) -> Vec<u8> {
    let mut w = FrameWriter::new(kind, event.len() + 24);
    w.field(1, &resource_bytes(resource))
        .field(2, event)
        .finish()
}

fn input_fields<'a>(f: &Fields<'a>) -> Result<(ResourceId, ValueReader<'a>), DecodeError> {
    Ok((ValueReader(f.need(1)?).resource()?, ValueReader(f.need(2)?)))
}

/// INPUT_KEY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEvent {
    /// The pane it is meant for.
    pub resource: ResourceId,
    /// See [`action`].
    pub action: u32,
    /// See [`key`].
    pub key: u32,
    /// Bit set, see [`mods`].
    pub mods: u16,
    /// The modifiers that went into making `text`.
    pub consumed: u16,
    /// Part of an unfinished composition.
    pub composing: bool,
    /// What the key types; no control characters.
    pub text: Option<String>,
    /// The code point that the key types without Shift.
    pub unshifted: Option<u32>,
}

impl KeyEvent {
    /// The event alone, as INPUT_KEY's field 2 and ROUTE_INPUT carry it.
    pub(crate) fn encode_event<'w>(&self, w: &'w mut ValueWriter) -> &'w mut ValueWriter {
        w.u32(self.action)
            .u32(self.key)
            .u16(self.mods)
            .u16(self.consumed);
        w.u8(u8::from(self.composing));
        w.opt(self.text.as_deref(), |w, s| w.str(s));
        w.opt(self.unshifted, |w, v| w.u32(v))
    }

    pub(crate) fn decode_event(
        resource: ResourceId,
        r: &mut ValueReader<'_>,
    ) -> Result<Self, DecodeError> {
        let event = Self {
            resource,
            action: r.u32()?,
            key: r.u32()?,
            mods: r.u16()?,
            consumed: r.u16()?,
            composing: r.bool()?,
            text: r.opt(|r| r.string())?,
            unshifted: r.opt(|r| r.u32())?,
        };
        if event.action > action::KEY_REPEAT {
            return Err(DecodeError::UnknownValue {
                what: "key action",
                value: event.action,
            });
        }
        if let Some(c) = event
            .text
            .iter()
            .flat_map(|t| t.chars())
            .find(|c| c.is_control())
        {
            return Err(DecodeError::UnknownValue {
                what: "key text",
                value: c.into(),
            });
        }
        Ok(event)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        self.encode_event(&mut w);
        input_frame(kind::INPUT_KEY, &self.resource, &w.0)
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        let (resource, mut r) = input_fields(f)?;
        Self::decode_event(resource, &mut r)
    }
}

/// INPUT_PASTE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasteEvent {
    /// The pane it is meant for.
    pub resource: ResourceId,
    /// 0 for a paste that a person asked for.
    pub trust: u8,
    /// What was pasted.
    pub data: Bytes,
}

impl PasteEvent {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        w.u8(self.trust).bytes(&self.data);
        input_frame(kind::INPUT_PASTE, &self.resource, &w.0)
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        let (resource, mut r) = input_fields(f)?;
        let trust = r.u8()?;
        Ok(Self {
            resource,
            trust,
            data: Bytes::copy_from_slice(r.bytes()?),
        })
    }
}

/// INPUT_MOUSE.
#[derive(Debug, Clone, PartialEq)]
pub struct MouseEvent {
    /// The pane it is meant for.
    pub resource: ResourceId,
    /// See [`action`].
    pub action: u32,
    /// See [`button`].
    pub button: u32,
    /// Bit set, see [`mods`].
    pub mods: u16,
    /// Column, from 0, in cells.
    pub x: f64,
    /// Row, from 0, in cells.
    pub y: f64,
}

impl MouseEvent {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = ValueWriter::default();
        w.u32(self.action)
            .u32(self.button)
            .u16(self.mods)
            .f64(self.x)
            .f64(self.y);
        input_frame(kind::INPUT_MOUSE, &self.resource, &w.0)
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        let (resource, mut r) = input_fields(f)?;
        Ok(Self {
            resource,
            action: r.u32()?,
            button: r.u32()?,
            mods: r.u16()?,
            x: r.f64()?,
            y: r.f64()?,
        })
    }
}

/// INPUT_FOCUS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FocusEvent {
    /// The pane it is meant for.
    pub resource: ResourceId,
    /// Whether the client's terminal has the focus now.
    pub focused: bool,
}

impl FocusEvent {
    pub(crate) fn encode(&self) -> Vec<u8> {
        input_frame(
            kind::INPUT_FOCUS,
            &self.resource,
            &[u8::from(!self.focused)],
        )
    }

    pub(crate) fn decode(f: &Fields<'_>) -> Result<Self, DecodeError> {
        let (resource, mut r) = input_fields(f)?;
        Ok(Self {
            resource,
            focused: r.u8()? == 0,
        })
    }
}
