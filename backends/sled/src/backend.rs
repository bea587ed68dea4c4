//! The operations, and where they run.

use crate::cancel::Cancel;
use crate::databases::{Database, StoreInUse, wait_until_closed};
use crate::error::closed;
use crate::lock::MIN_TTL;
use crate::opening::hung;
use crate::{Execution, SledConfig};
use cachekit_core::{
    Backend, BackendError, BackendHealth, Bytes, Capabilities, ErrorKind, LockScope, LockToken, SetOptions, TtlState,
    async_trait,
};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::{JoinError, JoinHandle};

pub(crate) const NAME: &str = "sled";
/// How long `close` waits for the directory to be free for others.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct SledBackend {
    /// `None` after `close`.
    database: Mutex<Option<Arc<Database>>>,
    jobs: Arc<Semaphore>,
    max_value_bytes: usize,
    execution: Execution,
}

impl SledBackend {
    pub(crate) fn new(database: Arc<Database>, config: &SledConfig) -> Self {
        Self {
            jobs: database.jobs.clone(),
            database: Mutex::new(Some(database)),
            max_value_bytes: config.largest_value(),
            execution: config.execution(),
        }
    }

    fn database(&self) -> Result<Arc<Database>, BackendError> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        database.clone().ok_or_else(|| closed("the sled backend was closed"))
    }

    /// Runs a job where it may block.
    async fn run<T, J>(&self, job: J) -> Result<T, BackendError>
    where
        T: Send + 'static,
        J: FnOnce(&StoreInUse, &Cancel) -> Result<T, BackendError> + Send + 'static,
    {
        let cancel = Cancel::default();
        if self.execution == Execution::Inline {
            let store = self.database()?.store()?;
            return job(&store, &cancel);
        }
        let runtime = runtime()?;
        // The permit goes with the job: a job whose caller left still counts.
        let permit = self.jobs.clone().acquire_owned().await.map_err(|_| closed("the sled backend was closed"))?;
        let store = self.database()?.store()?;
        let given_up = store.given_up.subscribe();
        let _cancel_on_drop = cancel.on_drop();
        let work = move || {
            let result = job(&store, &cancel);
            drop((store, permit));
            result
        };
        // Tokio panics when it cannot start the first of its threads.
        let running = catch_unwind(AssertUnwindSafe(|| runtime.spawn_blocking(work)))
            .map_err(|_| BackendError::new(ErrorKind::Overloaded, "no thread for a blocking call"))?;
        let ended = ended_or_given_up(running, given_up).await;
        ended.ok_or_else(|| closed("sled hangs; open it anew").maybe_applied())?.map_err(|error| {
            match error.is_cancelled() {
                true => BackendError::new(ErrorKind::Unavailable, "the Tokio runtime is shutting down"),
                false => BackendError::new(ErrorKind::Internal, "a sled job panicked").maybe_applied(),
            }
        })?
    }

    /// As [`run`](Self::run), for a job with one result per key; what keeps it from running is everyone's error.
    async fn run_many<T, J>(&self, count: usize, job: J) -> Vec<Result<T, BackendError>>
    where
        T: Send + 'static,
        J: FnOnce(&StoreInUse, &Cancel) -> Vec<Result<T, BackendError>> + Send + 'static,
    {
        if count == 0 {
            return Vec::new();
        }
        match self.run(move |store, cancel| Ok(job(store, cancel))).await {
            Ok(results) => results,
            Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
        }
    }
}

/// What a job came to; `None` when sled never comes back from some job, maybe this one.
async fn ended_or_given_up<T>(
    running: JoinHandle<T>,
    mut given_up: watch::Receiver<bool>,
) -> Option<Result<T, JoinError>> {
    let mut running = pin!(running);
    let mut given_up = pin!(given_up.wait_for(|given_up| *given_up));
    let mut may_be_given_up = true;
    poll_fn(|context| {
        if let Poll::Ready(ended) = running.as_mut().poll(context) {
            return Poll::Ready(Some(ended));
        }
        match may_be_given_up.then(|| given_up.as_mut().poll(context)) {
            Some(Poll::Ready(Ok(_))) => Poll::Ready(None),
            // The store is gone, so the job is as good as done.
            Some(Poll::Ready(Err(_))) => {
                may_be_given_up = false;
                Poll::Pending
            }
            Some(Poll::Pending) | None => Poll::Pending,
        }
    })
    .await
}

