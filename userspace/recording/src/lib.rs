//! What phux-trace records: typed rows, written as a dataset of Parquet files.

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
