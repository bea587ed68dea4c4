//! Wrong as a map, or with many at once.

use crate::twist::Twist;
use cachekit_core::testing::MemoryBackend;
use cachekit_core::{Backend, BackendError, Bytes, ErrorKind, SetOptions, async_trait};
use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

/// A key that was never set is an error.
#[derive(Debug, Default)]
pub(crate) struct MissIsAnError(Mutex<HashSet<String>>);

#[async_trait]
impl Twist for MissIsAnError {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        if !key.is_empty() && !self.0.lock().unwrap().contains(key) {
            return Err(BackendError::new(ErrorKind::Protocol, "NOT_FOUND"));
        }
        inner.get(key).await
    }
    async fn exists(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        inner.exists(key).await
    }
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        self.0.lock().unwrap().insert(key.to_owned());
        inner.set(key, value, o).await
    }
}

/// Acknowledges what it has no room for.
#[derive(Debug)]
pub(crate) struct DropsWhenFull;

#[async_trait]
impl Twist for DropsWhenFull {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        if inner.len() >= 400 && inner.raw(key).is_none() {
            return Ok(());
        }
        inner.set(key, value, o).await
    }
}

/// Remembers the last 400 keys that were read, and removes what was read before.
#[derive(Debug, Default)]
pub(crate) struct EvictsWhatWasRead(Mutex<VecDeque<String>>);

#[async_trait]
impl Twist for EvictsWhatWasRead {
    async fn get(&self, inner: &MemoryBackend, key: &str) -> Result<Option<Bytes>, BackendError> {
        let found = inner.get(key).await?;
        let evicted = {
            let mut read = self.0.lock().unwrap();
            read.retain(|other| other != key);
            read.push_back(key.to_owned());
            if read.len() > 400 { read.pop_front() } else { None }
        };
        if let Some(evicted) = evicted {
            inner.delete(&evicted).await?;
        }
        Ok(found)
    }
}

/// Stores only what is not there yet.
#[derive(Debug)]
pub(crate) struct Adds;

#[async_trait]
impl Twist for Adds {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        if !key.is_empty() && inner.exists(key).await? {
            return Ok(());
        }
        inner.set(key, value, o).await
    }
}

/// Takes a new value of the old one's length for the old one.
#[derive(Debug)]
pub(crate) struct ComparesLengths;

#[async_trait]
impl Twist for ComparesLengths {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        let same = inner.raw(key).filter(|old| old.len() == value.len());
        inner.set(key, same.unwrap_or(value), o).await
    }
}

/// Takes the key out of its index, and goes on reading the entry.
#[derive(Debug, Default)]
pub(crate) struct DeletesTheIndexOnly(Mutex<HashSet<String>>);

#[async_trait]
impl Twist for DeletesTheIndexOnly {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        self.0.lock().unwrap().remove(key);
        inner.set(key, value, o).await
    }
    async fn delete(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        Ok(inner.exists(key).await? && self.0.lock().unwrap().insert(key.to_owned()))
    }
    async fn delete_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        inner.delete_many(keys).await
    }
}

/// Says that it deleted, and did not.
#[derive(Debug)]
pub(crate) struct StickyDelete;

#[async_trait]
impl Twist for StickyDelete {
    async fn delete(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        inner.exists(key).await
    }
}

/// Deletes, and always gives one answer. Many at once are right.
#[derive(Debug)]
pub(crate) struct DeleteAlwaysSays(pub(crate) bool);

#[async_trait]
impl Twist for DeleteAlwaysSays {
    async fn delete(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        inner.delete(key).await.map(|_| self.0)
    }
    async fn delete_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        inner.delete_many(keys).await
    }
}

/// Deletes what is not there, as many stores do, and calls that a success.
#[derive(Debug)]
pub(crate) struct DeletesMissing;

#[async_trait]
impl Twist for DeletesMissing {
    async fn delete(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        let unknown = inner.raw(key).is_none();
        inner.delete(key).await.map(|there| there || unknown)
    }
    async fn delete_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        inner.delete_many(keys).await
    }
}

/// Counts an entry whose time has passed, as long as nobody swept it away.
#[derive(Debug)]
pub(crate) struct DeletesExpired;

#[async_trait]
impl Twist for DeletesExpired {
    async fn delete(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        let there = inner.raw(key).is_some();
        inner.delete(key).await.map(|_| there)
    }
}

/// A filter that forgets nothing.
#[derive(Debug, Default)]
pub(crate) struct ExistsForEver(Mutex<HashSet<String>>);

#[async_trait]
impl Twist for ExistsForEver {
    async fn set(&self, inner: &MemoryBackend, key: &str, value: Bytes, o: SetOptions) -> Result<(), BackendError> {
        inner.set(key, value, o).await?;
        self.0.lock().unwrap().insert(key.to_owned());
        Ok(())
    }
    async fn exists(&self, inner: &MemoryBackend, key: &str) -> Result<bool, BackendError> {
        Ok(inner.exists(key).await? || self.0.lock().unwrap().contains(key))
    }
}

/// Asks for the keys as a database does: sorted.
#[derive(Debug)]
pub(crate) struct SortsKeys;

#[async_trait]
impl Twist for SortsKeys {
    async fn get_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        inner.get_many(&keys).await
    }
}

/// Gives only what it found.
#[derive(Debug)]
pub(crate) struct LeavesOutMisses;

#[async_trait]
impl Twist for LeavesOutMisses {
    async fn get_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        let mut results = inner.get_many(keys).await;
        results.retain(|result| !matches!(result, Ok(None)));
        results
    }
}

/// One bad key spoils the batch.
#[derive(Debug)]
pub(crate) struct FailsTogether;

#[async_trait]
impl Twist for FailsTogether {
    async fn get_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        let results = inner.get_many(keys).await;
        match results.iter().find_map(|result| result.as_ref().err()) {
            Some(error) => keys.iter().map(|_| Err(error.clone())).collect(),
            None => results,
        }
    }
}

/// Of two entries of one key the first wins.
#[derive(Debug)]
pub(crate) struct SetsBackwards;

#[async_trait]
impl Twist for SetsBackwards {
    async fn set_many(
        &self,
        inner: &MemoryBackend,
        entries: &[(&str, Bytes)],
        options: SetOptions,
    ) -> Vec<Result<(), BackendError>> {
        let backwards: Vec<_> = entries.iter().rev().cloned().collect();
        let mut results = inner.set_many(&backwards, options).await;
        results.reverse();
        results
    }
}

/// Forgets the options of a batch.
#[derive(Debug)]
pub(crate) struct SetsManyForEver;

#[async_trait]
impl Twist for SetsManyForEver {
    async fn set_many(
        &self,
        inner: &MemoryBackend,
        entries: &[(&str, Bytes)],
        _: SetOptions,
    ) -> Vec<Result<(), BackendError>> {
        inner.set_many(entries, SetOptions::default()).await
    }
}

/// Gives up at the first key that is not there.
#[derive(Debug)]
pub(crate) struct DeletesUntilAMiss;

#[async_trait]
impl Twist for DeletesUntilAMiss {
    async fn delete_many(&self, inner: &MemoryBackend, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        let mut results = Vec::new();
        let mut going_on = true;
        for key in keys {
            let result = if going_on { inner.delete(key).await } else { Ok(false) };
            going_on &= result.as_ref().is_ok_and(|there| *there);
            results.push(result);
        }
        results
    }
}
