//! From findings to what a person or a program reads.

pub mod agreement;
pub mod clock;
pub mod json;
pub mod model;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
pub(crate) mod sample_echoes;
pub mod schema;
pub mod text;
pub mod units;
pub mod verdict;
pub(crate) mod words;
