//! An allocator that counts, and that remembers where some of it was asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub(crate) struct Counting;

/// What was asked for so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asked {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Whether places are remembered, and those that were: a stack each, with what was asked for there.
static PROFILE: AtomicBool = AtomicBool::new(false);
static PLACES: Mutex<Vec<(Backtrace, usize)>> = Mutex::new(Vec::new());
/// Of so many allocations of a thread one is remembered: a stack costs more than all of them.
const ONE_IN: u64 = 64;

thread_local! {
    static MINE: Cell<Asked> = const { Cell::new(Asked { count: 0, bytes: 0 }) };
    static AT_IT: Cell<bool> = const { Cell::new(false) };
}

/// By all threads.
pub(crate) fn so_far() -> Asked {
    Asked {
        count: COUNT.load(Relaxed),
        bytes: BYTES.load(Relaxed),
    }
}

/// By this one.
pub(crate) fn mine() -> Asked {
    MINE.get()
}

/// From here on places are remembered, or not any more.
pub(crate) fn profile(on: bool) {
    PROFILE.store(on, Relaxed);
}

/// The places as folded stacks, outermost first, with the bytes that were asked for.
pub(crate) fn folded() -> String {
    profile(false);
    let places = std::mem::take(&mut *PLACES.lock().unwrap_or_else(|e| e.into_inner()));
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, bytes) in places {
        let text = stack.to_string();
        // "  12: name", and below it "at file:line".
        let frames = text.lines().filter_map(|l| {
            let (number, name) = l.trim_start().split_once(": ")?;
            number.parse::<u32>().ok().map(|_| name.replace(';', ","))
        });
        let mut frames: Vec<String> = frames.filter(|f| !f.contains("counting::")).collect();
        frames.reverse();
        *sums.entry(frames.join(";")).or_default() += bytes as u64 * ONE_IN;
    }
    sums.iter().map(|(s, n)| format!("{s} {n}\n")).collect()
}

fn asked(bytes: usize) {
    COUNT.fetch_add(1, Relaxed);
    BYTES.fetch_add(bytes as u64, Relaxed);
    // A thread that is ending has no thread-local any more.
    let mine = MINE.try_with(|mine| {
        let Asked { count, bytes: b } = mine.get();
        mine.set(Asked {
            count: count + 1,
            bytes: b + bytes as u64,
        });
        count
    });
    if PROFILE.load(Relaxed) && mine.is_ok_and(|nth| nth % ONE_IN == 0) {
        remember(bytes);
    }
}

#[cold]
fn remember(bytes: usize) {
    // What remembering itself asks for is not remembered.
    if AT_IT.try_with(|at_it| at_it.replace(true)) != Ok(false) {
        return;
    }
    let stack = Backtrace::force_capture();
    if let Ok(mut places) = PLACES.lock() {
        places.push((stack, bytes));
    }
    let _ = AT_IT.try_with(|at_it| at_it.set(false));
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
