//! What the breaker's threads meet at, replaced by loom's versions when loom explores their interleavings.

#[cfg(cachekit_loom)]
pub(super) use loom::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
#[cfg(not(cachekit_loom))]
pub(super) use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};
