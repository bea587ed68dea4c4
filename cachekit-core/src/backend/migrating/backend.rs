//! Two stores as one.

use super::copies::Copies;
use super::old::Old;
use crate::timer::{self, Ended};
use crate::{
    Backend, BackendError, BackendHealth, Capabilities, Changes, ErrorKind, LockToken, SetOptions, Subscription,
    TtlState, async_trait,
};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) const NAME: &str = "migrating";
/// What a `delete` or `clear` waits for: whoever calls it has a time limit of its own.
const AS_LONG_AS_IT_TAKES: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct MigratingBackend {
    new: Arc<dyn Backend>,
    old: Arc<Old>,
    copies: Arc<Copies>,
    of_old: Capabilities,
    capabilities: Capabilities,
    patience: Duration,
}

impl MigratingBackend {
    pub(super) fn new(
        new: Arc<dyn Backend>,
        old: Arc<Old>,
        copies: Arc<Copies>,
        of_old: Capabilities,
        patience: Duration,
    ) -> Self {
        let of_new = new.capabilities();
        let capabilities = of_new
            // A loop, so that each key is kept apart from those who write it.
            .with_batch(false)
            .with_clear(of_new.clear() && of_old.clear())
            // A delete of what only the old store has changes nothing in the new one, so nobody would be told.
            .with_track(false)
            .with_ttl(of_new.ttl() && of_old.ttl())
            .with_ttl_slack(of_new.ttl_slack().saturating_add(of_old.ttl_slack()));
        Self { new, old, copies, of_old, capabilities, patience }
    }

    /// What the new store holds, unless it is a copy that a write has overtaken.
    async fn found_in_new(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        let Some(value) = self.new.get(key).await? else { return Ok(None) };
        if !self.copies.is_overtaken(key, &value) {
            return Ok(Some(value));
        }
        // May take a newer value along that is written in this moment: a miss, and nothing older.
        if self.new.delete(key).await.is_ok() {
            self.copies.removed(key);
        }
        Ok(None)
    }

    /// A value that only the old store has, and how long it lives there, if it can tell.
    async fn found_in_old(&self, key: &str) -> Option<(Bytes, Option<TtlState>)> {
        if self.old.is_outdated(key) {
            return None;
        }
        let tells = self.of_old.ttl();
        let ask = |old: Arc<dyn Backend>| async move {
            let Some(value) = old.get(key).await? else { return Ok(None) };
            let state = if tells { Some(old.ttl(key).await?) } else { None };
            // It may have ended in between.
            Ok(Some((value, state)).filter(|(_, state)| *state != Some(TtlState::Missing)))
        };
        let found = self.old.ask(self.patience, ask).await.ok().flatten();
        if found.is_some() {
            self.old.hit();
        }
        found
    }

    /// What the old store answers to a question about a key that the new one does not have.
    async fn told_by_old<T, F>(&self, key: &str, ask: impl FnOnce(Arc<dyn Backend>) -> F) -> Option<T>
    where
        F: Future<Output = Result<T, BackendError>>,
    {
        if self.old.is_outdated(key) { None } else { self.old.ask(self.patience, ask).await.ok() }
    }

