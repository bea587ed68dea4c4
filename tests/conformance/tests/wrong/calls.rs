//! Wrong under many calls, dropped calls, and at its end.

use crate::twist::Twist;
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, BackendHealth, Bytes, Capabilities, ErrorKind, SetOptions, async_trait};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A pool of four connections: who comes fifth shares a request buffer.
#[derive(Debug, Default)]
pub(crate) struct MixesUp {
    in_flight: AtomicUsize,
    request: Mutex<String>,
}

#[async_trait]
impl Twist for MixesUp {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        let others = self.in_flight.fetch_add(1, Ordering::SeqCst);
        key.clone_into(&mut self.request.lock().unwrap());
        tokio::task::yield_now().await;
        let asked = if others < 4 { key.to_owned() } else { self.request.lock().unwrap().clone() };
        let found = inner.get(&asked).await;
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        found
    }
}

/// Writes a large value over an older one in two steps.
#[derive(Debug)]
pub(crate) struct Tears;

#[async_trait]
impl Twist for Tears {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        if let Some(old) = inner.raw(key).filter(|old| old.len() == value.len() && old.len() > 4_096) {
            let half = old.len() / 2;
            inner.insert_raw(key, [&value[..half], &old[half..]].concat());
            // Not an await: nobody can drop the call here, and a reader on another thread sees the mixture.
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_micros(500)));
        }
        inner.set(key, value, o).await
    }
}

/// Removes a large value before it writes the new one.
#[derive(Debug)]
pub(crate) struct DeletesFirst;

#[async_trait]
impl Twist for DeletesFirst {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        if value.len() > 4_096 && value.len() <= inner.capabilities().max_value_bytes() {
            inner.delete(key).await?;
            tokio::task::block_in_place(|| std::thread::sleep(Duration::from_micros(500)));
        }
        inner.set(key, value, o).await
    }
}

/// One connection, on which the answer of a call that was dropped is taken for that of the next.
#[derive(Debug, Default)]
pub(crate) struct OutOfStep {
    connection: tokio::sync::Mutex<()>,
    replies: Mutex<VecDeque<Result<Option<Bytes>, BackendError>>>,
}

#[async_trait]
impl Twist for OutOfStep {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        let _connection = self.connection.lock().await;
        let reply = inner.get(key).await;
        self.replies.lock().unwrap().push_back(reply);
        tokio::task::yield_now().await;
        self.replies.lock().unwrap().pop_front().unwrap()
    }
}

/// A `delete` that is dropped leaves its mark in place of the value.
#[derive(Debug)]
pub(crate) struct HalfDeletes;

#[async_trait]
impl Twist for HalfDeletes {
    async fn delete(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        // Marks it first, and removes the mark and the entry later.
        let there = inner.exists(key).await?;
        if there {
            inner.set(key, Bytes::from_static(b"tombstone"), SetOptions::default()).await?;
            tokio::task::yield_now().await;
        }
        inner.delete(key).await?;
        Ok(there)
    }
}

/// Has this name.
#[derive(Debug)]
pub(crate) struct Named(pub(crate) &'static str);

#[async_trait]
impl Twist for Named {
    fn name(&self) -> &'static str {
        self.0
    }
}

/// Declares something else than what it can do.
#[derive(Debug)]
pub(crate) struct Declares(pub(crate) fn(Capabilities) -> Capabilities);

#[async_trait]
impl Twist for Declares {
    fn capabilities(&self, inner: &MemoryBackend) -> Capabilities {
        (self.0)(inner.capabilities())
    }
}

pub(crate) fn no_touch(capabilities: Capabilities) -> Capabilities {
    capabilities.with_touch(false)
}

pub(crate) fn no_locks(capabilities: Capabilities) -> Capabilities {
    capabilities.with_lock(None)
}

pub(crate) fn no_messages(capabilities: Capabilities) -> Capabilities {
    capabilities.with_publish(false)
}

pub(crate) fn no_tracking(capabilities: Capabilities) -> Capabilities {
    capabilities.with_track(false)
}

/// Declares `touch`, and cannot.
#[derive(Debug)]
pub(crate) struct CannotTouch;

#[async_trait]
impl Twist for CannotTouch {
    async fn touch(&self, _: &MemoryBackend, _: &str, _: Option<Duration>) -> Result<bool, BackendError> {
        Err(BackendError::new(ErrorKind::Unsupported, "one day"))
    }
}

/// Learns what it can do from its first answers.
#[derive(Debug, Default)]
pub(crate) struct Learns(AtomicBool);

#[async_trait]
impl Twist for Learns {
    fn capabilities(&self, inner: &MemoryBackend) -> Capabilities {
        inner.capabilities().with_persistent(self.0.load(Ordering::SeqCst))
    }
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        self.0.store(true, Ordering::SeqCst);
        inner.set(key, value, o).await
    }
}

/// `health` gives this; `None`: it fails.
#[derive(Debug)]
pub(crate) struct Health(pub(crate) Option<Duration>);

#[async_trait]
impl Twist for Health {
    async fn health(&self, _: &MemoryBackend) -> Result<BackendHealth, BackendError> {
        self.0.map(BackendHealth::new).ok_or_else(|| BackendError::new(ErrorKind::Unsupported, "no health"))
    }
}

/// Panics when it is asked how it is.
#[derive(Debug)]
pub(crate) struct HealthPanics;

#[async_trait]
impl Twist for HealthPanics {
    async fn health(&self, _: &MemoryBackend) -> Result<BackendHealth, BackendError> {
        panic!("not yet implemented");
    }
}

/// Once closed, every read is a miss.
#[derive(Debug, Default)]
pub(crate) struct MissesOnceClosed(AtomicBool);

#[async_trait]
impl Twist for MissesOnceClosed {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        if self.0.load(Ordering::SeqCst) { Ok(None) } else { inner.get(key).await }
    }
    async fn close(&self, _: &MemoryBackend) -> Result<(), BackendError> {
        self.0.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// Once closed, it is not closed but unavailable, which core takes for an outage.
#[derive(Debug, Default)]
pub(crate) struct UnavailableOnceClosed(AtomicBool);

#[async_trait]
impl Twist for UnavailableOnceClosed {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        if self.0.load(Ordering::SeqCst) {
            return Err(BackendError::new(ErrorKind::Unavailable, "broken pipe"));
        }
        inner.get(key).await
    }
    async fn close(&self, _: &MemoryBackend) -> Result<(), BackendError> {
        self.0.store(true, Ordering::SeqCst);
        Ok(())
    }
}

/// Closes once.
#[derive(Debug, Default)]
pub(crate) struct ClosesOnce(AtomicBool);

#[async_trait]
impl Twist for ClosesOnce {
    async fn close(&self, inner: &MemoryBackend) -> Result<(), BackendError> {
        if self.0.swap(true, Ordering::SeqCst) {
            return Err(BackendError::new(ErrorKind::Closed, "closed already"));
        }
        inner.close().await
    }
}
