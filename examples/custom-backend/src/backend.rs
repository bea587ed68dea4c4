//! The operations of the contract.

use crate::error::error;
use crate::store::Store;
use crate::tables::{NEVER, now};
use cachekit_core::{
    Backend, BackendError, BackendHealth, Bytes, Capabilities, ErrorKind, SetOptions, TtlState, async_trait,
};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

const MAX_VALUE_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct RedbBackend {
    /// `None` after `close`.
    store: Mutex<Option<Arc<Store>>>,
}

impl RedbBackend {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store: Mutex::new(Some(store)) }
    }

    /// Runs an operation on a key, which the store sees as bytes.
    async fn run<T, J>(&self, key: &str, job: J) -> Result<T, BackendError>
    where
        T: Send + 'static,
        J: FnOnce(&Store, &[u8], &Weak<()>) -> Result<T, BackendError> + Send + 'static,
    {
        if key.is_empty() {
            return Err(error(ErrorKind::KeyInvalid, "the key is empty"));
        }
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let store = store.ok_or_else(|| error(ErrorKind::Closed, "the redb backend was closed"))?;
        let key = key.to_owned();
        blocking(move |caller| job(&store, key.as_bytes(), caller)).await
    }
}

/// Runs a job on a thread that may block. It goes on when its caller goes away, and can see that in its argument.
pub(crate) async fn blocking<T, J>(job: J) -> Result<T, BackendError>
where
    T: Send + 'static,
    J: FnOnce(&Weak<()>) -> Result<T, BackendError> + Send + 'static,
{
    let runtime = Handle::try_current()
        .map_err(|_| error(ErrorKind::ConfigInvalid, "redb blocks, so it needs a Tokio runtime"))?;
    let waits = Arc::new(());
    let caller = Arc::downgrade(&waits);
    let done = runtime.spawn_blocking(move || job(&caller)).await;
    drop(waits);
    done.unwrap_or_else(|_| Err(error(ErrorKind::Unavailable, "the Tokio runtime ends").maybe_applied()))
}

fn check_ttl(ttl: Option<Duration>) -> Result<(), BackendError> {
    match ttl {
        Some(Duration::ZERO) => Err(error(ErrorKind::TtlInvalid, "the time to live is zero")),
        _ => Ok(()),
    }
}

#[async_trait]
impl Backend for RedbBackend {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
            .with_clear(true)
            .with_max_value_bytes(MAX_VALUE_BYTES)
            .with_persistent(true)
            .with_touch(true)
            .with_ttl(true)
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        self.run(key, |store, key, _| store.read(key, |_, value| Bytes::copy_from_slice(value))).await
    }

    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        check_ttl(options.ttl)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(error(ErrorKind::TooLarge, "a redb value has at most 4 MiB"));
        }
        self.run(key, move |store, key, caller| store.write(caller, |tables| tables.set(key, &value, options.ttl)))
            .await
    }

    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        self.run(key, |store, key, caller| store.write(caller, |tables| tables.delete(key))).await
    }

    async fn health(&self) -> Result<BackendHealth, BackendError> {
        let started = Instant::now();
        self.run("any", |store, key, _| store.read(key, |_, _| ())).await?;
        Ok(BackendHealth::new(started.elapsed()))
    }

    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        self.run(prefix, |store, prefix, caller| store.write(caller, |tables| tables.clear(prefix))).await
    }

    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        Ok(match self.run(key, |store, key, _| store.read(key, |end, _| end)).await? {
            None => TtlState::Missing,
            Some(NEVER) => TtlState::NoExpiry,
            Some(end) => TtlState::Remaining(Duration::from_millis(end.saturating_sub(now()))),
        })
    }

    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        check_ttl(ttl)?;
        self.run(key, move |store, key, caller| store.write(caller, |tables| tables.touch(key, ttl))).await
    }

    async fn close(&self) -> Result<(), BackendError> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(store) = store else { return Ok(()) };
        blocking(move |_| store.sweep()).await
    }
}
