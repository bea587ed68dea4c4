#![doc = include_str!("../README.md")]
//!
//! # Features
//!
//! None is on by default: L1, the circuit breaker and the traits are always there. A feature makes something available
//! and changes nothing else.
//!
//! | feature | what it adds |
//! |---|---|
//! | `json` | [`CacheBuilder::json`] |
//! | `memcached` | Memcached: `memcache://` |
//! | `metrics` | counters and gauges through the `metrics` facade |
//! | `redis` | Redis: `redis://`, `redis+unix://` |
//! | `redis-cluster` | `redis+cluster://` |
//! | `redis-sentinel` | `redis+sentinel://` |
//! | `redis-tls` | `rediss://` |
//! | `secure` | [`secure`]: authenticated encryption of every entry, in both tiers |
//! | `secure-lz4`, `secure-zstd` | compression before sealing |
//! | `sled` | the embedded backend, `sled://` |
//! | `testing` | [`testing`]: an in-memory and a fault-injecting backend, a clock moved by hand |

#[cfg(feature = "memcached")]
pub use cachekit_memcached as memcached;
#[cfg(feature = "redis")]
pub use cachekit_redis as redis;
#[cfg(feature = "secure")]
pub use cachekit_secure as secure;
#[cfg(feature = "sled")]
pub use cachekit_sled as sled;

#[cfg(feature = "testing")]
pub use cachekit_core::testing;
pub use cachekit_core::{
    Backend, BackendError, BackendFactory, BackendHealth, BackendUrl, Bytes, Cache, CacheBuilder, Cacheable, CallError,
    Capabilities, Change, ChangeReporter, Changes, Clock, Codec, CodecError, DecodeInto, Error, ErrorKind,
    FactoryConstructor, Fetched, Health, LockScope, LockToken, Message, MigratingFactory, Reason, Registry, Retry,
    ServerAddress, SetOptions, Source, Stored, Subscription, SystemClock, Tick, Ttl, TtlState, UrlOption, async_trait,
    breaker, health, ticks,
};

type Register = fn(&mut Registry) -> Result<(), BackendError>;

/// What each backend that is compiled in adds to the registry.
const BACKENDS: &[Register] = &[
    #[cfg(feature = "memcached")]
    memcached::register,
    #[cfg(feature = "redis")]
    redis::register,
    #[cfg(feature = "sled")]
    sled::register,
];

/// The URL schemes of the backends that are compiled in. Add your own with [`Registry::register`].
///
/// ```
/// use cachekit::{Cache, registry};
///
/// # #[cfg(feature = "sled")] {
/// let cache = Cache::builder("users").backend(registry().factory("sled:///var/cache/app")?).build()?;
/// # }
/// # Ok::<(), cachekit::Error>(())
/// ```
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    for register in BACKENDS {
        let registered = register(&mut registry);
        debug_assert!(registered.is_ok(), "no two backends share a scheme: {registered:?}");
    }
    registry
}

/// Compiles the guide.
#[cfg(all(doctest, feature = "secure"))]
mod guide {
    #[doc = include_str!("../docs/guide/encryption.md")]
    struct Encryption;
}
