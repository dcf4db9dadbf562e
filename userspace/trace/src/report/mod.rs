//! From findings to what a person or a program reads.

mod clock;
pub mod json;
pub mod model;
#[cfg(test)]
mod sample;
pub mod schema;
pub mod text;
pub mod units;
pub mod verdict;
mod words;
