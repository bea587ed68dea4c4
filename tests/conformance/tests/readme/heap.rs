use cachekit_core::{
    Backend, BackendError, BackendFactory, BackendHealth, Bytes, Capabilities, ErrorKind, SetOptions, async_trait,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Entries = HashMap<String, (Bytes, Option<Instant>)>;

const MAX_VALUE_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Heap {
    entries: Mutex<Entries>,
}

impl Heap {
    /// What lives now, for an operation on this key.
    fn live(&self, key: &str) -> Result<MutexGuard<'_, Entries>, BackendError> {
        if key.is_empty() {
            return Err(BackendError::new(ErrorKind::KeyInvalid, "the empty key"));
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        entries.retain(|_, (_, end)| end.is_none_or(|end| now < end));
        Ok(entries)
    }
}

#[async_trait]
impl Backend for Heap {
    fn name(&self) -> &'static str {
        "heap"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::new().with_max_value_bytes(MAX_VALUE_BYTES)
    }
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        Ok(self.live(key)?.get(key).map(|(value, _)| value.clone()))
    }
    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        if options.ttl.is_some_and(|ttl| ttl.is_zero()) {
            return Err(BackendError::new(ErrorKind::TtlInvalid, "a time to live of zero"));
        }
        if value.len() > MAX_VALUE_BYTES {
            return Err(BackendError::new(ErrorKind::TooLarge, "more than 1 MiB"));
        }
        // A part of a millisecond counts as a whole one, and what no clock reaches is for ever.
        let ttl = options.ttl.map(|ttl| ttl.max(Duration::from_millis(1)));
        let end = ttl.and_then(|ttl| Instant::now().checked_add(ttl));
        self.live(key)?.insert(key.to_owned(), (value, end));
        Ok(())
    }
    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        Ok(self.live(key)?.remove(key).is_some())
    }
    async fn health(&self) -> Result<BackendHealth, BackendError> {
        Ok(BackendHealth::default())
    }
}

#[derive(Debug)]
struct HeapFactory;

#[async_trait]
impl BackendFactory for HeapFactory {
    fn name(&self) -> &'static str {
        "heap"
    }
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        Ok(Arc::new(Heap::default()))
    }
}
