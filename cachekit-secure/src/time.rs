//! The wall time, which an entry's header is made of.

use cachekit_core::Clock;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The operating system's time, or that of a clock that a test moves.
#[derive(Clone, Default)]
pub(crate) struct Time(Option<Arc<dyn Clock>>);

impl Time {
    pub(crate) fn of(clock: Arc<dyn Clock>) -> Self {
        Self(Some(clock))
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn now(&self) -> u64 {
        match &self.0 {
            Some(clock) => clock.wall_millis(),
            None => millis(since_epoch()),
        }
    }

    /// Now, and the millisecond from which something that is to live for `ttl` must be gone. That is rounded up, since
    /// an entry lives for its time at least; for ever is `u64::MAX`.
    pub(crate) fn now_and_end(&self, ttl: Option<Duration>) -> (u64, u64) {
        let since_epoch = match &self.0 {
            Some(clock) => Duration::from_millis(clock.wall_millis()),
            None => since_epoch(),
        };
        // Less than a millisecond counts as one.
        let end = ttl.map(|ttl| since_epoch.checked_add(ttl.max(Duration::from_millis(1))));
        let end = end.flatten().map_or(u64::MAX, |end| {
            let part = u64::from(end.subsec_nanos() % 1_000_000 != 0);
            millis(end).saturating_add(part)
        });
        (millis(since_epoch), end)
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
