//! Names that no other caller gets, in this process or in any before it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A random start, so that no run repeats the names of an earlier one, and a count.
#[derive(Debug)]
pub(crate) struct Unique {
    run: u64,
    count: AtomicU64,
}

impl Unique {
    pub(crate) fn new() -> Self {
        // The standard library seeds it from the operating system's random numbers.
        Self { run: RandomState::new().build_hasher().finish(), count: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> [u8; 16] {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        ((u128::from(self.run) << 64) | u128::from(count)).to_be_bytes()
    }

    /// Whether this run gave the name out, or will.
    pub(crate) fn is_of_this_run(&self, name: &[u8; 16]) -> bool {
        name.starts_with(&self.run.to_be_bytes())
    }
}
