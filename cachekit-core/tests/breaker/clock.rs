//! A clock that only the test moves.

use cachekit_core::{Clock, Tick};
#[cfg(cachekit_loom)]
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
#[cfg(not(cachekit_loom))]
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Far from zero, so that a test sees a tick that is taken for a difference.
pub(crate) const START: Tick = 1_000_000 * 1_000_000_000;

#[derive(Debug)]
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(START))
    }

    /// Ticks are added; the clock never goes back.
    pub(crate) fn advance(&self, ticks: Tick) {
        self.0.fetch_add(ticks, SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Tick {
        self.0.load(SeqCst)
    }

    /// Half an hour ahead of the monotonic reading: whoever mixes the two is far off.
    fn wall_millis(&self) -> u64 {
        self.now() / 1_000_000 + 1_800_000
    }
}
