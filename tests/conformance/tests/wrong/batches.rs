//! Wrong with many at once, and right with one.

use crate::twist::{LIMIT, Twist};
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, SetOptions, async_trait};
use std::time::Duration;

/// Asks for this many keys, and takes the rest for misses.
#[derive(Debug)]
pub(crate) struct MissesBeyond(pub(crate) usize);

#[async_trait]
impl Twist for MissesBeyond {
    async fn get_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        let mut results = inner.get_many(&keys[..keys.len().min(self.0)]).await;
        results.resize(keys.len(), Ok(None));
        results
    }
}

/// Stores this many entries, and acknowledges the rest.
#[derive(Debug)]
pub(crate) struct DropsBeyond(pub(crate) usize);

#[async_trait]
impl Twist for DropsBeyond {
    async fn set_many(
        &self,
        inner: &MemoryBackend,
        entries: &[(&str, Bytes)],
        options: SetOptions,
    ) -> Vec<Result<(), BackendError>> {
        let mut results = inner.set_many(&entries[..entries.len().min(self.0)], options).await;
        results.resize(entries.len(), Ok(()));
        results
    }
}

/// Stores something else than it was given.
#[derive(Debug)]
pub(crate) struct SetsOtherwise(pub(crate) fn(Bytes, Option<Duration>) -> (Bytes, Option<Duration>));

#[async_trait]
impl Twist for SetsOtherwise {
    async fn set_many(
        &self,
        inner: &MemoryBackend,
        entries: &[(&str, Bytes)],
        options: SetOptions,
    ) -> Vec<Result<(), BackendError>> {
        let mut results = Vec::new();
        for (key, value) in entries {
            let (value, ttl) = (self.0)(value.clone(), options.ttl);
            results.push(inner.set(key, value, options.with_ttl(ttl)).await);
        }
        results
    }
}

pub(crate) fn cut_to_1_000_bytes(value: Bytes, ttl: Option<Duration>) -> (Bytes, Option<Duration>) {
    // What is too large is still refused.
    let cut = if value.len() > LIMIT { value } else { value.slice(..value.len().min(1_000)) };
    (cut, ttl)
}

pub(crate) fn cut_to_the_limit(value: Bytes, ttl: Option<Duration>) -> (Bytes, Option<Duration>) {
    (value.slice(..value.len().min(LIMIT)), ttl)
}

pub(crate) fn no_time_for_ever(value: Bytes, ttl: Option<Duration>) -> (Bytes, Option<Duration>) {
    (value, ttl.filter(|ttl| !ttl.is_zero()))
}

pub(crate) fn under_a_millisecond_for_ever(value: Bytes, ttl: Option<Duration>) -> (Bytes, Option<Duration>) {
    (value, ttl.filter(|ttl| ttl.is_zero() || ttl.as_millis() > 0))
}

/// Looks which are there, and deletes them afterwards: a key that is named twice was there twice.
#[derive(Debug)]
pub(crate) struct LooksThenDeletes;

#[async_trait]
impl Twist for LooksThenDeletes {
    async fn delete_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        let mut results = Vec::new();
        for key in keys {
            results.push(inner.exists(key).await);
        }
        inner.delete_many(keys).await;
        results
    }
}

/// Deletes this many, and says that it deleted the rest.
#[derive(Debug)]
pub(crate) struct DeletesUpTo(pub(crate) usize);

#[async_trait]
impl Twist for DeletesUpTo {
    async fn delete_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        let mut results = inner.delete_many(&keys[..keys.len().min(self.0)]).await;
        results.resize(keys.len(), Ok(true));
        results
    }
}
