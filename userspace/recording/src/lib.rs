//! What phux-trace records: typed rows, written as a dataset of Parquet files.

mod error;
mod rows;

pub use error::Error;
pub use rows::*;
