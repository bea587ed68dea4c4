//! Wrong with keys.

use crate::twist::Twist;
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, ErrorKind, LockToken, SetOptions, TtlState, async_trait};
use std::time::Duration;

/// Stores under another key than the one it was given.
#[derive(Debug)]
pub(crate) struct Stores(pub(crate) fn(&str) -> String);

#[async_trait]
impl Twist for Stores {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        inner.get(&(self.0)(key)).await
    }
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        inner.set(&(self.0)(key), value, o).await
    }
    async fn delete(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        inner.delete(&(self.0)(key)).await
    }
}

pub(crate) fn cut_at_250(key: &str) -> String {
    key.chars().take(250).collect()
}

pub(crate) fn in_lower_case(key: &str) -> String {
    key.to_lowercase()
}

pub(crate) fn trimmed(key: &str) -> String {
    key.trim_matches(' ').to_owned()
}

/// Spaces are encoded, and the percent sign is not.
pub(crate) fn half_encoded(key: &str) -> String {
    key.replace(' ', "%20")
}

pub(crate) fn cut_at_a_control_character(key: &str) -> String {
    match key.find(['\r', '\n', '\0']) {
        Some(0) => "(nothing)".to_owned(),
        Some(end) => key[..end].to_owned(),
        None => key.to_owned(),
    }
}

pub(crate) fn empty_as_a_name(key: &str) -> String {
    if key.is_empty() { "(empty)".to_owned() } else { key.to_owned() }
}

/// Does not take every key.
#[derive(Debug)]
pub(crate) struct Refuses(pub(crate) fn(&str) -> bool);

#[async_trait]
impl Twist for Refuses {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        if (self.0)(key) {
            return Err(BackendError::new(ErrorKind::KeyInvalid, "not a key of this store"));
        }
        inner.set(key, value, o).await
    }
}

pub(crate) fn over_250_bytes(key: &str) -> bool {
    key.len() > 250
}

pub(crate) fn under_4_bytes(key: &str) -> bool {
    (1..4).contains(&key.len())
}

pub(crate) fn outside_the_basic_plane(key: &str) -> bool {
    key.chars().any(|letter| letter.len_utf8() == 4)
}

/// A line protocol without a check of the key: what follows a line end is the next command.
#[derive(Debug)]
pub(crate) struct Injectable;

#[async_trait]
impl Twist for Injectable {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        let mut commands = key.split("\r\n");
        let found = inner.get(commands.next().unwrap_or_default()).await;
        for victim in commands.filter_map(|command| command.strip_prefix("delete ")) {
            inner.delete(victim).await?;
        }
        found
    }
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        inner.set(key.split("\r\n").next().unwrap_or_default(), value, o).await
    }
}

/// Takes the empty key for one that is not there, or that is free, in one operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TakesTheEmptyKey {
    Touch,
    TryLock,
    Ttl,
}

#[async_trait]
impl Twist for TakesTheEmptyKey {
    async fn ttl(&self, inner: &MemoryBackend, key: &str) -> Result<TtlState, BackendError> {
        if key.is_empty() && *self == Self::Ttl { Ok(TtlState::Missing) } else { inner.ttl(key).await }
    }
    async fn touch(&self, inner: &MemoryBackend, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        if key.is_empty() && *self == Self::Touch { Ok(false) } else { inner.touch(key, ttl).await }
    }
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        let key = if key.is_empty() && *self == Self::TryLock { "(empty)" } else { key };
        inner.try_lock(key, t).await
    }
}
