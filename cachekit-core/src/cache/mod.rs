//! The cache: an L1, an optional L2, and what keeps the two honest.

mod activity;
mod builder;
mod close;
mod compute;
mod envelope;
mod error;
mod events;
mod flight;
mod jitter;
mod outcome;
mod place;
mod read;
mod reentry;
mod remove;
mod report;
mod store;
mod tracking;
mod unsynced;
mod write;

pub use builder::CacheBuilder;
pub use error::{CallError, Error};
pub(crate) use events::{Events, Totals};
pub use outcome::{Fetched, Reason, Source, Stored};

use crate::breaker::CircuitBreaker;
use crate::clock::{Clock, Tick, ticks};
use crate::codec::Encoding;
use crate::key::{Key, Scope};
use crate::l1::{Displaced, L1};
use crate::l2::L2;
use crate::seal::Sealer;
use crate::timer;
use crate::ttl::{Lifetime, Ttl};
use activity::Activity;
use jitter::Jitter;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
pub(crate) use tracking::{Listening, Tracking};
use unsynced::Unsynced;

/// What a value needs to be cached: `serde` to reach the backend, and to be cheap to clone out of L1. Put a large value
/// behind an `Arc` (serde's feature `rc`): then a hit costs the same whatever its size.
pub trait Cacheable: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cacheable for V {}

/// A two-tier cache: an in-process L1 in front of an optional backend, the L2.
///
/// Cheap to clone; all clones are the same cache. Whatever happens to the backend, a read is at worst a miss and a
/// computed value always reaches its caller; see the table in the crate's README.
///
/// ```
/// use cachekit_core::Cache;
///
/// # async fn load_from_database(id: u32) -> Result<String, std::io::Error> { Ok(format!("user {id}")) }
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let cache = Cache::builder("users").build()?;
/// for _ in 0..2 {
///     // The second time, the function does not run.
///     let user: String = cache.get_or_compute("42", || load_from_database(42)).await?;
///     assert_eq!(user, "user 42");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Keys
///
/// A key is any non-empty text without control characters, at most 1,024 bytes together with its namespace; another one
/// is [`KeyInvalid`](crate::ErrorKind::KeyInvalid). The backend stores it as `{namespace}:{key}`.
///
/// # Runtimes
///
/// An L1-only cache runs under any executor. A cache with a backend needs a Tokio runtime with timers around each call
/// that L1 does not answer; without one, the call is [`ConfigInvalid`](crate::ErrorKind::ConfigInvalid).
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
    scope: Scope,
    ttl: Lifetime,
}

struct Shared {
    l1: Option<Arc<L1>>,
    /// Before the L2, which would tell of the end of its reports when it is dropped.
    tracking: Option<Arc<Tracking>>,
    l2: Option<L2>,
    activity: Arc<Activity>,
    unsynced: Unsynced,
    events: Arc<Events>,
    breaker: Arc<CircuitBreaker>,
    clock: Arc<dyn Clock>,
    encoding: Encoding,
    sealer: Option<Arc<dyn Sealer>>,
    schema_version: u32,
    max_value_bytes: usize,
    jitter: Jitter,
    negative_ttl: Option<Lifetime>,
    l1_max_ttl: Option<Duration>,
    l1_during_outage: bool,
    flight_wait: Duration,
    /// In milliseconds: after this long, nothing that this process ever wrote or read is left in the L2.
    longest_ttl: AtomicU64,
    /// The newest wall time that this process put into an entry.
    latest_written_at: AtomicU64,
    closed: AtomicBool,
}

impl Cache {
    /// Starts to set up a cache of this namespace: 1 to 64 letters, digits, `.`, `_` and `-`.
    pub fn builder(namespace: &str) -> CacheBuilder {
        CacheBuilder::new(namespace)
    }

    /// The same cache, storing under `{namespace}@{tenant}:{key}`: no tenant sees another's entries, and all share the
    /// bounds, the backend and the breaker.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](crate::ErrorKind::ConfigInvalid) when the tenant is not spelled like a namespace.
    pub fn for_tenant(&self, tenant: &str) -> Result<Self, Error> {
        Ok(Self { scope: self.scope.for_tenant(tenant)?, ..self.clone() })
    }

    /// The same cache with another default time to live.
    ///
    /// # Errors
    ///
    /// [`TtlInvalid`](crate::ErrorKind::TtlInvalid) when it is zero.
    pub fn with_ttl(&self, ttl: impl Into<Ttl>) -> Result<Self, Error> {
        let ttl = Lifetime::parse(ttl.into())?.unwrap_or(self.ttl);
        Ok(Self { ttl, ..self.clone() })
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.scope.namespace()
    }

    /// The circuit breaker between this cache and its backend. An L1-only cache has one too, which is never asked.
    #[must_use]
    pub fn breaker(&self) -> &CircuitBreaker {
        &self.shared.breaker
    }

    /// Takes every expired entry out of L1 now, and returns how many there were.
    ///
    /// Nobody has to call it: an expired entry is never served, each write takes away up to 16, and a sweep every 30 s
    /// the rest.
    pub fn remove_expired(&self) -> usize {
        self.shared.l1.as_ref().map_or(0, |l1| l1.remove_all_expired())
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No key, no value: what is in progress and in L1 is left out.
        f.debug_struct("Cache")
            .field("namespace", &self.namespace())
            .field("tenant", &self.scope.tenant())
            .field("backend", &self.shared.l2.as_ref().map(L2::backend_name))
            .field("breaker", &self.shared.breaker.state())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// The L2 of a call that L1 did not answer; `None` in an L1-only cache.
    fn l2(&self) -> Result<Option<&L2>, Error> {
        let Some(l2) = &self.l2 else { return Ok(None) };
        // Before the breaker is asked: a missing runtime says nothing about the backend.
        drop(timer::sleep(Duration::ZERO)?);
        Ok(Some(l2))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn remove_from_l1(&self, key: &Key) -> Displaced {
        self.l1.as_ref().map_or_else(Displaced::new, |l1| l1.remove(key))
    }

    /// Something lives for so many milliseconds from now.
    fn outlives(&self, millis: u64) {
        // Read first: a write would pull the line to this core at every call.
        if self.longest_ttl.load(Ordering::Relaxed) < millis {
            self.longest_ttl.fetch_max(millis, Ordering::Relaxed);
        }
    }

    /// After this tick, nothing that this process wrote before is left in the L2.
    fn all_gone_at(&self) -> Tick {
        let longest = Duration::from_millis(self.longest_ttl.load(Ordering::Relaxed));
        self.clock.now().saturating_add(ticks(longest))
    }

    fn mark_unsynced(&self, key: &Key) {
        if self.unsynced.mark(key, self.all_gone_at()) {
            self.events.unsynced_dropped();
        }
    }
}
