//! The reference implementation of [`Backend`]: every ability, nothing to install.

use super::mailbox::{Mailbox, Reader};
use super::store::{End, Store};
use crate::{
    Backend, BackendError, BackendHealth, Capabilities, Changes, Clock, ErrorKind, LockScope, LockToken, SetOptions,
    Subscription, SystemClock, TtlState, async_trait,
};
use bytes::Bytes;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A store in this process's memory, with every optional ability, for tests.
///
/// A clone is a second connection to the same store, so two caches that each hold one share an L2 as two processes do.
/// Closing one leaves the others open; a clone of a closed one is open. Expiry is exact: an entry lives for its time to
/// live, to the nanosecond of the clock.
///
/// ```
/// use cachekit_core::testing::{ManualClock, MemoryBackend};
/// use cachekit_core::{Backend, Bytes, SetOptions};
/// use std::{sync::Arc, time::Duration};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), cachekit_core::BackendError> {
/// let clock = ManualClock::new();
/// let memory = MemoryBackend::new().with_clock(Arc::new(clock.clone()));
/// let minute = SetOptions::default().with_ttl(Some(Duration::from_secs(60)));
/// memory.set("key", Bytes::from_static(b"value"), minute).await?;
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(memory.get("key").await?, None);
/// # Ok(())
/// # }
/// ```
pub struct MemoryBackend {
    capabilities: Capabilities,
    clock: Arc<dyn Clock>,
    closed: Arc<AtomicBool>,
    store: Arc<Mutex<Store>>,
}

impl MemoryBackend {
    /// An empty store on the system's clock, of values of at most 16 MiB.
    #[must_use]
    pub fn new() -> Self {
        let capabilities = Capabilities::new()
            .with_batch(true)
            .with_clear(true)
            .with_lock(Some(LockScope::Global))
            .with_max_value_bytes(16 << 20)
            .with_publish(true)
            .with_touch(true)
            .with_track(true)
            .with_ttl(true)
            .with_ttl_slack(Duration::ZERO);
        Self { capabilities, clock: Arc::new(SystemClock::new()), closed: Arc::default(), store: Arc::default() }
    }

    /// Reads the time from this clock. Set it before cloning: the entries of a store end on one clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Refuses values of more bytes than this. The default is 16 MiB.
    #[must_use]
    pub fn with_max_value_bytes(mut self, bytes: usize) -> Self {
        self.capabilities = self.capabilities.with_max_value_bytes(bytes);
        self
    }

    /// The number of live entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys().len()
    }

    /// Whether there is no live entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of the live entries, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.lock().live_keys(&*self.clock)
    }

    /// The bytes under a key as they lie in the store, even after their time has passed; also of a closed backend.
    #[must_use]
    pub fn raw(&self, key: &str) -> Option<Bytes> {
        self.lock().raw(key)
    }

    /// Puts bytes under a key, for ever and past every limit: what another program may have left there.
    pub fn insert_raw(&self, key: &str, value: impl Into<Bytes>) {
        let end = End::after(None, &*self.clock);
        self.lock().set(key, value.into(), end);
    }

    /// Ends the reports of changes, for every connection to this store, until
    /// [`resume_tracking`](Self::resume_tracking).
    pub fn cut_tracking(&self) {
        self.lock().trackers.cut();
    }

    /// Reports changes again.
    pub fn resume_tracking(&self) {
        self.lock().trackers.resume();
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store, for an operation on a key (or a prefix, or a channel).
    fn open(&self, key: &str) -> Result<MutexGuard<'_, Store>, BackendError> {
        self.check_open()?;
        if key.is_empty() {
            return Err(BackendError::new(ErrorKind::KeyInvalid, "the key is empty"));
        }
        Ok(self.lock())
    }

    fn check_open(&self) -> Result<(), BackendError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(BackendError::new(ErrorKind::Closed, "the in-memory backend was closed"));
        }
        Ok(())
    }

    fn end_after(&self, ttl: Option<Duration>) -> Result<End, BackendError> {
        if ttl.is_some_and(|ttl| ttl.is_zero()) {
            return Err(BackendError::new(ErrorKind::TtlInvalid, "the time to live is zero"));
        }
        Ok(End::after(ttl, &*self.clock))
    }

    fn lock_end_after(&self, ttl: Duration) -> Result<End, BackendError> {
        let shortest = self.capabilities.min_lock_ttl();
        if ttl < shortest {
            return Err(BackendError::new(ErrorKind::TtlInvalid, format!("a lock lives for {shortest:?} at least")));
        }
        Ok(End::after(Some(ttl), &*self.clock))
    }
}

