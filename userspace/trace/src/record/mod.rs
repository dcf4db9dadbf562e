//! One run of `record`: the system calls of a target, told as a summary, or one by one.
//!
//! [`select`] turns options into what the kernel side filters by; [`session`] records, [`run`] is the
//! command line's way to drive it; [`whole`] is what `-o` records besides; [`summary`] is what a person reads, [`json`] what a
//! program does, [`figures`] what Prometheus asks for.

mod figures;
mod json;
mod run;
mod select;
mod session;
mod summary;
mod whole;

pub(crate) use figures::Figures;
pub use run::run;
pub(crate) use run::target;
pub(crate) use select::of_families;
pub(crate) use session::{Pulse, Session, Step};
