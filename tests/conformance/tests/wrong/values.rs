//! Wrong with values.

use crate::twist::{LIMIT, Twist};
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, Capabilities, ErrorKind, SetOptions, async_trait};

/// Gives back something else than what was stored.
#[derive(Debug)]
pub(crate) struct Reads(pub(crate) fn(Bytes) -> Option<Bytes>);

#[async_trait]
impl Twist for Reads {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        Ok(inner.get(key).await?.and_then(self.0))
    }
}

pub(crate) fn as_text(value: Bytes) -> Option<Bytes> {
    Some(String::from_utf8_lossy(&value).into_owned().into())
}

pub(crate) fn without_line_end(value: Bytes) -> Option<Bytes> {
    Some(value.strip_suffix(b"\r\n").map(|line| value.slice_ref(line)).unwrap_or(value))
}

pub(crate) fn unless_empty(value: Bytes) -> Option<Bytes> {
    (!value.is_empty()).then_some(value)
}

/// Refuses what is as large as the limit it declares.
#[derive(Debug)]
pub(crate) struct OffByOne;

#[async_trait]
impl Twist for OffByOne {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        if value.len() >= LIMIT {
            return Err(BackendError::new(ErrorKind::TooLarge, "too large"));
        }
        inner.set(key, value, o).await
    }
}

/// Stores what is larger than the limit it declares.
#[derive(Debug)]
pub(crate) struct Unlimited;

#[async_trait]
impl Twist for Unlimited {
    fn capabilities(&self, inner: &MemoryBackend) -> Capabilities {
        inner.capabilities().with_max_value_bytes(LIMIT)
    }
}

/// Stores what fits of a value that is too large; refuses it or not.
#[derive(Debug)]
pub(crate) struct CutsValues {
    pub(crate) refuses: bool,
}

#[async_trait]
impl Twist for CutsValues {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        inner.set(key, value.slice(..value.len().min(LIMIT)), o).await?;
        if self.refuses && value.len() > LIMIT {
            return Err(BackendError::new(ErrorKind::TooLarge, "too large"));
        }
        Ok(())
    }
}

/// Says that a value is too large, in words of its own.
#[derive(Debug)]
pub(crate) struct TooLargeIsOutOfSpace;

#[async_trait]
impl Twist for TooLargeIsOutOfSpace {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        if value.len() > LIMIT {
            return Err(BackendError::new(ErrorKind::OutOfSpace, "SERVER_ERROR object too large for cache"));
        }
        inner.set(key, value, o).await
    }
}
