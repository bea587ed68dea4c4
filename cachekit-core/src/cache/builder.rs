//! How a cache is set up.

use super::activity::Activity;
use super::events::Events;
use super::jitter::Jitter;
use super::tracking::Tracking;
use super::unsynced::Unsynced;
use super::{Cache, Error, Shared};
use crate::breaker::{BreakerConfig, CircuitBreaker, ConfigError};
use crate::clock::{Clock, SystemClock};
use crate::codec::{Codec, Encoding};
use crate::key::Scope;
use crate::l1::{L1, Limits};
use crate::l2::L2;
use crate::seal::Sealer;
use crate::ttl::{Lifetime, Ttl};
use crate::{BackendFactory, ErrorKind};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Sets up a [`Cache`]. Every setting has a default, and all are checked in [`build`](Self::build), which contacts
/// nothing.
///
/// ```
/// use cachekit_core::Cache;
/// use std::time::Duration;
///
/// let cache = Cache::builder("users").default_ttl(Duration::from_secs(300)).max_bytes(16 << 20).build()?;
/// # Ok::<(), cachekit_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `build`"]
pub struct CacheBuilder {
    namespace: String,
    factory: Option<Arc<dyn BackendFactory>>,
    with_l1: bool,
    default_ttl: Ttl,
    negative_ttl: Option<Ttl>,
    ttl_jitter: f64,
    ttl_jitter_seed: Option<u64>,
    l1_max_ttl: Option<Duration>,
    max_bytes: u64,
    max_entries: u64,
    max_value_bytes: usize,
    encoding: Encoding,
    sealer: Option<Arc<dyn Sealer>>,
    schema_version: u32,
    breaker: BreakerConfig,
    shared_breaker: Option<Arc<CircuitBreaker>>,
    build_timeout: Duration,
    operation_timeout: Duration,
    flight_wait: Duration,
    l1_during_outage: bool,
    track_changes: bool,
    untracked_l1_ttl: Duration,
    clock: Arc<dyn Clock>,
}

impl CacheBuilder {
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            factory: None,
            with_l1: true,
            default_ttl: Ttl::For(Duration::from_secs(300)),
            negative_ttl: None,
            ttl_jitter: 0.0,
            ttl_jitter_seed: None,
            l1_max_ttl: None,
            max_bytes: 64 << 20,
            max_entries: 100_000,
            max_value_bytes: 4 << 20,
            encoding: Encoding::default(),
            sealer: None,
            schema_version: 0,
            breaker: BreakerConfig::new(),
            shared_breaker: None,
            build_timeout: Duration::from_secs(5),
            operation_timeout: Duration::from_millis(500),
            flight_wait: Duration::from_secs(10),
            l1_during_outage: false,
            track_changes: false,
            untracked_l1_ttl: Duration::from_secs(1),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// The L2: built on the first call that needs it. Default: none, the cache is L1-only.
    pub fn backend(mut self, factory: impl BackendFactory) -> Self {
        self.factory = Some(Arc::new(factory));
        self
    }

    /// No L1: every read asks the backend. Default: with L1.
    pub fn without_l1(mut self) -> Self {
        self.with_l1 = false;
        self
    }

    /// How long an entry lives when the call does not say. Default: 5 minutes.
    pub fn default_ttl(mut self, ttl: impl Into<Ttl>) -> Self {
        self.default_ttl = ttl.into();
        self
    }

    /// How long [`get_or_compute_opt`](Cache::get_or_compute_opt) remembers that there is nothing. Default: not at all.
    pub fn negative_ttl(mut self, ttl: impl Into<Ttl>) -> Self {
        self.negative_ttl = Some(ttl.into());
        self
    }

    /// Spreads times to live by up to this fraction in both directions, in both tiers: with 0.1, what is asked to live for
    /// 100 s lives for 90 to 110 s. So what was written together is not computed again together. Default: 0.
    pub fn ttl_jitter(mut self, fraction: f64) -> Self {
        self.ttl_jitter = fraction;
        self
    }

    /// Makes the spread of [`ttl_jitter`](Self::ttl_jitter) the same in every run. Default: a different one each time.
    pub fn ttl_jitter_seed(mut self, seed: u64) -> Self {
        self.ttl_jitter_seed = Some(seed);
        self
    }

    /// The longest that L1 keeps an entry, which bounds how long this process misses what another one changed.
    /// Default: as long as the entry lives.
    pub fn l1_max_ttl(mut self, ttl: Duration) -> Self {
        self.l1_max_ttl = Some(ttl);
        self
    }

