//! What phux-trace records: typed rows, written as a dataset of Parquet files that survives `kill -9`,
//! read back, compared and exported. Depends on no other part of the profiler.
//!
//! ```no_run
//! use std::path::Path;
//! use phux_recording::{Dataset, Name, Options, Recorder, Run, Syscall};
//!
//! # fn main() -> Result<(), phux_recording::Error> {
//! let dir = Path::new("recording");
//! let run = Run { hostname: "here".into(), ts: 1, unix_ns: 1_773_396_000_000_000_000, ..Run::default() };
//! let recorder = Recorder::create(dir, run, Options::default())?;
//! recorder.push(Syscall { ts: 5, dur: 3, name: Name::fixed("read"), ..Syscall::default() })?;
//! recorder.finish()?;
//!
//! let dataset = Dataset::open(dir)?;
//! let (id, _) = dataset.latest()?;
//! for row in dataset.replay(id)? {
//!     println!("{:?}", row?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Times are ns of CLOCK_MONOTONIC, of the machine that recorded; the row of table `run` has both clocks at
//! its `ts`. Rows of spans carry their beginning (`ts`) and length (`dur`), also where the kernel told
//! of them at their end: `ts + dur` is then the moment of the event.

mod dataset;
pub mod diff;
mod error;
pub mod export;
mod rows;
mod store;
mod text;

pub use dataset::{Dataset, Replay, Rows};
pub use error::Error;
pub use rows::*;
pub use store::*;
