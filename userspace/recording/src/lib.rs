//! What phux-trace records: typed rows, written as a dataset of Parquet files.

mod dataset;
mod error;
mod rows;
mod store;

pub use dataset::{Dataset, Replay, Rows};
pub use error::Error;
pub use rows::*;
pub use store::*;
