//! A backend whose values are sealed.

use crate::door::Door;
use crate::subscription::SealedSubscription;
use crate::{KeyringError, Secure};
use bytes::Bytes;
use cachekit_core::{
    Backend, BackendError, BackendHealth, Capabilities, Changes, ErrorKind, LockToken, SetOptions, Subscription,
    TtlState, async_trait,
};
use std::borrow::Cow;
use std::time::Duration;

/// Wraps any backend, and seals every value before it gets there.
///
/// For those who use a [`Backend`] without a cache. A cache over it still has plaintext in its L1: give the cache itself
/// the [`Secure`] instead.
///
/// Everything else passes through, with these differences:
///
/// - [`max_value_bytes`](Capabilities::max_value_bytes) is smaller by 92 and by the padding;
/// - the time to live is in the entry too, authenticated, and the reader keeps it whatever the store does. So nothing can
///   prolong it: `touch` is [`Unsupported`](ErrorKind::Unsupported);
/// - messages are sealed too; one that does not open is [`Message::Lost`](cachekit_core::Message::Lost);
/// - with hidden key names `clear` and `track` are `Unsupported`, since hidden names have no prefix.
///
/// ```
/// use cachekit_core::testing::MemoryBackend;
/// use cachekit_core::{Backend, Bytes, SetOptions};
/// use cachekit_secure::{Keyring, MasterKey, Secure, SecureBackend};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryBackend::new();
/// let secure = Secure::new(Keyring::new(MasterKey::from_bytes([7; 32])));
/// let backend = SecureBackend::new(store.clone(), &secure)?.with_namespace("users");
/// backend.set("42", Bytes::from_static(b"Alice"), SetOptions::default()).await?;
///
/// let stored = store.raw("42").unwrap_or_default();
/// assert!(!stored.windows(5).any(|bytes| bytes == b"Alice"));
/// assert_eq!(backend.get("42").await?.as_deref(), Some(&b"Alice"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SecureBackend<B> {
    inner: B,
    door: Door,
}

impl<B: Backend> SecureBackend<B> {
    /// Wraps a backend.
    ///
    /// # Errors
    ///
    /// When the ring is not usable.
    pub fn new(inner: B, secure: &Secure) -> Result<Self, KeyringError> {
        Ok(Self::with_door(inner, Door::new(secure.entry_sealer()?)))
    }

    pub(crate) fn with_door(inner: B, door: Door) -> Self {
        Self { inner, door }
    }

    /// Binds all entries to this namespace. Default: the empty one.
    #[must_use]
    pub fn with_namespace(mut self, namespace: &str) -> Self {
        self.door.namespace = namespace.into();
        self
    }

    /// Binds all entries to this tenant, whatever their keys say. Default: what [`Secure::tenant`] finds, or the empty
    /// one.
    #[must_use]
    pub fn with_tenant(mut self, tenant: &str) -> Self {
        self.door.tenant = Some(tenant.into());
        self
    }

    /// The wrapped backend.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// The stored key, and the entry to store under it.
    fn entry<'a>(
        &self,
        key: &'a str,
        value: &[u8],
        ttl: Option<Duration>,
    ) -> Result<(Cow<'a, str>, Bytes), BackendError> {
        let limit = self.capabilities().max_value_bytes();
        if value.len() > limit {
            let context = format!("a value of {} bytes, where {limit} are the limit", value.len());
            return Err(BackendError::new(ErrorKind::TooLarge, context));
        }
        let stored_key = self.door.stored_key(key)?;
        let entry = self.door.seal(key, &stored_key, value, ttl)?;
        Ok((stored_key, entry))
    }

    /// The token as the wrapped backend knows it.
    fn inner_token<'a>(&self, token: &'a LockToken) -> Result<Cow<'a, LockToken>, BackendError> {
        match self.door.stored_key(token.key())? {
            Cow::Borrowed(_) => Ok(Cow::Borrowed(token)),
            Cow::Owned(hidden) => Ok(Cow::Owned(LockToken::new(hidden, token.secret(), token.fence()))),
        }
    }
}

fn unsupported(why: &'static str) -> BackendError {
    BackendError::new(ErrorKind::Unsupported, why)
}

/// The keys to ask the wrapped backend for, and where each one's result belongs; what was refused before is a result
/// already.
struct Batch<'a, T> {
    asked: Vec<(usize, Cow<'a, str>, T)>,
    refused: Vec<(usize, BackendError)>,
    len: usize,
}

