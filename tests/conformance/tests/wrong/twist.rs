//! A wrong backend is the reference implementation with a twist.

use cachekit_core::testing::MemoryBackend;
use cachekit_core::{
    Backend, BackendError, BackendHealth, Bytes, Capabilities, Changes, LockToken, SetOptions, Subscription, TtlState,
    async_trait,
};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// Small, so that many backends can be tested at once.
pub(crate) const LIMIT: usize = 64 << 10;

/// What differs from the reference implementation: nothing, unless a method is overridden. What a default of the trait
/// `Backend` builds on a single operation builds on the twisted one.
#[async_trait]
pub(crate) trait Twist: Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str {
        "wrong"
    }
    fn capabilities(&self, inner: &MemoryBackend) -> Capabilities {
        inner.capabilities()
    }
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        inner.get(key).await
    }
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        inner.set(key, value, o).await
    }
    async fn delete(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        inner.delete(key).await
    }
    async fn health(&self, inner: &MemoryBackend) -> Result<BackendHealth, BackendError> {
        inner.health().await
    }
    async fn exists(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        Ok(self.get(inner, key).await?.is_some())
    }
    async fn get_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        let mut results = Vec::new();
        for key in keys {
            results.push(self.get(inner, key).await);
        }
        results
    }
    async fn set_many(
        &self,
        inner: &MemoryBackend,
        entries: &[(&str, Bytes)],
        options: SetOptions,
    ) -> Vec<Result<(), BackendError>> {
        let mut results = Vec::new();
        for (key, value) in entries {
            results.push(self.set(inner, key, value.clone(), options).await);
        }
        results
    }
    async fn delete_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        let mut results = Vec::new();
        for key in keys {
            results.push(self.delete(inner, key).await);
        }
        results
    }
    async fn clear(&self, inner: &MemoryBackend, prefix: &str) -> Result<(), BackendError> {
        inner.clear(prefix).await
    }
    async fn ttl(&self, inner: &MemoryBackend, key: &str) -> Result<TtlState, BackendError> {
        inner.ttl(key).await
    }
    async fn touch(&self, inner: &MemoryBackend, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        inner.touch(key, ttl).await
    }
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        inner.try_lock(key, t).await
    }
    async fn extend(&self, inner: &MemoryBackend, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        inner.extend(token, ttl).await
    }
    async fn unlock(&self, inner: &MemoryBackend, token: &LockToken) -> Result<bool, BackendError> {
        inner.unlock(token).await
    }
    async fn publish(&self, inner: &MemoryBackend, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        inner.publish(channel, payload).await
    }
    async fn subscribe(&self, inner: &MemoryBackend, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        inner.subscribe(channel).await
    }
    async fn track(&self, inner: &MemoryBackend, prefixes: &[&str]) -> Result<Changes, BackendError> {
        inner.track(prefixes).await
    }
    async fn close(&self, inner: &MemoryBackend) -> Result<(), BackendError> {
        inner.close().await
    }
}

#[derive(Debug)]
struct Twisted<T> {
    inner: MemoryBackend,
    twist: T,
}

/// A backend that has this twist and is right otherwise.
pub(crate) fn with(twist: impl Twist) -> Arc<dyn Backend> {
    over(MemoryBackend::new().with_max_value_bytes(LIMIT), twist)
}

pub(crate) fn over(inner: MemoryBackend, twist: impl Twist) -> Arc<dyn Backend> {
    Arc::new(Twisted { inner, twist })
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<T: Twist> Backend for Twisted<T> {
    fn name(&self) -> &'static str {
        self.twist.name()
    }
    fn capabilities(&self) -> Capabilities {
        self.twist.capabilities(&self.inner)
    }
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        self.twist.get(&self.inner, key).await
    }
    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        self.twist.set(&self.inner, key, value, options).await
    }
    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        self.twist.delete(&self.inner, key).await
    }
    async fn health(&self) -> Result<BackendHealth, BackendError> {
        self.twist.health(&self.inner).await
    }
    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        self.twist.exists(&self.inner, key).await
    }
    async fn get_many(&self, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        self.twist.get_many(&self.inner, keys).await
    }
    async fn set_many(&self, entries: &[(&str, Bytes)], options: SetOptions) -> Vec<Result<(), BackendError>> {
        self.twist.set_many(&self.inner, entries, options).await
    }
    async fn delete_many(&self, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        self.twist.delete_many(&self.inner, keys).await
    }
    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        self.twist.clear(&self.inner, prefix).await
    }
    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        self.twist.ttl(&self.inner, key).await
    }
    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        self.twist.touch(&self.inner, key, ttl).await
    }
    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        self.twist.try_lock(&self.inner, key, ttl).await
    }
    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        self.twist.extend(&self.inner, token, ttl).await
    }
    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        self.twist.unlock(&self.inner, token).await
    }
    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        self.twist.publish(&self.inner, channel, payload).await
    }
    async fn subscribe(&self, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        self.twist.subscribe(&self.inner, channel).await
    }
    async fn track(&self, prefixes: &[&str]) -> Result<Changes, BackendError> {
        self.twist.track(&self.inner, prefixes).await
    }
    async fn close(&self) -> Result<(), BackendError> {
        self.twist.close(&self.inner).await
    }
}
