//! An allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) struct Counting;

/// What was asked for so far.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

pub(crate) fn so_far() -> Asked {
    Asked {
        count: COUNT.load(Relaxed),
        bytes: BYTES.load(Relaxed),
    }
}

fn asked(bytes: usize) {
    COUNT.fetch_add(1, Relaxed);
    BYTES.fetch_add(bytes as u64, Relaxed);
}

// SAFETY: everything is the system's allocator's; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        asked(layout.size());
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        asked(size);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(at, layout, size) }
    }
}
