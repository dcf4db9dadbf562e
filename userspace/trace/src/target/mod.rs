//! Who is traced: processes, their threads and roles, their PTYs with both ends, their USDT probes.
//!
//! Everything here is read from `/proc` and from files; nothing attaches, opens a
//! terminal, signals or stops. Processes may vanish between any two reads: what
//! vanished is left out, it is never an error of the whole.

pub mod binary;
pub mod multiplexer;
pub mod notes;
pub mod operand;
pub mod proc;
pub mod pty;
pub mod resolve;
pub mod role;
pub mod survey;
pub mod users;

pub use proc::{Process, Thread};
pub use pty::{Holder, Pty};
pub use resolve::{Ask, Invoker, ResolveError, Target, resolve};
pub use survey::Survey;
