//! Wrong with locks.

use crate::twist::Twist;
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, LockToken, SetOptions, async_trait};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3_600);

/// Everyone gets the lock.
#[derive(Debug)]
pub(crate) struct GivesToEveryone;

#[async_trait]
impl Twist for GivesToEveryone {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        Ok(Some(inner.try_lock(key, t).await?.unwrap_or_else(|| LockToken::new(key, "another", None))))
    }
}

/// Reads whether it is free, and takes it later.
#[derive(Debug, Default)]
pub(crate) struct LooksThenTakes(Mutex<HashMap<String, LockToken>>);

#[async_trait]
impl Twist for LooksThenTakes {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        let before = self.0.lock().unwrap().get(key).cloned();
        tokio::time::sleep(Duration::from_millis(20)).await;
        if let Some(taken) = inner.try_lock(key, t).await? {
            self.0.lock().unwrap().insert(key.to_owned(), taken.clone());
            return Ok(Some(taken));
        }
        // Somebody took it meanwhile, which this one does not notice.
        Ok(self.0.lock().unwrap().get(key).filter(|now| Some(*now) != before.as_ref()).cloned())
    }
}

/// A lock stays until it is released.
#[derive(Debug)]
pub(crate) struct NeverEnds;

#[async_trait]
impl Twist for NeverEnds {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        let t = if t < inner.capabilities().min_lock_ttl() { t } else { HOUR };
        inner.try_lock(key, t).await
    }
}

/// Takes the lock, and gives it its end with a second command.
#[derive(Debug)]
pub(crate) struct EndsInASecondStep;

#[async_trait]
impl Twist for EndsInASecondStep {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        let first = if t < inner.capabilities().min_lock_ttl() { t } else { HOUR };
        let Some(token) = inner.try_lock(key, first).await? else { return Ok(None) };
        tokio::task::yield_now().await;
        inner.extend(&token, t).await?;
        Ok(Some(token))
    }
}

/// The lock is an entry under the same key.
#[derive(Debug)]
pub(crate) struct LockIsAnEntry;

#[async_trait]
impl Twist for LockIsAnEntry {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        let token = inner.try_lock(key, t).await?;
        if let Some(token) = &token {
            let secret = Bytes::copy_from_slice(token.secret().as_bytes());
            inner.set(key, secret, SetOptions::default().with_ttl(Some(t))).await?;
        }
        Ok(token)
    }
}

/// Every fence is the same.
#[derive(Debug)]
pub(crate) struct OneFence;

#[async_trait]
impl Twist for OneFence {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        let token = inner.try_lock(key, t).await?;
        Ok(token.map(|token| LockToken::new(token.key(), token.secret(), Some(1))))
    }
}

/// Takes any time, and makes a longer one of it.
#[derive(Debug)]
pub(crate) struct TakesShortLocks;

#[async_trait]
impl Twist for TakesShortLocks {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        inner.try_lock(key, t.max(inner.capabilities().min_lock_ttl())).await
    }
}

/// Looks at the key of a token only, when it extends or when it releases.
#[derive(Debug, Default)]
pub(crate) struct AnyTokenWill {
    pub(crate) extends: bool,
    pub(crate) releases: bool,
    pub(crate) owners: Mutex<HashMap<String, LockToken>>,
}

impl AnyTokenWill {
    fn owner(&self, token: &LockToken) -> LockToken {
        self.owners.lock().unwrap().get(token.key()).unwrap_or(token).clone()
    }
}

#[async_trait]
impl Twist for AnyTokenWill {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        let token = inner.try_lock(key, t).await?;
        self.owners.lock().unwrap().extend(token.clone().map(|token| (key.to_owned(), token)));
        Ok(token)
    }
    async fn extend(&self, inner: &MemoryBackend, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        if self.extends { inner.extend(&self.owner(token), ttl).await } else { inner.extend(token, ttl).await }
    }
    async fn unlock(&self, inner: &MemoryBackend, token: &LockToken) -> Result<bool, BackendError> {
        if self.releases { inner.unlock(&self.owner(token)).await } else { inner.unlock(token).await }
    }
}

/// Says that the lock lives longer now.
#[derive(Debug)]
pub(crate) struct ExtendDoesNothing;

#[async_trait]
impl Twist for ExtendDoesNothing {
    async fn extend(&self, inner: &MemoryBackend, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        match inner.try_lock(token.key(), ttl).await? {
            None => Ok(true),
            Some(free) => inner.unlock(&free).await.map(|_| false),
        }
    }
}

/// No time at all is the default.
#[derive(Debug)]
pub(crate) struct TakesNoTime;

#[async_trait]
impl Twist for TakesNoTime {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        inner.try_lock(key, if t.is_zero() { HOUR } else { t }).await
    }
}

/// Keeps a lock for less time than it was asked for.
#[derive(Debug)]
pub(crate) struct Cuts(pub(crate) fn(Duration) -> Duration);

#[async_trait]
impl Twist for Cuts {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        let shortest = inner.capabilities().min_lock_ttl();
        inner.try_lock(key, if t < shortest { t } else { (self.0)(t).max(shortest) }).await
    }
}

pub(crate) fn to_a_sixth(ttl: Duration) -> Duration {
    ttl / 6
}

pub(crate) fn to_a_second(ttl: Duration) -> Duration {
    ttl.min(Duration::from_secs(1))
}

/// Takes only a later end for an extension.
#[derive(Debug, Default)]
pub(crate) struct ExtendsToLongerOnly(Mutex<HashMap<String, Instant>>);

#[async_trait]
impl Twist for ExtendsToLongerOnly {
    async fn try_lock(&self, inner: &MemoryBackend, key: &str, t: Duration) -> Result<Option<LockToken>, BackendError> {
        let token = inner.try_lock(key, t).await?;
        if token.is_some() {
            self.0.lock().unwrap().insert(key.to_owned(), Instant::now() + t);
        }
        Ok(token)
    }
    async fn extend(&self, inner: &MemoryBackend, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        let left = self
            .0
            .lock()
            .unwrap()
            .get(token.key())
            .map(|end| end.saturating_duration_since(Instant::now()))
            .unwrap_or_default();
        inner.extend(token, ttl.max(left)).await
    }
}
