//! Who is traced: processes, their threads and roles, their PTYs with both ends, their USDT probes.
//!
//! Everything here is read from `/proc` and from files; nothing attaches, opens a
//! terminal, signals or stops. Processes may vanish between any two reads: what
//! vanished is left out, it is never an error of the whole.

pub mod account;
pub mod binary;
pub mod listening;
pub mod multiplexer;
pub mod notes;
pub mod operand;
pub mod proc;
pub mod pty;
pub mod resolve;
pub mod role;
pub mod survey;
pub mod unresolved;
pub mod users;

pub use proc::{Process, Thread};
pub use pty::{Holder, Pty};
pub use resolve::{Ask, Invoker, Target, owner, resolve};
pub use survey::Survey;
pub use unresolved::ResolveError;
