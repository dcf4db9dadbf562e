//! What a system call costs from the kernel's record to the figures.
//!
//! `cargo bench -p phux-trace --bench recorder [-- --json]`. The operation is the one of the Go
//! tracer's baseline: 2,000 calls of nine kinds in equal weight by ten threads, encoded before, held
//! in memory, timed from the first decode until the last call has been handed over. Where that one
//! had an enter and an exit record a call, ours has one, and one more where a path is told. No name
//! is looked up in /proc: none ever is.

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
        let mut sorted = self.ns.clone();
        sorted.sort_by(f64::total_cmp);
        let at = ((sorted.len() - 1) as f64 * q).round() as usize;
        sorted.get(at).copied().unwrap_or(f64::NAN)
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
    let json = std::env::args().any(|a| a == "--json");
    let input = Input::new(PAIRS);
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
        take(&mut headless, &input);
        take(&mut watched, &input);
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
        figures.round(|| take(&mut headless, &input));
        shed.round(|| {
            take(&mut watched, &input);
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