    /// After a write: the old store loses its copy, or it is not read again. `true` when there was one to read.
    async fn outdate(&self, key: &str, patience: Duration) -> Result<bool, BackendError> {
        let counts = !self.old.is_outdated(key);
        // Before the old store is asked, so that it holds for a caller who goes away meanwhile.
        self.old.mark_outdated(key);
        let there = self.old.ask(patience, |old| async move { old.delete(key).await }).await?;
        self.old.forget_outdated(|gone| gone == key);
        Ok(there && counts)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Backend for MigratingBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        let stripe = self.old.stripe(key);
        let writes = stripe.writes();
        if let Some(value) = self.found_in_new(key).await? {
            return Ok(Some(value));
        }
        // Without a runtime the old store cannot be asked, which is not a miss.
        drop(timer::sleep(self.patience)?);
        let guard = stripe.lock().await;
        let asked = Instant::now();
        if stripe.writes() != writes
            && let Some(value) = self.found_in_new(key).await?
        {
            return Ok(Some(value));
        }
        let Some((value, state)) = self.found_in_old(key).await else { return Ok(None) };
        let ttl = match state {
            Some(TtlState::Remaining(left)) if !left.is_zero() => Some(left),
            Some(TtlState::NoExpiry) => None,
            // It ends now, or nobody knows when: it is not taken over.
            _ => return Ok(Some(value)),
        };
        let left = self.patience.saturating_sub(asked.elapsed());
        let Some(copy) = self.copies.begin(&self.new, key, value.clone(), ttl, left) else { return Ok(Some(value)) };
        // Writers of this key see the copy, and others need not wait.
        drop(guard);
        // Without success it is still in the old store.
        if let Ok(Ended::Returned(Ok(Ok(())))) = timer::bounded(left, copy).await {
            stripe.written();
        }
        Ok(Some(value))
    }

    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        let _guard = self.old.stripe(key).lock_to_write().await;
        self.copies.overtake(key).await?;
        self.new.set(key, value, options).await?;
        // What the old store could not be told is remembered.
        let _ = self.outdate(key, self.patience).await;
        Ok(())
    }

    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        let _guard = self.old.stripe(key).lock_to_write().await;
        self.copies.overtake(key).await?;
        let in_new = self.new.delete(key).await?;
        let in_old = self.outdate(key, AS_LONG_AS_IT_TAKES).await.map_err(BackendError::maybe_applied)?;
        Ok(in_new || in_old)
    }

    async fn health(&self) -> Result<BackendHealth, BackendError> {
        let health = self.new.health().await?;
        let old = self.old.ask(self.patience, |old| async move { old.health().await }).await;
        let old = old.map_or_else(|error| error.kind().as_str(), |_| "ok");
        Ok(health.with_detail("old", old).with_detail("old_hits", self.old.hits().to_string()))
    }

    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        if self.copies.has_overtaken(key) {
            return Ok(self.get(key).await?.is_some());
        }
        if self.new.exists(key).await? {
            return Ok(true);
        }
        Ok(self.told_by_old(key, |old| async move { old.exists(key).await }).await.unwrap_or(false))
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
        if !self.capabilities.clear() {
            return Err(unsupported("clear"));
        }
        // Nothing is taken over meanwhile. Always in the same order, and nobody else holds more than one.
        let mut guards = Vec::with_capacity(self.old.stripes().len());
        for stripe in self.old.stripes() {
            guards.push(stripe.lock_to_write().await);
        }
        self.copies.overtake_all(prefix).await?;
        self.new.clear(prefix).await?;
        let in_old = |old: Arc<dyn Backend>| async move { old.clear(prefix).await };
        self.old.ask(AS_LONG_AS_IT_TAKES, in_old).await.map_err(BackendError::maybe_applied)?;
        self.old.forget_outdated(|key| key.starts_with(prefix));
        Ok(())
    }

    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        if !self.capabilities.ttl() {
            return Err(unsupported("ttl"));
        }
        if self.copies.has_overtaken(key) && self.get(key).await?.is_none() {
            return Ok(TtlState::Missing);
        }
        match self.new.ttl(key).await? {
            TtlState::Missing => {
                let told = self.told_by_old(key, |old| async move { old.ttl(key).await }).await;
                Ok(told.unwrap_or(TtlState::Missing))
            }
            state => Ok(state),
        }
    }

    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        let _guard = self.old.stripe(key).lock_to_write().await;
        self.copies.wait(key).await?;
        if self.copies.has_overtaken(key) {
            // It is removed if it is there.
            self.found_in_new(key).await?;
        }
        if !self.new.touch(key, ttl).await? {
            drop(timer::sleep(self.patience)?);
            let Some((value, _)) = self.found_in_old(key).await else { return Ok(false) };
            let hangs = || BackendError::new(ErrorKind::Timeout, "the take-over of this key takes too long");
            let copy = self.copies.begin(&self.new, key, value, ttl, self.patience).ok_or_else(hangs)?;
            match timer::bounded(self.patience, copy).await? {
                Ended::Returned(Ok(outcome)) => outcome?,
                _ => return Err(hangs().maybe_applied()),
            }
        }
        // Its copy would outlive a shorter time.
        let _ = self.outdate(key, self.patience).await;
        Ok(true)
    }

    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        self.new.try_lock(key, ttl).await
    }

    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        self.new.extend(token, ttl).await
    }

    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        self.new.unlock(token).await
    }

    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        self.new.publish(channel, payload).await
    }

    async fn subscribe(&self, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        self.new.subscribe(channel).await
    }

    async fn track(&self, prefixes: &[&str]) -> Result<Changes, BackendError> {
        let _ = prefixes;
        Err(BackendError::new(ErrorKind::Unsupported, "changes are not reported while two stores are one"))
    }

    async fn close(&self) -> Result<(), BackendError> {
        let new = self.new.close().await;
        if let Some(old) = self.old.take() {
            // Whoever else uses it opens it again.
            old.close().await?;
        }
        new
    }
}

fn unsupported(operation: &'static str) -> BackendError {
    BackendError::new(ErrorKind::Unsupported, format!("one of the two stores cannot {operation}"))
}
