//! What a system call costs from the kernel's record to the figures.
//!
//! `cargo bench -p phux-trace --bench recorder [-- --json] [--only capture|pipeline|sustained]
//! [--allocations FILE]`. The operation is the one of the Go
//! tracer's baseline: 2,000 calls of nine kinds in equal weight by ten threads, encoded before, held
//! in memory, timed from the first decode until the last call has been handed over. Where that one
//! had an enter and an exit record a call, ours has one, and one more where a path is told. No name
//! is looked up in /proc: none ever is. `capture` has a recording at the end, with both boundaries: until
//! the last call is handed over, and until all files are closed. FILE gets where memory was asked for, as
//! folded stacks.

mod capture;
mod counting;
mod input;

use std::hint::black_box;
use std::time::Instant;

use phux_trace::syscalls::fanout::{Shed, shedding};
use phux_trace::syscalls::join::Joined;
use phux_trace::syscalls::{Join, Pipeline};

use input::Input;

const PAIRS: usize = 2000;
/// Operations that are timed at once: a clock that is read more often would be in the figure.
const OPS: usize = 20;
const ROUNDS: usize = 101;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// One way through the records, and what it took.
struct Row {
    name: &'static str,
    /// ns per operation, one a round.
    ns: Vec<f64>,
    allocations: f64,
    bytes: f64,
}

impl Row {
    fn new(name: &'static str) -> Row {
        Row {
            name,
            ns: Vec::new(),
            allocations: 0.0,
            bytes: 0.0,
        }
    }

    fn round(&mut self, mut op: impl FnMut()) {
        let before = counting::so_far();
        let began = Instant::now();
        for _ in 0..OPS {
            op();
        }
        let ns = began.elapsed().as_nanos() as f64 / OPS as f64;
        let after = counting::so_far();
        self.ns.push(ns);
        self.allocations += (after.count - before.count) as f64 / OPS as f64;
        self.bytes += (after.bytes - before.bytes) as f64 / OPS as f64;
    }

    fn quantile(&self, q: f64) -> f64 {
        quantile(&self.ns, q)
    }
}

/// Somebody slow, who looks at a batch now and then, as a screen does.
struct Screen(Shed);

impl Screen {
    fn look(&self) {
        let _ = self.0.next(|calls| {
            black_box(calls.len());
        });
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = args.iter().position(|a| a == name)?;
        args.get(at + 1).cloned()
    };
    let json = args.iter().any(|a| a == "--json");
    let (only, places) = (value("--only"), value("--allocations"));
    let asked = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let input = Input::new(PAIRS);
    counting::profile(places.is_some());
    if asked("capture") {
        captures(&input, json);
    }
    if asked("pipeline") {
        pipeline(&input, json);
    }
    if asked("sustained") {
        sustained(&input, json);
    }
    if let Some(file) = places {
        std::fs::write(&file, counting::folded()).expect("writing where memory was asked for");
    }
}

/// With a recording at the end, both boundaries.
fn captures(input: &Input, json: bool) {
    const ROUNDS: usize = 400;
    for c in [
        capture::goes_on("headless + Parquet", input, ROUNDS, false),
        capture::goes_on("TUI + Parquet", input, ROUNDS, true),
        capture::closed("headless + Parquet, a recording each", input, 60),
    ] {
        let middle = |all: &[f64]| quantile(all, 0.5) / 1e6;
        let (handed, cpu) = (middle(&c.handed), middle(&c.handed_cpu));
        let (closed, all) = (middle(&c.closed), middle(&c.closed_cpu));
        let name = c.name;
        if json {
            println!(
                "{{\"capture\":\"{name}\",\"handed_ms\":{handed},\"handed_cpu_ms\":{cpu},\
                 \"closed_ms\":{},\"closed_cpu_ms\":{},\"allocs_per_op\":{},\"bytes_per_op\":{},\
                 \"all_allocs_per_op\":{},\"all_bytes_per_op\":{}}}",
                number(closed),
                number(all),
                c.allocations,
                c.bytes,
                c.all_allocations,
                c.all_bytes
            );
            continue;
        }
        println!(
            "{name:<36} {handed:.3} ms/op until handed over ({cpu:.3} of CPU), {:.1} allocs/op ({:.0} B), \
             all threads {:.0} ({:.0} B)",
            c.allocations, c.bytes, c.all_allocations, c.all_bytes
        );
        if !c.closed.is_empty() {
            println!(
                "{:<36} {closed:.3} ms/op until closed ({all:.3} of CPU, all threads)",
                ""
            );
        }
    }
}

