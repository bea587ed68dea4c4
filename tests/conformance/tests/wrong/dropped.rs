//! Wrong after a call that was dropped in the middle.

use crate::twist::Twist;
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, ErrorKind, LockToken, SetOptions, TtlState, async_trait};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::yield_now;

/// A `touch` that is dropped has removed the entry and not yet put it back.
#[derive(Debug)]
pub(crate) struct HalfTouches;

#[async_trait]
impl Twist for HalfTouches {
    async fn touch(&self, inner: &MemoryBackend, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let there = inner.touch(key, ttl).await?;
        if let Some(value) = inner.get(key).await? {
            inner.delete(key).await?;
            yield_now().await;
            inner.set(key, value, SetOptions::default().with_ttl(ttl)).await?;
        }
        Ok(there)
    }
}

/// What takes the connection of [`LosesItsConnection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Clear,
    DeleteMany,
    Extend,
    Publish,
    SetMany,
    Touch,
    Ttl,
    Unlock,
}

/// One call borrows the connection for reads, and gives it back in the end; dropped before that, it keeps it.
#[derive(Debug)]
pub(crate) struct LosesItsConnection {
    borrower: Call,
    lost: AtomicBool,
}

/// Loses the connection unless it was given back.
struct Borrowed<'a>(Option<&'a AtomicBool>);

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(lost) = self.0 {
            lost.store(true, Ordering::SeqCst);
        }
    }
}

impl LosesItsConnection {
    pub(crate) fn on(borrower: Call) -> Self {
        Self { borrower, lost: AtomicBool::new(false) }
    }

    async fn pass<T>(&self, call: Call, answer: impl Future<Output = T>) -> T {
        let mut borrowed = Borrowed((call == self.borrower).then_some(&self.lost));
        if borrowed.0.is_some() {
            yield_now().await;
        }
        let answer = answer.await;
        borrowed.0 = None;
        answer
    }
}

#[async_trait]
impl Twist for LosesItsConnection {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        if self.lost.load(Ordering::SeqCst) {
            return Err(BackendError::new(ErrorKind::Unavailable, "there is no connection"));
        }
        inner.get(key).await
    }
    async fn set_many(
        &self,
        inner: &MemoryBackend,
        entries: &[(&str, Bytes)],
        options: SetOptions,
    ) -> Vec<Result<(), BackendError>> {
        self.pass(Call::SetMany, inner.set_many(entries, options)).await
    }
    async fn delete_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        self.pass(Call::DeleteMany, inner.delete_many(keys)).await
    }
    async fn clear(&self, inner: &MemoryBackend, prefix: &str) -> Result<(), BackendError> {
        self.pass(Call::Clear, inner.clear(prefix)).await
    }
    async fn ttl(&self, inner: &MemoryBackend, key: &str) -> Result<TtlState, BackendError> {
        self.pass(Call::Ttl, inner.ttl(key)).await
    }
    async fn touch(&self, inner: &MemoryBackend, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        self.pass(Call::Touch, inner.touch(key, ttl)).await
    }
    async fn extend(&self, inner: &MemoryBackend, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        self.pass(Call::Extend, inner.extend(token, ttl)).await
    }
    async fn unlock(&self, inner: &MemoryBackend, token: &LockToken) -> Result<bool, BackendError> {
        self.pass(Call::Unlock, inner.unlock(token)).await
    }
    async fn publish(&self, inner: &MemoryBackend, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        self.pass(Call::Publish, inner.publish(channel, payload)).await
    }
}
