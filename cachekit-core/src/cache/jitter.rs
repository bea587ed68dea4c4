//! Spreads the ends of entries that were written together, so that they are not all computed again at once.

use crate::ttl::Lifetime;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Jitter {
    /// From 0, exactly as asked, to below 1.
    fraction: f64,
    state: AtomicU64,
}

impl Jitter {
    pub(super) fn new(fraction: f64, seed: u64) -> Self {
        Self { fraction, state: AtomicU64::new(seed) }
    }

    /// A lifetime within the fraction around this one; for ever stays for ever.
    pub(super) fn apply(&self, lifetime: Lifetime) -> Lifetime {
        if self.fraction == 0.0 || lifetime.never_ends() {
            return lifetime;
        }
        lifetime.scaled(1.0 + self.fraction * (2.0 * self.unit() - 1.0))
    }

    /// SplitMix64, as a number from 0 to below 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn unit(&self) -> f64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
