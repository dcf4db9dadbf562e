//! What is inside a field: positional, fixed-width, big-endian.
//!
//! Strings and byte strings inside a value have a `u32` length; an optional value is `00` or
//! `01 X`; a list is a `u32` count and its items. Bytes that are left over are ignored: that is
//! how either side extends a value.

use crate::{DecodeError, ResourceId};

/// Appends positional values to a buffer.
#[derive(Debug, Default)]
pub(crate) struct ValueWriter(pub(crate) Vec<u8>);

impl ValueWriter {
    pub(crate) fn u8(&mut self, v: u8) -> &mut Self {
        self.0.push(v);
        self
    }

    pub(crate) fn u16(&mut self, v: u16) -> &mut Self {
        self.0.extend_from_slice(&v.to_be_bytes());
        self
    }

    pub(crate) fn u32(&mut self, v: u32) -> &mut Self {
        self.0.extend_from_slice(&v.to_be_bytes());
        self
    }

    pub(crate) fn u64(&mut self, v: u64) -> &mut Self {
        self.0.extend_from_slice(&v.to_be_bytes());
        self
    }

    pub(crate) fn i64(&mut self, v: i64) -> &mut Self {
        self.0.extend_from_slice(&v.to_be_bytes());
        self
    }

    pub(crate) fn f64(&mut self, v: f64) -> &mut Self {
        self.0.extend_from_slice(&v.to_be_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, v: &[u8]) -> &mut Self {
        self.u32(u32::try_from(v.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(v);
        self
    }

    pub(crate) fn str(&mut self, v: &str) -> &mut Self {
        self.bytes(v.as_bytes())
    }

    pub(crate) fn opt<T>(
        &mut self,
        v: Option<T>,
        put: impl FnOnce(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        match v {
            None => self.u8(0),
            Some(v) => put(self.u8(1), v),
        }
    }

    pub(crate) fn list<T>(
        &mut self,
        items: &[T],
        put: impl for<'w> Fn(&'w mut Self, &T) -> &'w mut Self,
    ) -> &mut Self {
        self.u32(u32::try_from(items.len()).unwrap_or(u32::MAX));
        for item in items {
            put(self, item);
        }
        self
    }

    pub(crate) fn resource(&mut self, v: &ResourceId) -> &mut Self {
        match v {
            ResourceId::Local(id) => self.u8(0).u32(*id),
            ResourceId::Satellite(host, id) => self.u8(1).str(host).u32(*id),
        }
    }
}

/// Takes positional values off the front of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueReader<'a>(pub(crate) &'a [u8]);

impl<'a> ValueReader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.u8()? != 0)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn f64(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_be_bytes(self.array()?))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()? as usize;
        let (head, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn string(&mut self) -> Result<String, DecodeError> {
        text(self.bytes()?)
    }

    pub(crate) fn opt<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        match self.u8()? {
            0 => Ok(None),
            1 => take(self).map(Some),
            other => Err(DecodeError::UnknownValue {
                what: "option",
                value: u32::from(other),
            }),
        }
    }

    /// Reads a list. The count is not trusted with an allocation: each item takes at least one
    /// byte, so a list cannot be longer than what is left of the value.
    pub(crate) fn list<T>(
        &mut self,
        mut take: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.u32()? as usize;
        if count > self.0.len() {
            return Err(DecodeError::Truncated);
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(take(self)?);
        }
        Ok(items)
    }

    pub(crate) fn resource(&mut self) -> Result<ResourceId, DecodeError> {
        match self.u8()? {
            0 => Ok(ResourceId::Local(self.u32()?)),
            1 => Ok(ResourceId::Satellite(self.string()?, self.u32()?)),
            other => Err(DecodeError::UnknownValue {
                what: "resource",
                value: u32::from(other),
            }),
        }
    }
}

/// UTF-8 text, or an error.
pub(crate) fn text(bytes: &[u8]) -> Result<String, DecodeError> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| DecodeError::NotUtf8)
}
