//! A recording in the formats of other tools.

mod csv;
mod flamegraph;
mod perfetto;
mod proto;
mod speedscope;
mod stacks;

pub use self::csv::csv;
pub use flamegraph::flamegraph;
pub use perfetto::perfetto;
pub use speedscope::speedscope;
pub use stacks::{Stacks, Weight, folded};
