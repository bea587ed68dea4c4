//! What a backend declares about itself.

use std::time::Duration;

/// Who a lock of the backend keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockScope {
    /// Everyone who uses the same store.
    Global,
    /// Only callers in this process.
    Process,
}

/// What a backend can do, and its limits. Everything optional starts as "no".
///
/// The conformance kit tests each bit both ways: a declared ability has to work, and one that is not declared has to
/// answer [`Unsupported`](crate::ErrorKind::Unsupported).
///
/// ```
/// use cachekit_core::Capabilities;
/// use std::time::Duration;
///
/// let capabilities = Capabilities::new()
///     .with_clear(true)
///     .with_max_value_bytes(1 << 20)
///     .with_ttl_slack(Duration::from_secs(2));
/// assert!(capabilities.clear() && !capabilities.touch());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    batch: bool,
    clear: bool,
    lock: Option<LockScope>,
    max_value_bytes: usize,
    min_lock_ttl: Duration,
    persistent: bool,
    publish: bool,
    touch: bool,
    track: bool,
    ttl: bool,
    ttl_slack: Duration,
}

impl Capabilities {
    /// A store of at most 1 MiB per value with a TTL slack of 1 ms, no optional ability.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            batch: false,
            clear: false,
            lock: None,
            max_value_bytes: 1 << 20,
            min_lock_ttl: Duration::from_millis(100),
            persistent: false,
            publish: false,
            touch: false,
            track: false,
            ttl: false,
            ttl_slack: Duration::from_millis(1),
        }
    }

    /// Whether `get_many`, `set_many` and `delete_many` take fewer round trips than a loop.
    #[must_use]
    pub const fn batch(&self) -> bool {
        self.batch
    }

    /// Whether [`clear`](crate::Backend::clear) works.
    #[must_use]
    pub const fn clear(&self) -> bool {
        self.clear
    }

    /// Whom a lock keeps out; `None`: no locks.
    #[must_use]
    pub const fn lock(&self) -> Option<LockScope> {
        self.lock
    }

    /// The largest value it stores, in bytes; a larger one is [`TooLarge`](crate::ErrorKind::TooLarge).
    #[must_use]
    pub const fn max_value_bytes(&self) -> usize {
        self.max_value_bytes
    }

    /// The shortest time to live of a lock; a shorter one is [`TtlInvalid`](crate::ErrorKind::TtlInvalid).
    #[must_use]
    pub const fn min_lock_ttl(&self) -> Duration {
        self.min_lock_ttl
    }

    /// Whether entries outlive the process that wrote them.
    #[must_use]
    pub const fn persistent(&self) -> bool {
        self.persistent
    }

    /// Whether [`publish`](crate::Backend::publish) and [`subscribe`](crate::Backend::subscribe) work.
    #[must_use]
    pub const fn publish(&self) -> bool {
        self.publish
    }

    /// Whether [`touch`](crate::Backend::touch) works.
    #[must_use]
    pub const fn touch(&self) -> bool {
        self.touch
    }

    /// Whether [`track`](crate::Backend::track) works.
    #[must_use]
    pub const fn track(&self) -> bool {
        self.track
    }

    /// Whether [`ttl`](crate::Backend::ttl) works.
    #[must_use]
    pub const fn ttl(&self) -> bool {
        self.ttl
    }

    /// How long past its time to live an entry may still be returned.
    #[must_use]
    pub const fn ttl_slack(&self) -> Duration {
        self.ttl_slack
    }

    /// Sets [`batch`](Self::batch).
    #[must_use]
    pub const fn with_batch(mut self, batch: bool) -> Self {
        self.batch = batch;
        self
    }

    /// Sets [`clear`](Self::clear).
    #[must_use]
    pub const fn with_clear(mut self, clear: bool) -> Self {
        self.clear = clear;
        self
    }

    /// Sets [`lock`](Self::lock).
    #[must_use]
    pub const fn with_lock(mut self, lock: Option<LockScope>) -> Self {
        self.lock = lock;
        self
    }

    /// Sets [`max_value_bytes`](Self::max_value_bytes).
    #[must_use]
    pub const fn with_max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// Sets [`min_lock_ttl`](Self::min_lock_ttl).
    #[must_use]
    pub const fn with_min_lock_ttl(mut self, ttl: Duration) -> Self {
        self.min_lock_ttl = ttl;
        self
    }

    /// Sets [`persistent`](Self::persistent).
    #[must_use]
    pub const fn with_persistent(mut self, persistent: bool) -> Self {
        self.persistent = persistent;
        self
    }

    /// Sets [`publish`](Self::publish).
    #[must_use]
    pub const fn with_publish(mut self, publish: bool) -> Self {
        self.publish = publish;
        self
    }

    /// Sets [`touch`](Self::touch).
    #[must_use]
    pub const fn with_touch(mut self, touch: bool) -> Self {
        self.touch = touch;
        self
    }

    /// Sets [`track`](Self::track).
    #[must_use]
    pub const fn with_track(mut self, track: bool) -> Self {
        self.track = track;
        self
    }

    /// Sets [`ttl`](Self::ttl).
    #[must_use]
    pub const fn with_ttl(mut self, ttl: bool) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets [`ttl_slack`](Self::ttl_slack).
    #[must_use]
    pub const fn with_ttl_slack(mut self, slack: Duration) -> Self {
        self.ttl_slack = slack;
        self
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        Self::new()
    }
}
