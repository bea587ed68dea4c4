//! Wrong with `touch`.

use crate::twist::Twist;
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, SetOptions, async_trait};
use std::time::Duration;

/// Gives a touched entry a new value: none.
#[derive(Debug)]
pub(crate) struct TouchEmpties;

#[async_trait]
impl Twist for TouchEmpties {
    async fn touch(&self, inner: &MemoryBackend, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let there = inner.touch(key, ttl).await?;
        if there {
            inner.set(key, Bytes::new(), SetOptions::default().with_ttl(ttl)).await?;
        }
        Ok(there)
    }
}

/// Puts an entry where there was none.
#[derive(Debug)]
pub(crate) struct TouchCreates;

#[async_trait]
impl Twist for TouchCreates {
    async fn touch(&self, inner: &MemoryBackend, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let value = inner.get(key).await?.unwrap_or_default();
        inner.set(key, value, SetOptions::default().with_ttl(ttl)).await?;
        Ok(true)
    }
}

/// Says that it touched, and did nothing.
#[derive(Debug)]
pub(crate) struct TouchDoesNothing;

#[async_trait]
impl Twist for TouchDoesNothing {
    async fn touch(&self, inner: &MemoryBackend, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        if ttl.is_some_and(|ttl| ttl.is_zero()) {
            return inner.touch(key, ttl).await;
        }
        inner.exists(key).await
    }
}

/// Rounds to milliseconds, of which none is for ever.
#[derive(Debug)]
pub(crate) struct TouchesForMilliseconds;

#[async_trait]
impl Twist for TouchesForMilliseconds {
    async fn touch(&self, inner: &MemoryBackend, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        inner.touch(key, ttl.filter(|ttl| ttl.is_zero() || ttl.as_millis() > 0)).await
    }
}
