//! The store that is being left: asked with care, and remembered to be wrong where it is.

use crate::timer::{self, Ended};
use crate::{Backend, BackendError, BackendFactory, Capabilities, ErrorKind};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::MutexGuard as AsyncGuard;
use tokio::time::Instant;

/// How long it is left alone after a failure.
const REST: Duration = Duration::from_secs(1);
/// How many keys are remembered whose copy could not be removed.
const MOST_OUTDATED: usize = 10_000;
const STRIPES: usize = 64;

/// Shared by all backends of a factory, also by those that are built after another was lost.
#[derive(Debug)]
pub(super) struct Old {
    factory: Arc<dyn BackendFactory>,
    capabilities: OnceLock<Capabilities>,
    slot: Mutex<Slot>,
    outdated: Mutex<Outdated>,
    hits: AtomicU64,
    hasher: RandomState,
    stripes: Vec<Stripe>,
}

#[derive(Debug, Default)]
struct Slot {
    backend: Option<Arc<dyn Backend>>,
    rests_until: Option<Instant>,
}

/// Keys of which the old store may have a copy that is not to be read.
#[derive(Debug, Default)]
struct Outdated {
    keys: HashSet<String>,
    /// There were too many: no copy is to be read.
    all: bool,
}

/// Keeps taking over and writing apart, for the keys that share it.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    lock: tokio::sync::Mutex<()>,
    writes: AtomicU64,
}

impl Stripe {
    /// Changes with every write.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    pub(super) async fn lock(&self) -> AsyncGuard<'_, ()> {
        self.lock.lock().await
    }

    /// For a write, until the guard is dropped.
    pub(super) async fn lock_to_write(&self) -> Writing<'_> {
        Writing { stripe: self, _lock: self.lock().await }
    }

    /// Whoever waits for the lock has to look into the new store again.
    pub(super) fn written(&self) {
        self.writes.fetch_add(1, Ordering::SeqCst);
    }
}

/// A write that is under way. It counts when it is over, also for a caller who went away in the middle.
#[derive(Debug)]
pub(super) struct Writing<'s> {
    stripe: &'s Stripe,
    _lock: AsyncGuard<'s, ()>,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.stripe.written();
    }
}

impl Old {
    pub(super) fn new(factory: Arc<dyn BackendFactory>) -> Self {
        Self {
            factory,
            capabilities: OnceLock::new(),
            slot: Mutex::default(),
            outdated: Mutex::default(),
            hits: AtomicU64::new(0),
            hasher: RandomState::new(),
            stripes: std::iter::repeat_with(Stripe::default).take(STRIPES).collect(),
        }
    }

    /// What it can do. Builds it the first time.
    pub(super) async fn capabilities(&self) -> Result<Capabilities, BackendError> {
        if let Some(known) = self.capabilities.get() {
            return Ok(*known);
        }
        let backend = self.factory.build().await?;
        let capabilities = *self.capabilities.get_or_init(|| backend.capabilities());
        self.slot().backend = Some(backend);
        Ok(capabilities)
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub(super) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stripe(&self, key: &str) -> &Stripe {
        let hash = self.hasher.hash_one(key) % STRIPES as u64;
        &self.stripes[usize::try_from(hash).unwrap_or_default()]
    }

    pub(super) fn stripes(&self) -> &[Stripe] {
        &self.stripes
    }

    /// Whether its copy of the key must not be read.
    pub(super) fn is_outdated(&self, key: &str) -> bool {
        let outdated = self.outdated();
        outdated.all || outdated.keys.contains(key)
    }

    pub(super) fn mark_outdated(&self, key: &str) {
        let mut outdated = self.outdated();
        if outdated.keys.len() >= MOST_OUTDATED && !outdated.keys.contains(key) {
            outdated.all = true;
            outdated.keys = HashSet::new();
        }
        if !outdated.all {
            outdated.keys.insert(key.to_owned());
        }
    }

    /// Its copies of these keys are gone.
    pub(super) fn forget_outdated(&self, gone: impl Fn(&str) -> bool) {
        self.outdated().keys.retain(|key| !gone(key));
    }

    /// Asks it, for so long at most; a failure is followed by a rest.
    pub(super) async fn ask<T, F>(
        &self,
        patience: Duration,
        job: impl FnOnce(Arc<dyn Backend>) -> F,
    ) -> Result<T, BackendError>
    where
        F: Future<Output = Result<T, BackendError>>,
    {
        let kept = {
            let slot = self.slot();
            if slot.rests_until.is_some_and(|end| Instant::now() < end) {
                return Err(BackendError::new(ErrorKind::Unavailable, "the old store has just failed, and rests"));
            }
            slot.backend.clone()
        };
        let answer = async {
            let backend = match kept {
                Some(backend) => backend,
                None => {
                    let built = self.factory.build().await?;
                    self.slot().backend = Some(Arc::clone(&built));
                    built
                }
            };
            job(backend).await
        };
        let error = match timer::bounded(patience, answer).await? {
            Ended::Returned(Ok(value)) => return Ok(value),
            Ended::Returned(Err(error)) => error,
            Ended::TimedOut => {
                let context = format!("the old store did not answer within {patience:?}");
                BackendError::new(ErrorKind::Timeout, context).maybe_applied()
            }
            Ended::Panicked => BackendError::new(ErrorKind::Closed, "the old store panicked"),
        };
        let closed = error.kind() == ErrorKind::Closed;
        // One that refuses this key or this value is well.
        if closed || error.is_temporary() {
            let mut slot = self.slot();
            slot.rests_until = Some(Instant::now() + REST);
            slot.backend = slot.backend.take().filter(|_| !closed);
        }
        Err(error)
    }

    /// Lets go of it until it is asked again.
    pub(super) fn take(&self) -> Option<Arc<dyn Backend>> {
        self.slot().backend.take()
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outdated(&self) -> MutexGuard<'_, Outdated> {
        self.outdated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
