//! The operation with a recording at its end: from the kernel's records to Parquet.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use phux_recording::{Dataset, Options, Run, Table};
use phux_trace::privileges::Files;
use phux_trace::recording::sink::Sink;
use phux_trace::syscalls::fanout::{Shed, shedding};
use phux_trace::syscalls::{Call, Consumer, Pipeline};
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};

use crate::counting;
use crate::input::Input;

/// Looks of a screen, a second.
const FRAMES: u64 = 4;

/// What operations took: one entry each.
pub(crate) struct Capture {
    pub(crate) name: &'static str,
    /// Until the last call was handed over, ns.
    pub(crate) handed: Vec<f64>,
    /// The same in CPU time of who hands over: on a shared machine the clock also counts others.
    pub(crate) handed_cpu: Vec<f64>,
    /// Until the recording is closed, ns; empty where it goes on.
    pub(crate) closed: Vec<f64>,
    /// The same in CPU time of all threads.
    pub(crate) closed_cpu: Vec<f64>,
    /// Per operation, by who hands over.
    pub(crate) allocations: f64,
    pub(crate) bytes: f64,
    /// Per operation, by all threads.
    pub(crate) all_allocations: f64,
    pub(crate) all_bytes: f64,
}

fn run() -> Run {
    Run {
        hostname: "bench".into(),
        unix_ns: 1_773_396_000_000_000_000,
        ..Run::default()
    }
}

fn sink(dir: &Path) -> Sink {
    let options = Options {
        sync: false,
        ..Options::default()
    };
    Sink::create(dir, Files::Callers, run(), options, &[]).expect("a recording")
}

