//! The recording path allocates nothing.

use phux_perf::{Counter, Gauge, Histogram, Throttle, Timer, hop, hops};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

hops! {
    static READ_SIZE: "test.read.size", Bytes, test__read__size;
}
static HISTOGRAM: Histogram = Histogram::new();
static COUNTER: Counter = Counter::new();
static GAUGE: Gauge = Gauge::new();
static THROTTLE: Throttle = Throttle::new(Duration::from_secs(10));

thread_local! {
    /// Allocations of this thread; the test harness has threads of its own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    f();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn recording_allocates_nothing() {
    assert!(
        allocations(|| drop(std::hint::black_box(Box::new(1)))) > 0,
        "the count works"
    );
    let n = allocations(|| {
        for i in 0..1000_u64 {
            let value = i * i * i;
            HISTOGRAM.record(value);
            hop!(READ_SIZE, value, 1_u32, i);
            drop(READ_SIZE.timer(1, i));
            drop(Timer::start(&HISTOGRAM));
            COUNTER.add(value);
            GAUGE.set(i as i64);
            let _ = THROTTLE.allow();
        }
    });
    assert_eq!(n, 0);
    let recorded = if cfg!(feature = "disabled") { 0 } else { 2000 };
    assert_eq!(READ_SIZE.snapshot().count, recorded);
}
