//! Small values that backend methods take and return.

use std::time::Duration;

/// How to store an entry. `SetOptions::default()` keeps it for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SetOptions {
    /// How long the entry lives; `None`: until it is deleted or evicted. Never zero.
    pub ttl: Option<Duration>,
}

impl SetOptions {
    /// Lives for this long; `None`: until it is deleted or evicted.
    #[must_use]
    pub const fn with_ttl(mut self, ttl: Option<Duration>) -> Self {
        self.ttl = ttl;
        self
    }
}

/// What [`Backend::ttl`](crate::Backend::ttl) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TtlState {
    /// No such entry.
    Missing,
    /// The entry has no end.
    NoExpiry,
    /// The entry lives for this much longer.
    Remaining(Duration),
}

/// What [`Backend::health`](crate::Backend::health) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackendHealth {
    /// How long the round trip took.
    pub latency: Duration,
    /// What else the backend tells about itself: a version, a role, the nodes that are out. No secrets.
    pub details: Vec<(String, String)>,
}

impl BackendHealth {
    /// A backend that answered after `latency`.
    #[must_use]
    pub const fn new(latency: Duration) -> Self {
        Self { latency, details: Vec::new() }
    }

    /// Adds a detail.
    #[must_use]
    pub fn with_detail(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.details.push((name.into(), value.into()));
        self
    }
}
