//! One keystroke through every process that it passes: the causal chain, from kernel events alone.
//!
//! `model` is what a chain is; the rest makes chains from [`crate::source::Event`]s:
//!
//! - `follower` takes events as they come and gives chains as they end;
//! - `history` keeps the last seconds of every thread, PTY and socket: `timeline` where a thread's time
//!   went, `flow` which read took which written bytes;
//! - `outbound` follows an input from the write to the master to the answer, `inbound` goes back from
//!   that write to the key, `threads` goes through the threads of one program;
//! - `way` becomes the chain; `confirm` holds it against a phux's own sequence numbers.
//!
//! # Which rule ends a chain
//! The limit counts from the write to the master.
//! - The answer is on a client's terminal, or read from the master where the input came from no
//!   client: `Echoed`. An answer is the kernel's own echo, else the first write to the slave by the
//!   thread that has read the input, or by one that it woke.
//! - The program slept and read again, or the kernel kept the bytes, without an answer: `Silent`.
//! - At the limit: nobody has read it, `Unread`; no answer, `Late`; an answer that is not on a
//!   client's terminal, `Undelivered`; but where records were lost meanwhile, `Lost`.
//! - The run has ended before: `Open`.
//!
//! # What makes a chain inexact
//! Older output was unread when the answer was written; a thread passed something on to one that was
//! awake already; several keys came in one receive; records were lost. Everything else is told by byte
//! positions, wake-ups and work items.

mod confirm;
mod flow;
mod follower;
mod history;
mod inbound;
pub mod model;
mod outbound;
pub mod rows;
pub mod summary;
#[cfg(test)]
pub(crate) mod synthetic;
pub mod syscalls;
#[cfg(test)]
mod tests;
mod threads;
mod timeline;
mod way;

pub use follower::{Config, Counts, Follower};
pub use model::{Actor, BlockedOn, Chain, End, Link, LinkKind, Parts, Role};
pub use rows::Names;
pub use summary::Summary;
