//! What the client measures about itself, in the order of upstream's table.

use phux_perf::{Counter, Metric, Unit, hops};

hops! {
    /// From a key sent to the first output of its pane.
    pub(crate) static ECHO_RTT: "echo.rtt", Micros, echo__rtt;
    /// Parsing one OUTPUT frame into the local screen.
    pub(crate) static VT_APPLY: "vt_apply", Micros, vt_apply;
    /// One paint: finding what changed and handing it to the writer.
    pub(crate) static PAINT_FULL: "paint.full", Micros, paint__full;
    /// The part of a paint that sets modes, title and cursor.
    pub(crate) static PAINT_CHROME: "paint.chrome", Micros, paint__chrome;
    /// The part of a paint that compares and writes rows.
    pub(crate) static PAINT_ROWS: "paint.rows", Micros, paint__rows;
    /// The part of a paint that hands over to the writer.
    pub(crate) static PAINT_SUBMIT: "paint.submit", Micros, paint__submit;
    /// Handling what was typed in one go.
    pub(crate) static LOOP_INPUT_WALL: "loop.input_wall", Micros, loop__input_wall;
    /// Handling the frames that arrived in one go.
    pub(crate) static LOOP_FRAMES_WALL: "loop.frames_wall", Micros, loop__frames_wall;
    /// How many frames arrived in one go.
    pub(crate) static LOOP_BURST_FRAMES: "loop.burst_frames", Count, loop__burst_frames;
    /// Bytes that wait for the terminal after a paint.
    pub(crate) static STDOUT_BACKLOG: "stdout.backlog", Bytes, stdout__backlog;
    /// From a paint until the writer took it.
    pub(crate) static STDOUT_QUEUE_WAIT: "stdout.queue_wait", Micros, stdout__queue_wait;
    /// Writing to the terminal.
    pub(crate) static STDOUT_WRITE: "stdout.write", Micros, stdout__write;
    /// How long a paint was held back so that more frames fit into it.
    pub(crate) static PACER_HOLD: "pacer.hold", Micros, pacer__hold;
    /// How much later than planned a held paint came.
    pub(crate) static PACER_LATE: "pacer.late", Micros, pacer__late;
}

/// Bursts of frames cut short, so that keys are not kept waiting.
pub(crate) static LOOP_BURST_CAPPED: Counter = Counter::new();
/// Frames received.
pub(crate) static FRAMES_RECEIVED: Counter = Counter::new();
/// Paints.
pub(crate) static FRAMES_PAINTED: Counter = Counter::new();
/// OUTPUT frames that had no paint of their own.
pub(crate) static FRAMES_SKIPPED: Counter = Counter::new();
/// Paints handed to the writer.
pub(crate) static STDOUT_FLUSHES: Counter = Counter::new();
/// Bytes in them.
pub(crate) static STDOUT_BYTES: Counter = Counter::new();
/// The backlog was dropped, because the terminal does not keep up.
pub(crate) static STDOUT_DROPS: Counter = Counter::new();
/// Bytes that the terminal took.
pub(crate) static STDOUT_WRITTEN: Counter = Counter::new();
/// Bytes in dropped backlogs.
pub(crate) static STDOUT_DROPPED_BYTES: Counter = Counter::new();
/// Writes to the terminal that failed.
pub(crate) static STDOUT_ERRORS: Counter = Counter::new();
/// Paints at once, because a key was just typed.
pub(crate) static PACER_REPLIES: Counter = Counter::new();
/// Paints that were held back.
pub(crate) static PACER_WAITS: Counter = Counter::new();

/// The client's table. `stdout.flush` has no counterpart: the writer has no buffer of its own.
pub(crate) static METRICS: &[Metric] = &[
    ECHO_RTT.metric(),
    VT_APPLY.metric(),
    PAINT_FULL.metric(),
    PAINT_CHROME.metric(),
    PAINT_ROWS.metric(),
    PAINT_SUBMIT.metric(),
    LOOP_INPUT_WALL.metric(),
    LOOP_FRAMES_WALL.metric(),
    LOOP_BURST_FRAMES.metric(),
    Metric::counter("loop.burst_capped", Unit::Count, &LOOP_BURST_CAPPED),
    Metric::counter("frames.received", Unit::Count, &FRAMES_RECEIVED),
    Metric::counter("frames.painted", Unit::Count, &FRAMES_PAINTED),
    Metric::counter("frames.skipped", Unit::Count, &FRAMES_SKIPPED),
    Metric::counter("stdout.flushes", Unit::Count, &STDOUT_FLUSHES),
    Metric::counter("stdout.bytes", Unit::Bytes, &STDOUT_BYTES),
    Metric::counter("stdout.drops", Unit::Count, &STDOUT_DROPS),
    STDOUT_BACKLOG.metric(),
    STDOUT_QUEUE_WAIT.metric(),
    STDOUT_WRITE.metric(),
    Metric::counter("stdout.written", Unit::Bytes, &STDOUT_WRITTEN),
    Metric::counter("stdout.dropped_bytes", Unit::Bytes, &STDOUT_DROPPED_BYTES),
    Metric::counter("stdout.errors", Unit::Count, &STDOUT_ERRORS),
    Metric::counter("pacer.replies", Unit::Count, &PACER_REPLIES),
    Metric::counter("pacer.waits", Unit::Count, &PACER_WAITS),
    PACER_HOLD.metric(),
    PACER_LATE.metric(),
    Metric::gauge(
        "proc.sched_interactive",
        Unit::Count,
        &super::SCHED_INTERACTIVE,
    ),
];
