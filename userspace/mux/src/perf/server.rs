//! What the server measures about itself, hop by hop, in the order of the hot path.

use phux_perf::{Counter, Gauge, Metric, Unit, hops};

hops! {
    /// Bytes that one read of a PTY returned.
    pub(crate) static PTY_READ_SIZE: "pty.read.size", Bytes, pty__read__size;
    /// From the read until the actor took the chunk: the oldest chunk of each burst.
    pub(crate) static PTY_QUEUE_WAIT: "pty.queue_wait", Micros, pty__queue_wait;
    /// Bytes that the actor took in one go.
    pub(crate) static PTY_BURST_BYTES: "pty.burst.bytes", Bytes, pty__burst__bytes;
    /// Chunks that the actor took in one go.
    pub(crate) static PTY_BURST_CHUNKS: "pty.burst.chunks", Count, pty__burst__chunks;
    /// Parsing a burst into the screen, and answering what it asked.
    pub(crate) static PTY_VT_APPLY: "pty.vt_apply", Micros, pty__vt_apply;
    /// The part of it that parses.
    pub(crate) static PTY_VT_PARSE: "pty.vt_parse", Micros, pty__vt_parse;
    /// The part of it behind the parser: answers, title, the modes for the keys to come.
    pub(crate) static PTY_POST_APPLY: "pty.post_apply", Micros, pty__post_apply;
    /// After a burst that was cut short, until the actor has its next turn.
    pub(crate) static PTY_YIELD_WAIT: "pty.yield_wait", Micros, pty__yield_wait;
    /// From a key's bytes leaving for the PTY to the pane's next output.
    pub(crate) static ECHO_SERVER: "echo.server", Micros, echo__server;
    /// From the actor until the PTY writer took the bytes.
    pub(crate) static INPUT_WRITER_QUEUE_WAIT: "input.writer.queue_wait", Micros, input__writer__queue_wait;
    /// Writing input to the PTY.
    pub(crate) static INPUT_PTY_WRITE: "input.pty_write", Micros, input__pty_write;
    /// Waiting for a pane that has too much input in flight.
    pub(crate) static INPUT_CREDIT_WAIT: "input.credit_wait", Micros, input__credit_wait;
    /// Payload of one OUTPUT frame.
    pub(crate) static PUMP_FRAME_BYTES: "pump.frame.bytes", Bytes, pump__frame__bytes;
    /// Turning the frames of one write into bytes.
    pub(crate) static WIRE_ENCODE: "wire.encode", Micros, wire__encode;
    /// Frames in one write.
    pub(crate) static WIRE_BATCH_FRAMES: "wire.batch.frames", Count, wire__batch__frames;
    /// Writing to a client's socket.
    pub(crate) static WIRE_WRITE: "wire.write", Micros, wire__write;
    /// Bytes of one write.
    pub(crate) static WIRE_WRITE_BYTES: "wire.write.bytes", Bytes, wire__write__bytes;
    /// Carrying out a command.
    pub(crate) static CMD_HANDLE: "cmd.handle", Micros, cmd__handle;
    /// Turning a screen into the bytes that bring a client up to date.
    pub(crate) static BOOTSTRAP_SYNTH: "bootstrap.synth", Micros, bootstrap__synth;
    /// From ATTACH to ATTACH_READY in the client's mailbox.
    pub(crate) static ATTACH_HANDLE: "attach.handle", Micros, attach__handle;
}

