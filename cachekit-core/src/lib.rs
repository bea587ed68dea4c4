//! The traits, the cache and the circuit breaker of cachekit.
//!
//! Applications use the crate `cachekit`, which re-exports all of this. A backend author depends on this one without
//! default features: the traits, the errors and the registry of URL schemes, and no runtime.

mod backend;
#[cfg(feature = "breaker")]
pub mod breaker;
#[cfg(feature = "cache")]
mod cache;
#[cfg(feature = "clock")]
mod clock;
#[cfg(feature = "cache")]
mod codec;
#[cfg(feature = "cache")]
mod counter;
pub mod entry;
mod error;
#[cfg(feature = "cache")]
pub mod health;
#[cfg(feature = "cache")]
mod key;
#[cfg(feature = "cache")]
mod l1;
#[cfg(feature = "cache")]
mod l2;
#[cfg(all(feature = "cache", feature = "metrics"))]
mod metrics;
#[cfg(all(feature = "cache", not(feature = "metrics")))]
#[path = "no_metrics.rs"]
mod metrics;
mod seal;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "cache")]
mod timer;
#[cfg(feature = "cache")]
mod ttl;

pub use async_trait::async_trait;
#[cfg(feature = "cache")]
pub use backend::MigratingFactory;
pub use backend::{
    Backend, BackendFactory, BackendHealth, BackendUrl, Capabilities, Change, ChangeReporter, Changes,
    FactoryConstructor, LockScope, LockToken, Message, Registry, ServerAddress, SetOptions, Subscription, TtlState,
    UrlOption,
};
pub use bytes::Bytes;
#[cfg(feature = "cache")]
pub use cache::{Cache, CacheBuilder, Cacheable, CallError, Error, Fetched, Reason, Source, Stored};
#[cfg(feature = "clock")]
pub use clock::{Clock, SystemClock, Tick, ticks};
#[cfg(feature = "cache")]
pub use codec::{Codec, CodecError, DecodeInto};
pub use error::{BackendError, ErrorKind, Retry};
#[cfg(feature = "cache")]
pub use health::Health;
pub use seal::{Acceptance, KeySlot, OpenError, SealContext, SealError, Sealer, SealerHealth, Tier};
#[cfg(feature = "cache")]
pub use ttl::Ttl;
