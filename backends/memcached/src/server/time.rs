//! How much time is left.

use std::time::{Duration, Instant};

/// How long something may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    /// When what is looked at began, which may be later than the whole.
    pub(super) now: Instant,
    pub(super) end: Instant,
    /// That of the whole.
    pub(super) budget: Duration,
}

impl Time {
    pub(crate) fn new(now: Instant, budget: Duration) -> Self {
        Self { now, end: now + budget, budget }
    }

    pub(crate) fn later(self) -> Self {
        Self { now: Instant::now(), ..self }
    }

    /// Whether it has taken so long that a caller who gives up, or gets no answer, says something about the server.
    pub(super) fn is_long(&self) -> bool {
        self.now.elapsed() >= self.budget / 2
    }
}
