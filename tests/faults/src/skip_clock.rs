//! The system's time, with leaps forward: what L1 holds is over, and the backend is asked.

use cachekit::{Clock, SystemClock, Tick, ticks};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock of which all copies leap together.
#[derive(Clone, Debug, Default)]
pub struct SkipClock {
    system: SystemClock,
    skipped: Arc<AtomicU64>,
}

impl SkipClock {
    /// Leaps forward.
    pub fn skip(&self, duration: Duration) {
        self.skipped.fetch_add(ticks(duration), Ordering::SeqCst);
    }
}

impl Clock for SkipClock {
    fn now(&self) -> Tick {
        self.system.now() + self.skipped.load(Ordering::SeqCst)
    }
    fn wall_millis(&self) -> u64 {
        self.system.wall_millis()
    }
}
