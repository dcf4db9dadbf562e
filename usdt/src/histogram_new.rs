//! The constructors of `histogram.rs`, apart from it because they are `const` and loom's atomics
//! cannot be (see `sync.rs`).

use crate::bucket::BUCKETS;
use crate::histogram::{Buckets, Histogram};
use crate::sync::AtomicU64;

impl Buckets {
    /// Empty buckets, fit for a `static`.
    #[allow(
        clippy::new_without_default,
        reason = "4 KiB belong in a static, not in a default"
    )]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Histogram {
    /// An empty histogram, fit for a `static`.
    #[allow(
        clippy::new_without_default,
        reason = "4 KiB belong in a static, not in a default"
    )]
    pub const fn new() -> Self {
        Self {
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            buckets: Buckets::new(),
        }
    }
}
