//! Rows to files and back.

pub(crate) mod encode;
pub(crate) mod folder;
mod journal;
pub(crate) mod layout;
mod part;
mod recorder;
mod recover;
mod ring;
mod stored;
pub(crate) mod walk;
pub(crate) mod whole;
mod writer;

pub use encode::Codec;
pub use layout::RunId;
pub use recorder::{Mode, Options, Recorder, Ring, Stats};
pub use recover::{Recovered, recover};
pub use stored::{Stored, remove, stored};

/// Outcome of a recording that is not over.
pub(crate) const RUNNING: &str = "running";
/// Of one that ended as it should.
pub(crate) const FINISHED: &str = "finished";
/// Of one whose recorder was killed.
pub(crate) const KILLED: &str = "killed";