impl Clone for MemoryBackend {
    fn clone(&self) -> Self {
        Self {
            capabilities: self.capabilities,
            clock: Arc::clone(&self.clock),
            closed: Arc::default(),
            store: Arc::clone(&self.store),
        }
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

/// Without the entries: they may be many, and a test prints its backend when it fails.
impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").field("closed", &self.closed).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Backend for MemoryBackend {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        Ok(self.open(key)?.get(key, &*self.clock))
    }

    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        let limit = self.capabilities.max_value_bytes();
        if value.len() > limit {
            let context = format!("a value of {} bytes, where {limit} are the limit", value.len());
            return Err(BackendError::new(ErrorKind::TooLarge, context));
        }
        let mut store = self.open(key)?;
        // Under the lock, so that no entry's time begins before that of one written earlier.
        let end = self.end_after(options.ttl)?;
        store.set(key, value, end);
        store.trackers.changed(key, &self.closed);
        Ok(())
    }

    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        let mut store = self.open(key)?;
        store.trackers.changed(key, &self.closed);
        Ok(store.delete(key, &*self.clock))
    }

    async fn health(&self) -> Result<BackendHealth, BackendError> {
        self.check_open()?;
        Ok(BackendHealth::default())
    }

    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        Ok(self.get(key).await?.is_some())
    }

    async fn get_many(&self, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        let mut results = Vec::with_capacity(keys.len());
        for key in keys {
            results.push(self.get(key).await);
        }
        results
    }

    async fn set_many(&self, entries: &[(&str, Bytes)], options: SetOptions) -> Vec<Result<(), BackendError>> {
        let mut results = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            results.push(self.set(key, value.clone(), options).await);
        }
        results
    }

    async fn delete_many(&self, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        let mut results = Vec::with_capacity(keys.len());
        for key in keys {
            results.push(self.delete(key).await);
        }
        results
    }

    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        let mut store = self.open(prefix)?;
        for key in store.clear(prefix) {
            store.trackers.changed(&key, &self.closed);
        }
        Ok(())
    }

    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        Ok(self.open(key)?.ttl(key, &*self.clock))
    }

    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let mut store = self.open(key)?;
        let end = self.end_after(ttl)?;
        store.trackers.changed(key, &self.closed);
        Ok(store.touch(key, end, &*self.clock))
    }

    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        let mut store = self.open(key)?;
        let end = self.lock_end_after(ttl)?;
        Ok(store.try_lock(key, end, &*self.clock))
    }

    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        let mut store = self.open(token.key())?;
        let end = self.lock_end_after(ttl)?;
        Ok(store.extend(token, end, &*self.clock))
    }

    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        Ok(self.open(token.key())?.unlock(token, &*self.clock))
    }

    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        let mut store = self.open(channel)?;
        // Under the lock: all subscribers see the messages of a channel in one order.
        for subscriber in store.subscribers(channel) {
            subscriber.put(payload.clone());
        }
        Ok(())
    }

    async fn subscribe(&self, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        let mailbox = Arc::new(Mailbox::new(Arc::clone(&self.closed)));
        self.open(channel)?.subscribe(channel, &mailbox);
        Ok(Box::new(Reader(mailbox)))
    }

    async fn track(&self, prefixes: &[&str]) -> Result<Changes, BackendError> {
        self.check_open()?;
        Ok(self.lock().trackers.add(prefixes, &self.closed))
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.closed.store(true, Ordering::SeqCst);
        let mut store = self.lock();
        store.trackers.forget(&self.closed);
        let subscribers = store.all_subscribers();
        drop(store);
        for subscriber in subscribers {
            subscriber.wake();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use crate::testing::ManualClock;

    fn at(clock: &ManualClock) -> MemoryBackend {
        MemoryBackend::new().with_clock(Arc::new(clock.clone()))
    }

    fn lives_for(ttl: Duration) -> SetOptions {
        SetOptions::default().with_ttl(Some(ttl))
    }

    #[tokio::test]
    async fn an_entry_lives_to_the_nanosecond() {
        let clock = ManualClock::new();
        let memory = at(&clock);
        memory.set("k", Bytes::new(), lives_for(Duration::from_secs(10))).await.unwrap();
        clock.advance(Duration::from_nanos(9_999_999_999));
        assert_eq!(memory.ttl("k").await.unwrap(), TtlState::Remaining(Duration::from_nanos(1)));
        clock.advance(Duration::from_nanos(1));
        assert_eq!((memory.get("k").await.unwrap(), memory.len()), (None, 0));
        assert_eq!(memory.raw("k"), Some(Bytes::new()));
        assert!(!memory.delete("k").await.unwrap());
    }

    #[tokio::test]
    async fn the_wall_clock_has_no_say() {
        let clock = ManualClock::new();
        let memory = at(&clock);
        memory.set("k", Bytes::new(), lives_for(Duration::from_secs(10))).await.unwrap();
        clock.shift_wall(1_000_000_000);
        assert!(memory.exists("k").await.unwrap());
    }

    #[tokio::test]
    async fn a_clone_is_a_connection_of_its_own_to_the_same_store() {
        let one = MemoryBackend::new();
        let two = one.clone();
        let mut messages = one.subscribe("news").await.unwrap();
        one.set("k", Bytes::from_static(b"v"), SetOptions::default()).await.unwrap();
        two.publish("news", Bytes::from_static(b"m")).await.unwrap();
        assert_eq!(messages.next().await.unwrap(), Message::Payload(Bytes::from_static(b"m")));
        one.close().await.unwrap();
        assert_eq!(one.get("k").await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(messages.next().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(two.get("k").await.unwrap().as_deref(), Some(&b"v"[..]));
        assert_eq!(one.keys(), ["k"]);
    }

    #[tokio::test]
    async fn closing_wakes_a_reader_that_waits() {
        let memory = Arc::new(MemoryBackend::new());
        let mut messages = memory.subscribe("news").await.unwrap();
        let reader = tokio::spawn(async move { messages.next().await });
        tokio::task::yield_now().await;
        memory.close().await.unwrap();
        assert_eq!(reader.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_what_it_missed() {
        let memory = MemoryBackend::new();
        let mut messages = memory.subscribe("news").await.unwrap();
        for number in 0..=1_024_u32 {
            memory.publish("news", Bytes::copy_from_slice(&number.to_be_bytes())).await.unwrap();
        }
        assert_eq!(messages.next().await.unwrap(), Message::Lost);
        assert_eq!(messages.next().await.unwrap(), Message::Payload(Bytes::copy_from_slice(&1_u32.to_be_bytes())));
    }

    #[tokio::test]
    async fn what_another_program_left_is_read_as_it_is() {
        let memory = MemoryBackend::new().with_max_value_bytes(1);
        memory.insert_raw("k", "not an entry");
        assert_eq!(memory.get("k").await.unwrap().as_deref(), Some(&b"not an entry"[..]));
        let refused = memory.set("k", Bytes::from_static(b"12"), SetOptions::default()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
    }
}
