//! The three states by name.

use std::fmt;

/// What a circuit breaker does with the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Every call is admitted, failures are counted.
    Closed,
    /// Calls are admitted as probes while the cycle has a free slot.
    HalfOpen,
    /// Calls are rejected until the cooldown is over.
    Open,
}

impl State {
    /// All of them, in the order of their definition.
    pub const ALL: [Self; 3] = [Self::Closed, Self::HalfOpen, Self::Open];

    /// `CLOSED`, `HALF_OPEN` or `OPEN`: the label of a metric, the word in a health report.
    ///
    /// ```
    /// assert_eq!(cachekit_core::breaker::State::HalfOpen.as_str(), "HALF_OPEN");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::HalfOpen => "HALF_OPEN",
            Self::Open => "OPEN",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
