//! Values of the old store on their way into the new one.
//!
//! A copy goes on when its caller has left, and the new store may take its time. A write of the key waits for it, but not
//! for ever. A copy that a write has overtaken is removed when it lands; until then it is known by its content, and not read.

use crate::timer::{self, Ended};
use crate::{Backend, BackendError, ErrorKind, SetOptions};
use bytes::Bytes;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How many keys may be on their way, or may have landed without a word. Then nothing more is taken over.
const MOST: usize = 10_000;
/// After this a store has lost the copy, or has applied it without a word.
const LONGEST: Duration = Duration::from_secs(60);

/// Shared by all backends of a factory.
#[derive(Debug, Default)]
pub(super) struct Copies {
    records: Mutex<HashMap<String, Record>>,
    hasher: RandomState,
}

/// Stays while the copy may still land.
#[derive(Debug)]
struct Record {
    content: u64,
    /// A write came after it.
    overtaken: bool,
    /// Nobody sends: this ends with the task, however that ends.
    under_way: watch::Receiver<()>,
    begun: Instant,
    /// How long from then a write waits.
    patience: Duration,
}

impl Record {
    fn has_ended(&self) -> bool {
        self.under_way.has_changed().is_err()
    }
}

impl Copies {
    /// Begins to copy a value that only the old store has, in a task; the caller keeps writers of the key away meanwhile.
    /// `None` while another copy of the key may still land.
    pub(super) fn begin(
        self: &Arc<Self>,
        new: &Arc<dyn Backend>,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        patience: Duration,
    ) -> Option<JoinHandle<Result<(), BackendError>>> {
        let runtime = Handle::try_current().ok()?;
        let content = self.content(&value);
        let (running, under_way) = watch::channel(());
        {
            let mut records = self.records();
            if records.len() >= MOST || records.contains_key(key) {
                return None;
            }
            records.insert(
                key.to_owned(),
                Record { content, overtaken: false, under_way, begun: Instant::now(), patience },
            );
        }
        let (copies, new, key) = (Arc::clone(self), Arc::clone(new), key.to_owned());
        Some(runtime.spawn(async move {
            let outcome = copies.copy(&*new, &key, value, ttl).await;
            drop(running);
            outcome
        }))
    }

    async fn copy(
        &self,
        new: &dyn Backend,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Result<(), BackendError> {
        let set = new.set(key, value, SetOptions::default().with_ttl(ttl));
        let outcome = match timer::bounded(LONGEST, set).await {
            Ok(Ended::Returned(outcome)) => outcome,
            Ok(Ended::TimedOut) => Err(BackendError::new(ErrorKind::Timeout, "the take-over hung").maybe_applied()),
            Ok(Ended::Panicked) => Err(BackendError::new(ErrorKind::Closed, "the take-over panicked").maybe_applied()),
            Err(error) => Err(error),
        };
        let is_settled = outcome.as_ref().map_or_else(|error| !error.may_be_applied(), |()| true);
        if is_settled && self.forget(key, |record| !record.overtaken) {
            return outcome;
        }
        if self.has_overtaken(key) {
            let removed = timer::bounded(LONGEST, self.remove_overtaken(new, key)).await;
            if is_settled && matches!(removed, Ok(Ended::Returned(Ok(())))) {
                self.forget(key, |_| true);
            }
        }
        outcome
    }

    /// May take a newer value away that is written in this moment: a miss, and nothing older.
    async fn remove_overtaken(&self, new: &dyn Backend, key: &str) -> Result<(), BackendError> {
        if let Some(value) = new.get(key).await?
            && self.is_overtaken(key, &value)
        {
            new.delete(key).await?;
        }
        Ok(())
    }

    /// Waits for the copy of a key, as long as a write may.
    ///
    /// # Errors
    ///
    /// When there is no runtime to wait in.
    pub(super) async fn wait(&self, key: &str) -> Result<(), BackendError> {
        let waiting = self
            .records()
            .get(key)
            .map(|record| (record.under_way.clone(), record.patience.saturating_sub(record.begun.elapsed())));
        if let Some((mut under_way, left)) = waiting {
            timer::bounded(left, under_way.changed()).await?;
        }
        Ok(())
    }

    /// Before a write is sent: a copy that has not landed for sure by then is not to be read any more.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub(super) async fn overtake(&self, key: &str) -> Result<(), BackendError> {
        self.wait(key).await?;
        if let Some(record) = self.records().get_mut(key) {
            record.overtaken = true;
        }
        Ok(())
    }

    /// [`overtake`](Self::overtake) for every key with this prefix.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub(super) async fn overtake_all(&self, prefix: &str) -> Result<(), BackendError> {
        let keys: Vec<String> = self.records().keys().filter(|key| key.starts_with(prefix)).cloned().collect();
        for key in keys {
            self.overtake(&key).await?;
        }
        Ok(())
    }

    /// Whether the new store may hold an overtaken copy under this key.
    pub(super) fn has_overtaken(&self, key: &str) -> bool {
        self.records().get(key).is_some_and(|record| record.overtaken)
    }

    /// Whether what the new store holds is an overtaken copy.
    pub(super) fn is_overtaken(&self, key: &str, value: &Bytes) -> bool {
        // Next to no key has a record, and a value may be long.
        if !self.records().contains_key(key) {
            return false;
        }
        let content = self.content(value);
        let mut records = self.records();
        let Some(record) = records.get(key).filter(|record| record.content == content) else { return false };
        let overtaken = record.overtaken;
        if !overtaken && record.has_ended() {
            // Nobody could say whether it would land, and it has.
            records.remove(key);
        }
        overtaken
    }

    /// An overtaken copy has landed and is removed. One that is under way finds out itself.
    pub(super) fn removed(&self, key: &str) {
        self.forget(key, Record::has_ended);
    }

    fn forget(&self, key: &str, which: impl Fn(&Record) -> bool) -> bool {
        let mut records = self.records();
        let is_over = records.get(key).is_some_and(which);
        if is_over {
            records.remove(key);
        }
        is_over
    }

    fn content(&self, value: &Bytes) -> u64 {
        self.hasher.hash_one(value)
    }

    fn records(&self) -> MutexGuard<'_, HashMap<String, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
