//! SQL.
fn main() {}
