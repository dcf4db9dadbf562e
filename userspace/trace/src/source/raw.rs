//! From the kernel's bytes to the generated structs, without trusting their length.

use std::mem::size_of;

use probe_ebpf::events;

/// A struct that the kernel side writes: plain integers and arrays of them, so that
/// any bytes are a value of it.
///
/// # Safety
/// Only for types of `events.h`, which holds nothing else.
pub(crate) unsafe trait Record: Copy + 'static {}

macro_rules! records {
    ($($t:ident),* $(,)?) => {$(
        // SAFETY: generated from events.h: integers and arrays of integers.
        unsafe impl Record for events::$t {}
    )*};
}
records!(
    ev_header,
    ev_exit,
    ev_task,
    ev_io,
    ev_flush,
    ev_hop,
    ev_off,
    ev_sock,
    thread_stats,
    pty_holder,
    io_key,
    io_stats,
    flush_key,
    flush_stats,
    hop_key,
    hist,
    ev_call,
    ev_file,
    ev_strings,
    ev_comm,
    call_key,
    call_sums
);

/// The record at the start of these bytes; `None` if they are too few.
pub(crate) fn read<T: Record>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: long enough by the check above, any bytes are a valid T by the trait's
    // contract, and the read does not ask for alignment.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<T>()) })
}

/// The same of a record whose end may be left out, down to `least` bytes: zeros stand for it.
pub(crate) fn read_short<T: Record>(bytes: &[u8], least: usize) -> Option<T> {
    if bytes.len() < least.max(1) {
        return None;
    }
    let len = bytes.len().min(size_of::<T>());
    // SAFETY: any bytes are a valid T by the trait's contract, zeros too; at most its size is copied.
    Some(unsafe {
        let mut value = std::mem::zeroed::<T>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut value).cast::<u8>(), len);
        value
    })
}

/// All records in these bytes; a torn last one is left out.
pub(crate) fn read_all<T: Record>(bytes: &[u8]) -> impl Iterator<Item = T> + '_ {
    bytes.chunks_exact(size_of::<T>()).filter_map(read)
}

/// For aya, whose maps want a type of this crate as key and value.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Pod<T: Record>(pub(crate) T);

// SAFETY: transparent over a Record, for which any bytes are a value.
unsafe impl<T: Record> aya::Pod for Pod<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bytes_are_no_record() {
        let bytes = [7u8; size_of::<events::ev_io>()];
        assert!(read::<events::ev_io>(&bytes[1..]).is_none());
        assert!(read::<events::ev_io>(&[]).is_none());
        let io: events::ev_io = read(&bytes).expect("long enough");
        assert_eq!(io.duration_ns, u64::from_ne_bytes([7; 8]));
    }

    #[test]
    fn a_record_without_its_end_has_zeros_there() {
        let bytes = [7u8; size_of::<events::ev_io>()];
        let short: events::ev_io = read_short(&bytes[..bytes.len() - 8], 8).expect("long enough");
        assert_eq!(short.ret, i64::from_ne_bytes([7; 8]));
        assert_eq!(short.duration_ns, 0);
        let whole: events::ev_io = read_short(&[7u8; 4096], 8).expect("more than it needs");
        assert_eq!(whole.duration_ns, u64::from_ne_bytes([7; 8]));
        assert!(read_short::<events::ev_io>(&bytes[..7], 8).is_none());
        assert!(read_short::<events::ev_io>(&[], 0).is_none());
    }

    #[test]
    fn unaligned_bytes_are_read() {
        let mut bytes = vec![0u8; size_of::<events::ev_hop>() + 1];
        bytes[1..9].copy_from_slice(&42u64.to_ne_bytes());
        let hop: events::ev_hop = read(&bytes[1..]).expect("long enough");
        assert_eq!(hop.h.ts, 42);
    }
}