    /// What L1 may weigh, in bytes. An entry weighs its encoded length, its key and 64. Default: 64 MiB.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How many entries L1 may hold. Default: 100,000. One capacity serves both bounds: an entry takes up at least
    /// `max_bytes / max_entries`.
    pub fn max_entries(mut self, entries: u64) -> Self {
        self.max_entries = entries;
        self
    }

    /// The largest entry that any tier holds, in bytes as stored (44 more than the encoded value). A larger value is
    /// returned to its caller and stored nowhere. Default: 4 MiB.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// A wire format of your own. Default: MessagePack with named fields.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.encoding = Encoding::Custom(Arc::new(codec));
        self
    }

    /// JSON as the wire format.
    #[cfg(feature = "json")]
    pub fn json(mut self) -> Self {
        self.encoding = Encoding::Json;
        self
    }

    /// Seals every entry before it reaches a tier, L1 included. Of use through `secure(..)` of `cachekit-secure`, which
    /// has a sealer. Default: none, entries are plain.
    pub fn sealer(mut self, sealer: Arc<dyn Sealer>) -> Self {
        self.sealer = Some(sealer);
        self
    }

    /// The version of your types. An entry written under another one is a miss: change it together with a type whose
    /// old bytes must not be read. Default: 0.
    pub fn schema_version(mut self, version: u32) -> Self {
        self.schema_version = version;
        self
    }

    /// The circuit breaker between the cache and its backend. Default: on; see [`BreakerConfig`].
    pub fn breaker(mut self, config: BreakerConfig) -> Self {
        self.breaker = config;
        self
    }

    /// One circuit breaker for several caches on one backend. It has its own configuration, clock and name.
    pub fn shared_breaker(mut self, breaker: Arc<CircuitBreaker>) -> Self {
        self.shared_breaker = Some(breaker);
        self
    }

    /// What one attempt to build the backend may take. Default: 5 s.
    pub fn build_timeout(mut self, timeout: Duration) -> Self {
        self.build_timeout = timeout;
        self
    }

    /// What the backend's part of one call may take: all its operations together. A value adds a second for every
    /// 50 MB. Default: 500 ms.
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// How long a caller waits for another one that computes the same key, before it computes itself. Default: 10 s.
    pub fn flight_wait(mut self, wait: Duration) -> Self {
        self.flight_wait = wait;
        self
    }

    /// Whether L1 is also filled while the backend cannot be built or the circuit is open. Default: no, so that
    /// everything this process serves is what the backend was told too.
    pub fn l1_during_outage(mut self, fill: bool) -> Self {
        self.l1_during_outage = fill;
        self
    }

    /// Whether L1 follows what other processes write, where the backend reports it (Redis does, but for a cluster): an
    /// entry that somebody else sets or deletes leaves this L1 at once. When the reports stop, L1 is dropped, and what it
    /// is given until they are back lives for [`untracked_l1_ttl`](Self::untracked_l1_ttl). A backend that reports no
    /// changes counts as one that cannot be built. Default: no, so that an entry may be as old as
    /// [`l1_max_ttl`](Self::l1_max_ttl).
    pub fn track_changes(mut self, track: bool) -> Self {
        self.track_changes = track;
        self
    }

    /// With [`track_changes`](Self::track_changes): how long L1 keeps what it is given while changes go unreported. Zero:
    /// it keeps nothing. Default: 1 s.
    pub fn untracked_l1_ttl(mut self, ttl: Duration) -> Self {
        self.untracked_l1_ttl = ttl;
        self
    }

    /// Where the cache reads the time; tests move it. Default: [`SystemClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Checks all settings.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) names the setting that is wrong;
    /// [`TtlInvalid`](ErrorKind::TtlInvalid) a time to live of zero.
    pub fn build(self) -> Result<Cache, Error> {
        let scope = Scope::of_namespace(&self.namespace)?;
        self.check()?;
        let default_ttl = Lifetime::parse(self.default_ttl)?
            .ok_or_else(|| invalid("default_ttl", "is `Ttl::Default`, which would mean itself"))?;
        let negative_ttl = match self.negative_ttl {
            Some(ttl) => Some(Lifetime::parse(ttl)?.unwrap_or(default_ttl)),
            None => None,
        };
        self.breaker.validate().map_err(breaker_invalid)?;
        let breaker = match self.shared_breaker {
            Some(breaker) => breaker,
            None => Arc::new(
                CircuitBreaker::builder(self.breaker)
                    .clock(Arc::clone(&self.clock))
                    .namespace(&self.namespace)
                    .build()
                    .map_err(breaker_invalid)?,
            ),
        };
        if self.sealer.is_none() {
            warn_of_an_unused_key();
        }
        for warning in breaker.config().warnings(self.build_timeout) {
            tracing::warn!(namespace = self.namespace, "{warning}");
        }
        let limits = Limits {
            max_bytes: self.max_bytes,
            max_entries: self.max_entries,
            max_entry_bytes: self.max_value_bytes as u64,
        };
        let l1 = self.with_l1.then(|| L1::new(limits, Arc::clone(&self.clock))).transpose()?;
        let events = Arc::new(Events::new(&self.namespace));
        let activity = Arc::new(Activity::new());
        let tracking = l1.as_ref().filter(|_| self.track_changes).map(|l1| {
            let (l1, activity, events) = (Arc::clone(l1), Arc::clone(&activity), Arc::clone(&events));
            Arc::new(Tracking::new(scope.clone(), l1, activity, events, self.untracked_l1_ttl))
        });
        let l2 = self.factory.map(|factory| {
            let (breaker, events, tracking) = (Arc::clone(&breaker), Arc::clone(&events), tracking.clone());
            L2::new(factory, breaker, events, tracking, self.build_timeout, self.operation_timeout)
        });
        let seed = self.ttl_jitter_seed.unwrap_or_else(|| RandomState::new().hash_one(0_u64));
        let shared = Shared {
            l1,
            l2,
            activity,
            tracking,
            unsynced: Unsynced::new(),
            events,
            breaker,
            clock: self.clock,
            encoding: self.encoding,
            sealer: self.sealer,
            schema_version: self.schema_version,
            max_value_bytes: self.max_value_bytes,
            jitter: Jitter::new(self.ttl_jitter, seed),
            negative_ttl,
            l1_max_ttl: self.l1_max_ttl,
            l1_during_outage: self.l1_during_outage,
            flight_wait: self.flight_wait,
            longest_ttl: AtomicU64::new(default_ttl.millis()),
            latest_written_at: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        };
        Ok(Cache { shared: Arc::new(shared), scope, ttl: default_ttl })
    }

    fn check(&self) -> Result<(), Error> {
        let format = self.encoding.format();
        if matches!(self.encoding, Encoding::Custom(_)) && format < 128 {
            return Err(invalid("codec", &format!("has format {format}; those of your own are 128 to 255")));
        }
        if !self.with_l1 && self.factory.is_none() {
            return Err(invalid("without_l1", "leaves no tier: there is no backend either"));
        }
        if self.track_changes && (!self.with_l1 || self.factory.is_none()) {
            return Err(invalid("track_changes", "keeps L1 in step with a backend, and one of the two is missing"));
        }
        if self.max_entries == 0 {
            return Err(invalid("max_entries", "is zero; use `without_l1` for a cache without L1"));
        }
        if self.max_bytes == 0 {
            return Err(invalid("max_bytes", "is zero; use `without_l1` for a cache without L1"));
        }
        if self.max_value_bytes == 0 {
            return Err(invalid("max_value_bytes", "is zero"));
        }
        if !(0.0..1.0).contains(&self.ttl_jitter) {
            return Err(invalid("ttl_jitter", "is a fraction, from 0 to below 1"));
        }
        if let Some(sealer) = &self.sealer {
            sealer.check().map_err(|error| invalid("secure", &error.to_string()).with_boxed_source(error))?;
        }
        for (name, duration) in [
            ("build_timeout", self.build_timeout),
            ("operation_timeout", self.operation_timeout),
            ("flight_wait", self.flight_wait),
            ("l1_max_ttl", self.l1_max_ttl.unwrap_or(Duration::MAX)),
        ] {
            if duration.is_zero() {
                return Err(invalid(name, "is zero"));
            }
        }
        Ok(())
    }
}

/// A key in the environment does not switch encryption on; whoever thinks so should hear of it, once.
fn warn_of_an_unused_key() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if std::env::var_os("CACHEKIT_MASTER_KEY").is_some() && !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "CACHEKIT_MASTER_KEY is set, but a cache without `.secure(..)` was built: its L1 is not encrypted"
        );
    }
}

fn invalid(setting: &str, why: &str) -> Error {
    Error::new(ErrorKind::ConfigInvalid, format!("`{setting}` {why}"))
}

fn breaker_invalid(error: ConfigError) -> Error {
    Error::new(ErrorKind::ConfigInvalid, error.to_string()).with_source(error)
}
