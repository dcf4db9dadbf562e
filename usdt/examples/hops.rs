//! A program with hops and a known pattern of values, to try tracers on.
//!
//!     hops [--wait] [--count N] [--threads T] [--interval-us N]
//!
//! Prints `ready <pid>` first. With `--wait` it then waits for a line on standard input, so that a
//! tracer can attach. Each of T threads (1) passes N times (1000) through all hops, waiting N
//! microseconds (0) between passes. At the end it prints its `PerfReport` as one line of JSON.
//!
//! The values of thread t in pass i are in [`pass`]; the thread's number is the pane's id, and the
//! pass is the sequence number.

use phux_perf::{Counter, Gauge, Metric, PerfReport, Unit, hop, hops};
use std::io::Write;
use std::time::Duration;

hops! {
    /// Bytes of one read; recorded at two places, and inlined into more.
    pub static PTY_READ_SIZE: "pty.read.size", Bytes, pty__read__size;
    /// Microseconds that a chunk waited; a name with a single underscore.
    pub static PTY_QUEUE_WAIT: "pty.queue_wait", Micros, pty__queue_wait;
    /// Chunks of a burst; without id and sequence number.
    pub static PTY_BURST_CHUNKS: "pty.burst.chunks", Count, pty__burst__chunks;
    /// A name without a dot.
    pub static VT_APPLY: "vt_apply", Micros, vt_apply;
}

static PASSES: Counter = Counter::new();
static THREADS: Gauge = Gauge::new();

static METRICS: &[Metric] = &[
    PTY_READ_SIZE.metric(),
    PTY_QUEUE_WAIT.metric(),
    PTY_BURST_CHUNKS.metric(),
    VT_APPLY.metric(),
    Metric::counter("hops.passes", Unit::Count, &PASSES),
    Metric::gauge("hops.threads", Unit::Count, &THREADS),
];

/// One pass through all hops. Its values reach every octave that a real hop could.
fn pass(thread: u64, i: u64) {
    if i % 10 == 9 {
        read(thread, i, 4095);
    } else {
        read(thread, i, i % 64 + 1);
    }
    hop!(PTY_QUEUE_WAIT, 1_u64 << (i % 40), thread, i);
    hop!(PTY_BURST_CHUNKS, (i % 64) as u32);
    if i.is_multiple_of(2) {
        hop!(VT_APPLY, i, thread, i);
    } else {
        hop!(VT_APPLY, i * 1000 + thread, thread, i);
    }
}

/// Inlined where it is called, so that its probe stands at several addresses.
#[inline(always)]
fn read(thread: u64, i: u64, size: u64) {
    hop!(PTY_READ_SIZE, size, thread, i);
}

#[derive(Clone, Copy)]
struct Options {
    wait: bool,
    count: u64,
    threads: u64,
    interval: Duration,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        wait: false,
        count: 1000,
        threads: 1,
        interval: Duration::ZERO,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--wait" {
            options.wait = true;
            continue;
        }
        let value = arguments.next().and_then(|value| value.parse().ok());
        let value: u64 = value.ok_or_else(|| format!("{argument} wants a number"))?;
        match argument.as_str() {
            "--count" => options.count = value,
            "--threads" => options.threads = value,
            "--interval-us" => options.interval = Duration::from_micros(value),
            _ => return Err(format!("unknown option {argument}")),
        }
    }
    Ok(options)
}

fn run(options: Options) -> std::io::Result<()> {
    if let Err(error) = phux_perf::register_probes() {
        eprintln!("hops: no probes: {error}");
    }
    println!("ready {}", std::process::id());
    std::io::stdout().flush()?;
    if options.wait {
        std::io::stdin().read_line(&mut String::new())?;
    }
    THREADS.set(options.threads as i64);
    std::thread::scope(|scope| {
        for thread in 0..options.threads {
            scope.spawn(move || {
                for i in 0..options.count {
                    pass(thread, i);
                    PASSES.increment();
                    if !options.interval.is_zero() {
                        std::thread::sleep(options.interval);
                    }
                }
            });
        }
    });
    println!("{}", PerfReport::capture("hops", METRICS).to_json()?);
    Ok(())
}

fn main() {
    let outcome = options().and_then(|options| run(options).map_err(|error| error.to_string()));
    if let Err(error) = outcome {
        eprintln!("hops: {error}");
        std::process::exit(2);
    }
}