pub(crate) fn runtime() -> Result<Handle, BackendError> {
    Handle::try_current().map_err(|_| {
        BackendError::new(ErrorKind::ConfigInvalid, "sled needs a Tokio runtime to keep its blocking calls apart")
    })
}

#[async_trait]
impl Backend for SledBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
            .with_batch(true)
            .with_clear(true)
            .with_lock(Some(LockScope::Process))
            .with_max_value_bytes(self.max_value_bytes)
            .with_min_lock_ttl(MIN_TTL)
            .with_persistent(true)
            .with_touch(true)
            .with_ttl(true)
            .with_ttl_slack(Duration::from_millis(1))
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        let key = key.to_owned();
        self.run(move |store, _| store.get(&key)).await
    }

    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        let (key, max) = (key.to_owned(), self.max_value_bytes);
        self.run(move |store, cancel| store.set(&key, &value, options.ttl, max, cancel)).await
    }

    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        let key = key.to_owned();
        self.run(move |store, cancel| store.delete(&key, cancel)).await
    }

    async fn health(&self) -> Result<BackendHealth, BackendError> {
        let started = Instant::now();
        let database = self.database()?;
        let details = self.run(|store, _| store.health()).await?;
        let mut health = BackendHealth::new(started.elapsed());
        for (name, value) in details {
            health = health.with_detail(name, value);
        }
        if let Some(aside) = database.set_aside() {
            health = health.with_detail("set_aside", aside.display().to_string());
        }
        if hung() > 0 {
            health = health.with_detail("hung_threads", hung().to_string());
        }
        Ok(health)
    }

    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        let key = key.to_owned();
        self.run(move |store, _| store.exists(&key)).await
    }

    async fn get_many(&self, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        let keys = owned(keys);
        self.run_many(keys.len(), move |store, _| keys.iter().map(|key| store.get(key)).collect()).await
    }

    async fn set_many(&self, entries: &[(&str, Bytes)], options: SetOptions) -> Vec<Result<(), BackendError>> {
        let entries: Vec<_> = entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let max = self.max_value_bytes;
        self.run_many(entries.len(), move |store, cancel| {
            entries.iter().map(|(key, value)| store.set(key, value, options.ttl, max, cancel)).collect()
        })
        .await
    }

    async fn delete_many(&self, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        let keys = owned(keys);
        self.run_many(keys.len(), move |store, cancel| keys.iter().map(|key| store.delete(key, cancel)).collect()).await
    }

    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        let prefix = prefix.to_owned();
        self.run(move |store, cancel| store.clear(&prefix, cancel)).await
    }

    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        let key = key.to_owned();
        self.run(move |store, _| store.ttl(&key)).await
    }

    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let key = key.to_owned();
        self.run(move |store, cancel| store.touch(&key, ttl, cancel)).await
    }

    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        let database = self.database()?;
        database.locks.try_lock(key, ttl, &*database.time)
    }

    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        let database = self.database()?;
        database.locks.extend(token, ttl, &*database.time)
    }

    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        let database = self.database()?;
        Ok(database.locks.unlock(token, &*database.time))
    }

    async fn close(&self) -> Result<(), BackendError> {
        let Some(database) = self.database.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        // A thread of its own, which finishes even if nobody waits for it any more, and needs no runtime.
        let (done, closed) = oneshot::channel();
        thread::Builder::new()
            .name("cachekit-sled-close".to_owned())
            .spawn(move || done.send(flush_and_let_go(database)))
            .map_err(|error| BackendError::new(ErrorKind::Overloaded, "no thread to flush on").with_source(error))?;
        closed.await.map_err(|_| BackendError::new(ErrorKind::Internal, "the flush of sled panicked"))?
    }
}

fn flush_and_let_go(database: Arc<Database>) -> Result<(), BackendError> {
    let flushed = database.store().and_then(|store| store.flush());
    let path = database.path().to_owned();
    drop(database);
    // Without effect when another backend has it open.
    wait_until_closed(&path, CLOSE_PATIENCE);
    flushed
}

fn owned(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}