impl<'a, T> Batch<'a, T> {
    fn new(prepared: impl ExactSizeIterator<Item = Result<(Cow<'a, str>, T), BackendError>>) -> Self {
        let len = prepared.len();
        let (mut asked, mut refused) = (Vec::with_capacity(len), Vec::new());
        for (at, prepared) in prepared.enumerate() {
            match prepared {
                Ok((key, value)) => asked.push((at, key, value)),
                Err(error) => refused.push((at, error)),
            }
        }
        Self { asked, refused, len }
    }

    fn keys(&self) -> Vec<&str> {
        self.asked.iter().map(|(_, key, _)| &**key).collect()
    }

    /// Puts the results of what was asked among those of what was refused.
    fn merge<R>(self, results: Vec<Result<R, BackendError>>) -> Vec<Result<R, BackendError>> {
        let missing =
            || Err(BackendError::new(ErrorKind::Internal, "the backend gave fewer results than it was asked for"));
        let mut merged: Vec<_> = std::iter::repeat_with(missing).take(self.len).collect();
        for ((at, ..), result) in self.asked.iter().zip(results) {
            merged[*at] = result;
        }
        for (at, error) in self.refused {
            merged[at] = Err(error);
        }
        merged
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<B: Backend> Backend for SecureBackend<B> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        inner
            .with_clear(inner.clear() && !self.door.hides_names())
            .with_max_value_bytes(self.door.max_payload(inner.max_value_bytes()))
            .with_touch(false)
            .with_track(inner.track() && !self.door.hides_names())
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        let stored_key = self.door.stored_key(key)?;
        match self.inner.get(&stored_key).await? {
            Some(entry) => self.door.open(key, &stored_key, entry, self.inner.capabilities().max_value_bytes()),
            None => Ok(None),
        }
    }

    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        let (stored_key, entry) = self.entry(key, &value, options.ttl)?;
        self.inner.set(&stored_key, entry, options).await
    }

    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        self.inner.delete(&self.door.stored_key(key)?).await
    }

    async fn health(&self) -> Result<BackendHealth, BackendError> {
        self.inner.health().await
    }

    /// Reads the entry, since one that does not open is none.
    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        Ok(self.get(key).await?.is_some())
    }

    async fn get_many(&self, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        let batch = Batch::new(keys.iter().map(|key| Ok((self.door.stored_key(key)?, *key))));
        let mut results = self.inner.get_many(&batch.keys()).await;
        let max_stored_len = self.inner.capabilities().max_value_bytes();
        for ((_, stored_key, key), result) in batch.asked.iter().zip(&mut results) {
            if let Ok(Some(entry)) = result {
                *result = self.door.open(key, stored_key, std::mem::take(entry), max_stored_len);
            }
        }
        batch.merge(results)
    }

    async fn set_many(&self, entries: &[(&str, Bytes)], options: SetOptions) -> Vec<Result<(), BackendError>> {
        let batch = Batch::new(entries.iter().map(|(key, value)| self.entry(key, value, options.ttl)));
        let sealed: Vec<_> = batch.asked.iter().map(|(_, key, entry)| (&**key, entry.clone())).collect();
        let results = self.inner.set_many(&sealed, options).await;
        drop(sealed);
        batch.merge(results)
    }

    async fn delete_many(&self, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        let batch = Batch::new(keys.iter().map(|key| Ok((self.door.stored_key(key)?, ()))));
        let results = self.inner.delete_many(&batch.keys()).await;
        batch.merge(results)
    }

    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        if self.door.hides_names() {
            return Err(unsupported("hidden key names have no prefix to clear"));
        }
        self.inner.clear(prefix).await
    }

    /// As the store tells it; the reader keeps the end that is in the entry.
    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        self.inner.ttl(&self.door.stored_key(key)?).await
    }

    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let _ = (key, ttl);
        Err(unsupported("the end of a sealed entry is authenticated: write it again to prolong it"))
    }

    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        let token = self.inner.try_lock(&self.door.stored_key(key)?, ttl).await?;
        Ok(token.map(|token| LockToken::new(key, token.secret(), token.fence())))
    }

    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        self.inner.extend(&*self.inner_token(token)?, ttl).await
    }

    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        self.inner.unlock(&*self.inner_token(token)?).await
    }

    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        let message = self.door.seal_message(channel, &payload)?;
        self.inner.publish(channel, message).await
    }

    async fn subscribe(&self, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        let inner = self.inner.subscribe(channel).await?;
        Ok(Box::new(SealedSubscription { inner, door: self.door.clone(), channel: channel.to_owned() }))
    }

    async fn track(&self, prefixes: &[&str]) -> Result<Changes, BackendError> {
        if self.door.hides_names() {
            return Err(unsupported("hidden names have no prefix, so there is nothing to track by"));
        }
        self.inner.track(prefixes).await
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.inner.close().await
    }
}