/// Bytes read from PTYs.
pub(crate) static PTY_READ_BYTES: Counter = Counter::new();
/// A PTY reader found its actor's queue full.
pub(crate) static PTY_READER_BLOCKED: Counter = Counter::new();
/// Input events that reached an actor.
pub(crate) static INPUT_EVENTS: Counter = Counter::new();
/// A PTY writer's queue was full: the child does not read.
pub(crate) static INPUT_WRITER_FULL: Counter = Counter::new();
/// An input event had to wait for the pane.
pub(crate) static INPUT_CREDIT_WAITS: Counter = Counter::new();
/// An input event was dropped after such a wait.
pub(crate) static INPUT_CREDIT_TIMEOUTS: Counter = Counter::new();
/// A client's mailbox had no room for a frame: the pump had to wait.
pub(crate) static CONSUMER_MAILBOX_FULL: Counter = Counter::new();
/// OUTPUT frames made.
pub(crate) static PUMP_FRAMES: Counter = Counter::new();
/// Bytes in them.
pub(crate) static PUMP_BYTES: Counter = Counter::new();
/// A pump fell behind the ring and lost output.
pub(crate) static PUMP_LAGGED: Counter = Counter::new();
/// A client was brought up to date from the screen after that.
pub(crate) static PUMP_GAP_RESYNC: Counter = Counter::new();
/// Bytes written to clients.
pub(crate) static WIRE_BYTES_OUT: Counter = Counter::new();
/// Connections.
pub(crate) static PROC_CLIENTS: Gauge = Gauge::new();
/// Panes.
pub(crate) static PROC_PANES: Gauge = Gauge::new();
/// Sessions.
pub(crate) static PROC_SESSIONS: Gauge = Gauge::new();

/// The server's table. `tick.*`, `consumer.reaped` and `consumer.ack_rtt` have no counterpart: they
/// belong to the state-sync profile, and this server sends every client the raw stream, which is
/// not acknowledged.
pub(crate) static METRICS: &[Metric] = &[
    PTY_READ_SIZE.metric(),
    Metric::counter("pty.read.bytes", Unit::Bytes, &PTY_READ_BYTES),
    Metric::counter("pty.reader.blocked", Unit::Count, &PTY_READER_BLOCKED),
    PTY_QUEUE_WAIT.metric(),
    PTY_BURST_BYTES.metric(),
    PTY_BURST_CHUNKS.metric(),
    PTY_VT_APPLY.metric(),
    PTY_VT_PARSE.metric(),
    PTY_POST_APPLY.metric(),
    PTY_YIELD_WAIT.metric(),
    ECHO_SERVER.metric(),
    Metric::counter("input.events", Unit::Count, &INPUT_EVENTS),
    INPUT_PTY_WRITE.metric(),
    INPUT_WRITER_QUEUE_WAIT.metric(),
    Metric::counter("input.writer.full", Unit::Count, &INPUT_WRITER_FULL),
    Metric::counter("input.credit_waits", Unit::Count, &INPUT_CREDIT_WAITS),
    INPUT_CREDIT_WAIT.metric(),
    Metric::counter("input.credit_timeouts", Unit::Count, &INPUT_CREDIT_TIMEOUTS),
    Metric::counter("consumer.mailbox_full", Unit::Count, &CONSUMER_MAILBOX_FULL),
    Metric::counter("pump.frames", Unit::Count, &PUMP_FRAMES),
    Metric::counter("pump.bytes", Unit::Bytes, &PUMP_BYTES),
    PUMP_FRAME_BYTES.metric(),
    Metric::counter("pump.lagged", Unit::Count, &PUMP_LAGGED),
    Metric::counter("pump.gap_resync", Unit::Count, &PUMP_GAP_RESYNC),
    WIRE_ENCODE.metric(),
    WIRE_BATCH_FRAMES.metric(),
    WIRE_WRITE.metric(),
    WIRE_WRITE_BYTES.metric(),
    Metric::counter("wire.bytes_out", Unit::Bytes, &WIRE_BYTES_OUT),
    CMD_HANDLE.metric(),
    ATTACH_HANDLE.metric(),
    BOOTSTRAP_SYNTH.metric(),
    Metric::gauge("proc.clients", Unit::Count, &PROC_CLIENTS),
    Metric::gauge("proc.panes", Unit::Count, &PROC_PANES),
    Metric::gauge("proc.sessions", Unit::Count, &PROC_SESSIONS),
    Metric::gauge(
        "proc.sched_interactive",
        Unit::Count,
        &super::SCHED_INTERACTIVE,
    ),
];
