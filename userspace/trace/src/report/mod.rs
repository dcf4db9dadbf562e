//! From findings to what a person or a program reads.

pub mod model;
