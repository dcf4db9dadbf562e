//! How fast rows become Parquet, and how small.
//!
//!     cargo bench -p phux-recording [-- [--only operation|steady|sustained] FOLDER]
//!
//! The operation is the baseline's: 2,000 calls. Two boundaries: until the last row was handed over,
//! and until the file is closed. Absolute times mean little on a shared machine: each figure stands
//! beside a floor that was measured in the same run, copying the rows. FOLDER: where to write
//! (default: a temporary folder).
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that fails may say so by panicking"
)]

mod mix;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use phux_recording::{Codec, Dataset, Options, Recorder, Run, Syscall, Table};

/// Counts what all threads allocate, and what each does.
struct Counting;

thread_local! {
    static MINE: Cell<u64> = const { Cell::new(0) };
}

fn count(size: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    BYTES.fetch_add(size as u64, Relaxed);
    // A thread that is ending has no thread-local any more.
    let _ = MINE.try_with(|mine| mine.set(mine.get() + 1));
}

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: all is left to the system's allocator; counting does not touch memory that it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps alloc's contract, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const PAIRS: usize = 2_000;

fn options(codec: Codec) -> Options {
    Options {
        codec,
        sync: false,
        ..Options::default()
    }
}

fn run() -> Run {
    Run {
        hostname: "bench".into(),
        unix_ns: 1_773_396_000_000_000_000,
        ..Run::default()
    }
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

/// Copying the rows into memory that is there already: what any hand-over costs at least.
fn floor(rows: &[Syscall]) -> Duration {
    let mut copy: Vec<Syscall> = Vec::with_capacity(rows.len());
    median(
        (0..200)
            .map(|_| {
                copy.clear();
                let start = Instant::now();
                copy.extend_from_slice(rows);
                black_box(&copy);
                start.elapsed()
            })
            .collect(),
    )
}

fn syscalls_bytes(dir: &Path) -> u64 {
    let files = Dataset::open(dir).unwrap().files(Table::syscalls).unwrap();
    files.iter().map(|f| f.metadata().unwrap().len()).sum()
}

fn fresh(base: &Path) -> tempfile::TempDir {
    tempfile::tempdir_in(base).unwrap()
}

/// The baseline's operation: begin a recording, hand over 2,000 calls, end it.
fn operation(base: &Path, rows: &[Syscall], floor: Duration, codec: Codec) {
    let (mut handed, mut closed, mut begun) = (Vec::new(), Vec::new(), Vec::new());
    let mut spent = Vec::new();
    let mut bytes = 0;
    for _ in 0..60 {
        let dir = fresh(base);
        let start = Instant::now();
        let recorder = Recorder::create(dir.path(), run(), options(codec)).unwrap();
        begun.push(start.elapsed());
        let (start, cpu) = (Instant::now(), cpu_time());
        for row in rows {
            recorder.push(row.clone()).unwrap();
        }
        handed.push(start.elapsed());
        recorder.finish().unwrap();
        closed.push(start.elapsed());
        spent.push(Duration::from_secs_f64(cpu_time() - cpu));
        bytes = syscalls_bytes(dir.path());
    }
    let (handed, closed) = (median(handed), median(closed));
    let times = |d: Duration| d.as_secs_f64() / floor.as_secs_f64();
    println!("2,000 pairs, one recording each (median of 60), {codec:?}:");
    println!("  floor: copying the rows             {floor:>12.2?}");
    println!(
        "  recording begun                     {:>12.2?}",
        median(begun)
    );
    println!(
        "  until handed over                   {handed:>12.2?}   {:.1} x floor",
        times(handed)
    );
    println!(
        "  until all files closed, not synced  {closed:>12.2?}   {:.1} x floor",
        times(closed)
    );
    println!(
        "  CPU time of all threads until then  {:>12.2?}",
        median(spent)
    );
    println!(
        "  the file: {bytes} bytes, {:.2} a pair",
        bytes as f64 / rows.len() as f64
    );
}

/// The same operation in a recording that goes on: what it allocates once all is warm.
fn steady(base: &Path, rows: &[Syscall]) {
    const WARM: usize = 200;
    const OPERATIONS: usize = 1_000;
    let dir = fresh(base);
    let recorder = Recorder::create(dir.path(), run(), options(Codec::default())).unwrap();
    let mut handed = Vec::with_capacity(WARM + OPERATIONS);
    let mut before = (0, 0, 0);
    let mut by_hand = 0;
    for i in 0..WARM + OPERATIONS {
        if i == WARM {
            before = (ALLOCATIONS.load(Relaxed), BYTES.load(Relaxed), MINE.get());
        }
        let start = Instant::now();
        for row in rows {
            recorder.push(row.clone()).unwrap();
        }
        handed.push(start.elapsed());
        by_hand = MINE.get() - before.2;
        // Each operation finds the writer idle, as the baseline's does.
        std::thread::sleep(Duration::from_millis(2));
    }
    let after = (ALLOCATIONS.load(Relaxed), BYTES.load(Relaxed));
    recorder.finish().unwrap();
    let per = |a: u64, b: u64| (b - a) as f64 / OPERATIONS as f64;
    println!("2,000 pairs, in one recording that goes on ({OPERATIONS} operations):");
    println!(
        "  until handed over                   {:>12.2?}",
        median(handed)
    );
    println!(
        "  allocations an operation, by who hands over {:.3}",
        by_hand as f64 / OPERATIONS as f64
    );
    println!(
        "  allocations an operation, all threads {:.1} ({:.0} bytes)",
        per(before.0, after.0),
        per(before.1, after.1)
    );
}

/// All on one core, as fast as it goes: the writer's work and the hand-over together.
fn sustained(base: &Path) {
    const ROWS: usize = 3_000_000;
    let rows = mix::calls(500_000);
    rustix::thread::sched_setaffinity(None, &one_cpu()).unwrap();
    println!("sustained, {ROWS} calls, hand-over and writer on one core:");
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let dir = fresh(base);
        let recorder = Recorder::create(dir.path(), run(), options(codec)).unwrap();
        let (start, cpu) = (Instant::now(), cpu_time());
        let mut done = 0;
        let mut batch = Vec::with_capacity(256);
        'all: loop {
            for chunk in rows.chunks(256) {
                batch.extend_from_slice(chunk);
                recorder.push_all(&mut batch).unwrap();
                done += chunk.len();
                if done >= ROWS {
                    break 'all;
                }
            }
        }
        recorder.finish().unwrap();
        // On a shared machine the wall clock also counts what others did.
        let (took, cpu) = (start.elapsed().as_secs_f64(), cpu_time() - cpu);
        let rate = done as f64 / cpu;
        let bytes = syscalls_bytes(dir.path());
        println!(
            "  {codec:<5?} CPU {:>5.0} ns a call = {rate:>9.0} calls/s, {:>9.0} events/s (wall {:.0} ns a call); {:.2} bytes a call, {:.2} an event",
            1e9 / rate,
            2.0 * rate,
            took / done as f64 * 1e9,
            bytes as f64 / done as f64,
            bytes as f64 / done as f64 / 2.0,
        );
    }
}

/// CPU time of the whole process, seconds.
fn cpu_time() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn one_cpu() -> rustix::thread::CpuSet {
    let mut one = rustix::thread::CpuSet::new();
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let last = (0..rustix::thread::CpuSet::MAX_CPU)
        .rev()
        .find(|c| allowed.is_set(*c));
    one.set(last.unwrap_or(0));
    one
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| a != "--bench");
    let (mut base, mut only) = (std::env::temp_dir(), None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--only" => only = args.next(),
            _ => base = PathBuf::from(arg),
        }
    }
    let asked = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let rows = mix::calls(PAIRS);
    if asked("operation") {
        let floor = floor(&rows);
        for codec in [Codec::default(), Codec::None, Codec::Lz4] {
            operation(&base, &rows, floor, codec);
        }
    }
    if asked("steady") {
        steady(&base, &rows);
    }
    if asked("sustained") {
        sustained(&base);
    }
}
