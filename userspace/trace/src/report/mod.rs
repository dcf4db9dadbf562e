//! From findings to what a person or a program reads.

pub mod agreement;
pub mod clock;
pub mod json;
pub mod model;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod sample_echoes;
pub mod schema;
pub mod text;
pub mod units;
pub mod verdict;
mod words;
