//! The traits, the cache and the circuit breaker of cachekit.
//!
//! Applications use the crate `cachekit`, which re-exports all of this. A backend author depends on this one without
//! default features: the traits, the errors and the registry of URL schemes, and no runtime.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
#[cfg(feature = "breaker")]
pub mod breaker;
#[cfg(feature = "clock")]
mod clock;
mod error;
#[cfg(feature = "testing")]
pub mod testing;

pub use async_trait::async_trait;
pub use backend::{
    Backend, BackendFactory, BackendHealth, BackendUrl, Capabilities, FactoryConstructor, LockScope, LockToken,
    Message, Registry, SetOptions, Subscription, TtlState,
};
pub use bytes::Bytes;
#[cfg(feature = "clock")]
pub use clock::{Clock, SystemClock, Tick, ticks};
pub use error::{BackendError, ErrorKind, Retry};