fn seconds(clock: ClockId) -> f64 {
    let t = clock_gettime(clock);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn ns(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64
}

fn take(pipeline: &mut Pipeline, input: &Input) {
    input.each(|record| {
        pipeline.take(record);
    });
    pipeline.flush();
}

/// A screen on a thread of its own, that takes what is there a few times a second.
struct Screen {
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Screen {
    fn of(other_end: Shed) -> Screen {
        let ends = Arc::new(AtomicBool::new(false));
        let told = ends.clone();
        let thread = std::thread::spawn(move || {
            let mut view = phux_trace::syscalls::Stats::default();
            while !told.load(Relaxed) {
                while matches!(other_end.next(|calls| view.calls(calls)), Ok(true)) {}
                std::thread::park_timeout(Duration::from_millis(1000 / FRAMES));
            }
        });
        Screen {
            ends,
            thread: Some(thread),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// One recording that goes on: each operation finds the writer idle, as the baseline's does.
pub(crate) fn goes_on(name: &'static str, input: &Input, rounds: usize, watched: bool) -> Capture {
    let dir = tempfile::tempdir().expect("a folder");
    let sink = sink(dir.path());
    let mut pipeline = Pipeline::default();
    pipeline.add(sink.calls());
    let screen = watched.then(|| {
        let (consumer, other_end) = shedding(4);
        pipeline.add(Box::new(consumer));
        Screen::of(other_end)
    });
    const WARM: usize = 100;
    let mut done = Capture::new(name);
    let (mut before, mut mine) = (counting::so_far(), counting::mine());
    for round in 0..WARM + rounds {
        if round == WARM {
            (before, mine) = (counting::so_far(), counting::mine());
            done.handed.clear();
            done.handed_cpu.clear();
        }
        let (began, cpu) = (Instant::now(), seconds(ClockId::ThreadCPUTime));
        take(&mut pipeline, input);
        done.handed.push(ns(began));
        let cpu = seconds(ClockId::ThreadCPUTime) - cpu;
        done.handed_cpu.push(cpu * 1e9);
        std::thread::sleep(Duration::from_millis(2));
    }
    done.allocated(rounds, before, mine);
    drop(screen);
    drop(pipeline);
    sink.finish().expect("the end of a recording");
    done
}

/// Where the calls go at the moment.
#[derive(Clone, Default)]
struct Slot(Rc<RefCell<Option<Box<dyn Consumer>>>>);

impl Consumer for Slot {
    fn calls(&mut self, calls: &[Call]) {
        if let Some(consumer) = self.0.borrow_mut().as_mut() {
            consumer.calls(calls);
        }
    }
}

/// One recording an operation, until its files are closed. The pipeline is the same: what it knows and what
/// its figures take is there before, as in the baseline.
pub(crate) fn closed(name: &'static str, input: &Input, rounds: usize) -> Capture {
    let base = tempfile::tempdir().expect("a folder");
    let mut done = Capture::new(name);
    let mut pipeline = Pipeline::default();
    let slot = Slot::default();
    pipeline.add(Box::new(slot.clone()));
    for _ in 0..50 {
        take(&mut pipeline, input);
    }
    let (before, mine) = (counting::so_far(), counting::mine());
    for round in 0..rounds {
        let sink = sink(&base.path().join(round.to_string()));
        slot.0.replace(Some(sink.calls()));
        let (began, cpu) = (Instant::now(), seconds(ClockId::ThreadCPUTime));
        let all = seconds(ClockId::ProcessCPUTime);
        take(&mut pipeline, input);
        done.handed.push(ns(began));
        let cpu = seconds(ClockId::ThreadCPUTime) - cpu;
        done.handed_cpu.push(cpu * 1e9);
        slot.0.take();
        sink.finish().expect("the end of a recording");
        done.closed.push(ns(began));
        let all = seconds(ClockId::ProcessCPUTime) - all;
        done.closed_cpu.push(all * 1e9);
    }
    done.allocated(rounds, before, mine);
    done
}

impl Capture {
    fn new(name: &'static str) -> Capture {
        Capture {
            name,
            handed: Vec::new(),
            handed_cpu: Vec::new(),
            closed: Vec::new(),
            closed_cpu: Vec::new(),
            allocations: 0.0,
            bytes: 0.0,
            all_allocations: 0.0,
            all_bytes: 0.0,
        }
    }

    fn allocated(&mut self, rounds: usize, before: counting::Asked, mine: counting::Asked) {
        let per = |after: u64, before: u64| (after - before) as f64 / rounds as f64;
        let (after, me) = (counting::so_far(), counting::mine());
        self.allocations = per(me.count, mine.count);
        self.bytes = per(me.bytes, mine.bytes);
        self.all_allocations = per(after.count, before.count);
        self.all_bytes = per(after.bytes, before.bytes);
    }
}

/// What was recorded at full speed.
pub(crate) struct Sustained {
    pub(crate) calls: u64,
    pub(crate) cpu_s: f64,
    pub(crate) wall_s: f64,
    pub(crate) file_bytes: u64,
}

/// The same records over and over, as fast as it goes: decoding, figures and Parquet on one core. Nothing may be missing.
pub(crate) fn sustained(input: &Input, pairs: usize, calls: u64) -> Sustained {
    let before = rustix::thread::sched_getaffinity(None).expect("own CPUs");
    rustix::thread::sched_setaffinity(None, &one_of(&before)).expect("one CPU");
    let dir = tempfile::tempdir().expect("a folder");
    let sink = sink(dir.path());
    let mut pipeline = Pipeline::default();
    pipeline.add(sink.calls());
    let (began, cpu) = (Instant::now(), seconds(ClockId::ProcessCPUTime));
    let mut done = 0;
    while done < calls {
        take(&mut pipeline, input);
        done += pairs as u64;
    }
    assert_eq!(
        pipeline.stats().total.count(),
        done,
        "every call is counted"
    );
    drop(pipeline);
    let (run, _) = sink.finish().expect("the end of a recording");
    let cpu_s = seconds(ClockId::ProcessCPUTime) - cpu;
    let wall_s = began.elapsed().as_secs_f64();
    rustix::thread::sched_setaffinity(None, &before).expect("all CPUs again");
    assert_eq!(run.rows, done, "every call is recorded");
    let dataset = Dataset::open(dir.path()).expect("a recording");
    let files = dataset.files(Table::syscalls).expect("its files");
    let lengths = files.iter().filter_map(|f| f.metadata().ok());
    Sustained {
        calls: done,
        cpu_s,
        wall_s,
        file_bytes: lengths.map(|m| m.len()).sum(),
    }
}

fn one_of(cpus: &CpuSet) -> CpuSet {
    let mut one = CpuSet::new();
    let last = (0..CpuSet::MAX_CPU).rev().find(|c| cpus.is_set(*c));
    one.set(last.unwrap_or(0));
    one
}