/// JSON has no NaN.
fn number(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        "null".into()
    }
}

/// Decode → Parquet as fast as it goes, on one core.
fn sustained(input: &Input, json: bool) {
    let s = capture::sustained(input, PAIRS, 3_000_000);
    // A call is two events: its enter and its exit.
    let events = 2.0 * s.calls as f64;
    let (cpu, wall) = (events / s.cpu_s, events / s.wall_s);
    let bytes = s.file_bytes as f64 / events;
    if json {
        println!(
            "{{\"sustained_events_per_cpu_second\":{cpu},\"events_per_second\":{wall},\
             \"bytes_per_event\":{bytes},\"calls\":{}}}",
            s.calls
        );
    } else {
        println!(
            "sustained, one core, {} calls, none lost: {cpu:.2e} events a second of CPU ({wall:.2e} by the clock), \
             {bytes:.2} bytes an event",
            s.calls
        );
    }
}

fn quantile(all: &[f64], q: f64) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len().saturating_sub(1) as f64 * q).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// Without one.
fn pipeline(input: &Input, json: bool) {
    let mut join = Join::default();
    let mut headless = Pipeline::default();
    let mut watched = Pipeline::default();
    let (consumer, other_end) = shedding(4);
    watched.add(Box::new(consumer));
    let screen = Screen(other_end);
    let mut rows = [
        Row::new("decode and join"),
        Row::new("decode, join, figures"),
        Row::new("the same beside a screen that sheds"),
    ];
    // Warm: tables, names and histograms have their size.
    for _ in 0..50 {
        input.each(|r| drop(black_box(join.take(r))));
        take(&mut headless, input);
        take(&mut watched, input);
    }
    for _ in 0..ROUNDS {
        let [joined, figures, shed] = &mut rows;
        joined.round(|| {
            input.each(|record| {
                if let Joined::Call(call) = join.take(record) {
                    black_box(call);
                }
            });
        });
        figures.round(|| take(&mut headless, input));
        shed.round(|| {
            take(&mut watched, input);
            screen.look();
        });
    }
    let done = headless.stats().total.count();
    assert_eq!(
        done,
        ((50 + ROUNDS * OPS) * PAIRS) as u64,
        "every call is counted"
    );
    assert_eq!(headless.undecodable() + headless.unnamed(), 0);
    for row in &rows {
        print(row, json, input.records());
    }
}

fn take(pipeline: &mut Pipeline, input: &Input) {
    input.each(|record| {
        pipeline.take(record);
    });
    pipeline.flush();
}

fn print(row: &Row, json: bool, records: usize) {
    let (low, median, high) = (row.quantile(0.25), row.quantile(0.5), row.quantile(0.75));
    let rounds = row.ns.len() as f64;
    let (allocations, bytes) = (row.allocations / rounds, row.bytes / rounds);
    let pair = median / PAIRS as f64;
    let per_second = 1e9 / pair;
    if json {
        println!(
            "{{\"name\":\"{}\",\"ns_per_op\":{median},\"ns_per_op_p25\":{low},\"ns_per_op_p75\":{high},\
             \"ns_per_pair\":{pair},\"allocs_per_op\":{allocations},\"bytes_per_op\":{bytes},\
             \"pairs_per_second\":{per_second},\"records_per_op\":{records}}}",
            row.name
        );
    } else {
        println!(
            "{:<36} {:.3} ms/op ({:.3} - {:.3}), {pair:.0} ns a pair, {per_second:.2e} pairs/s, \
             {allocations:.2} allocs/op, {bytes:.0} B/op",
            row.name,
            median / 1e6,
            low / 1e6,
            high / 1e6,
        );
    }
}
