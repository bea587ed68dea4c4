//! A backend that fails when a test says so.

use super::{Corruption, Fault, Faults, Op};
use crate::{
    Backend, BackendError, BackendHealth, Capabilities, Changes, ErrorKind, LockToken, SetOptions, Subscription,
    TtlState, async_trait,
};
use bytes::Bytes;
use std::time::Duration;

/// Wraps any backend, and fails as its [`Faults`] say: not at all, until a test plans something.
///
/// Name and capabilities are those of the wrapped backend.
#[derive(Debug)]
pub struct FaultyBackend<B> {
    inner: B,
    faults: Faults,
}

/// What is left to do once the wrapped backend has answered.
enum Afterwards {
    Corrupt(Corruption),
    Fail(BackendError),
    Lie,
    Nothing,
    Swap(String),
    Tear,
}

impl<B: Backend> FaultyBackend<B> {
    /// Wraps a backend, without a fault.
    pub fn new(inner: B) -> Self {
        Self::with_faults(inner, &Faults::new())
    }

    /// Wraps a backend that fails as this handle says; several backends may share one.
    pub fn with_faults(inner: B, faults: &Faults) -> Self {
        Self { inner, faults: faults.clone() }
    }

    /// The handle that plans faults and counts calls.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// The wrapped backend.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    #[expect(clippy::panic, reason = "a test asked for it")]
    async fn begin(&self, op: Op) -> Result<Afterwards, BackendError> {
        match self.faults.take(op) {
            None => Ok(Afterwards::Nothing),
            Some(Fault::ApplyThenFail(kind)) => Ok(Afterwards::Fail(injected(op, kind).maybe_applied())),
            Some(Fault::Corrupt(how)) => Ok(Afterwards::Corrupt(how)),
            Some(Fault::Delay(by)) => {
                tokio::time::sleep(by).await;
                Ok(Afterwards::Nothing)
            }
            Some(Fault::Fail(kind)) => Err(injected(op, kind)),
            Some(Fault::Lie) => Ok(Afterwards::Lie),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Panic) => panic!("injected into {op:?}"),
            Some(Fault::TornWrite) => Ok(Afterwards::Tear),
            Some(Fault::WrongValue(key)) => Ok(Afterwards::Swap(key)),
        }
    }

    async fn call<T: Send>(
        &self,
        op: Op,
        call: impl Future<Output = Result<T, BackendError>> + Send,
    ) -> Result<T, BackendError> {
        match self.begin(op).await? {
            Afterwards::Fail(error) => {
                call.await?;
                Err(error)
            }
            _ => call.await,
        }
    }

    /// As [`call`](Self::call), with the answer of one that only claims to have done it.
    async fn call_or_say<T: Send>(
        &self,
        op: Op,
        done: T,
        call: impl Future<Output = Result<T, BackendError>> + Send,
    ) -> Result<T, BackendError> {
        match self.begin(op).await? {
            Afterwards::Fail(error) => {
                call.await?;
                Err(error)
            }
            Afterwards::Lie => Ok(done),
            _ => call.await,
        }
    }

    async fn call_many<T: Send>(
        &self,
        op: Op,
        count: usize,
        call: impl Future<Output = Vec<Result<T, BackendError>>> + Send,
    ) -> Vec<Result<T, BackendError>> {
        match self.begin(op).await {
            Err(error) => failed(&error, count),
            Ok(Afterwards::Fail(error)) => {
                call.await;
                failed(&error, count)
            }
            Ok(_) => call.await,
        }
    }
}

fn injected(op: Op, kind: ErrorKind) -> BackendError {
    BackendError::new(kind, format!("injected into {op:?}"))
}

fn failed<T>(error: &BackendError, count: usize) -> Vec<Result<T, BackendError>> {
    (0..count).map(|_| Err(error.clone())).collect()
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<B: Backend> Backend for FaultyBackend<B> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        match self.begin(Op::Get).await? {
            Afterwards::Corrupt(how) => Ok(self.inner.get(key).await?.map(|value| how.apply(&value))),
            Afterwards::Fail(error) => {
                self.inner.get(key).await?;
                Err(error)
            }
            Afterwards::Lie => Ok(None),
            Afterwards::Nothing | Afterwards::Tear => self.inner.get(key).await,
            Afterwards::Swap(other) => self.inner.get(&other).await,
        }
    }

    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        match self.begin(Op::Set).await? {
            Afterwards::Fail(error) => {
                self.inner.set(key, value, options).await?;
                Err(error)
            }
            Afterwards::Lie => Ok(()),
            Afterwards::Tear => self.inner.set(key, Corruption::Truncate.apply(&value), options).await,
            _ => self.inner.set(key, value, options).await,
        }
    }

    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        self.call_or_say(Op::Delete, true, self.inner.delete(key)).await
    }

    async fn health(&self) -> Result<BackendHealth, BackendError> {
        self.call(Op::Health, self.inner.health()).await
    }

    async fn exists(&self, key: &str) -> Result<bool, BackendError> {
        self.call(Op::Exists, self.inner.exists(key)).await
    }

    async fn get_many(&self, keys: &[&str]) -> Vec<Result<Option<Bytes>, BackendError>> {
        match self.begin(Op::GetMany).await {
            Err(error) => failed(&error, keys.len()),
            Ok(Afterwards::Corrupt(how)) => {
                let mut results = self.inner.get_many(keys).await;
                for value in results.iter_mut().filter_map(|result| result.as_mut().ok()?.as_mut()) {
                    *value = how.apply(value);
                }
                results
            }
            Ok(Afterwards::Fail(error)) => {
                self.inner.get_many(keys).await;
                failed(&error, keys.len())
            }
            Ok(Afterwards::Lie | Afterwards::Nothing | Afterwards::Tear) => self.inner.get_many(keys).await,
            Ok(Afterwards::Swap(other)) => self.inner.get_many(&vec![other.as_str(); keys.len()]).await,
        }
    }

    async fn set_many(&self, entries: &[(&str, Bytes)], options: SetOptions) -> Vec<Result<(), BackendError>> {
        self.call_many(Op::SetMany, entries.len(), self.inner.set_many(entries, options)).await
    }

    async fn delete_many(&self, keys: &[&str]) -> Vec<Result<bool, BackendError>> {
        self.call_many(Op::DeleteMany, keys.len(), self.inner.delete_many(keys)).await
    }

    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        self.call_or_say(Op::Clear, (), self.inner.clear(prefix)).await
    }

    async fn ttl(&self, key: &str) -> Result<TtlState, BackendError> {
        self.call(Op::Ttl, self.inner.ttl(key)).await
    }

    async fn touch(&self, key: &str, ttl: Option<Duration>) -> Result<bool, BackendError> {
        self.call(Op::Touch, self.inner.touch(key, ttl)).await
    }

    async fn try_lock(&self, key: &str, ttl: Duration) -> Result<Option<LockToken>, BackendError> {
        self.call(Op::TryLock, self.inner.try_lock(key, ttl)).await
    }

    async fn extend(&self, token: &LockToken, ttl: Duration) -> Result<bool, BackendError> {
        self.call(Op::Extend, self.inner.extend(token, ttl)).await
    }

    async fn unlock(&self, token: &LockToken) -> Result<bool, BackendError> {
        self.call(Op::Unlock, self.inner.unlock(token)).await
    }

    async fn publish(&self, channel: &str, payload: Bytes) -> Result<(), BackendError> {
        self.call(Op::Publish, self.inner.publish(channel, payload)).await
    }

    async fn subscribe(&self, channel: &str) -> Result<Box<dyn Subscription>, BackendError> {
        self.call(Op::Subscribe, self.inner.subscribe(channel)).await
    }

    async fn track(&self, prefixes: &[&str]) -> Result<Changes, BackendError> {
        self.call(Op::Track, self.inner.track(prefixes)).await
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.call(Op::Close, self.inner.close()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryBackend;
    use tokio::time::{Instant, timeout};

    const VALUE: Bytes = Bytes::from_static(b"value");

    async fn with_an_entry() -> (FaultyBackend<MemoryBackend>, Faults) {
        let backend = FaultyBackend::new(MemoryBackend::new());
        backend.inner().insert_raw("k", VALUE);
        backend.inner().insert_raw("other", "another");
        let faults = backend.faults();
        (backend, faults)
    }

    #[tokio::test]
    async fn a_lost_answer_leaves_the_write() {
        let (backend, faults) = with_an_entry().await;
        faults.apply_then_fail(Op::Set);
        let error = backend.set("new", VALUE, SetOptions::default()).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Timeout && error.may_be_applied());
        assert_eq!(backend.inner().raw("new"), Some(VALUE));
    }

    #[tokio::test]
    async fn a_failed_write_leaves_nothing() {
        let (backend, faults) = with_an_entry().await;
        faults.fail_next(Op::Set, 1, ErrorKind::OutOfSpace);
        assert!(!backend.set("new", VALUE, SetOptions::default()).await.unwrap_err().may_be_applied());
        assert_eq!(backend.inner().raw("new"), None);
        backend.set("new", VALUE, SetOptions::default()).await.unwrap();
    }

    #[tokio::test]
    async fn values_are_damaged_or_swapped() {
        let (backend, faults) = with_an_entry().await;
        faults.corrupt(Corruption::FlipBit);
        assert_eq!(backend.get("k").await.unwrap().as_deref(), Some(&b"vamue"[..]));
        faults.corrupt(Corruption::Truncate);
        assert_eq!(backend.get_many(&["k"]).await[0].as_ref().unwrap().as_deref(), Some(&b"va"[..]));
        faults.wrong_value("other");
        assert_eq!(backend.get("k").await.unwrap().as_deref(), Some(&b"another"[..]));
        assert_eq!(backend.get_many(&["k", "k"]).await.len(), 2);
    }

    #[tokio::test]
    async fn writes_are_torn_or_not_done_at_all() {
        let (backend, faults) = with_an_entry().await;
        faults.next(Op::Set, 1, Fault::TornWrite);
        backend.set("torn", VALUE, SetOptions::default()).await.unwrap();
        assert_eq!(backend.get("torn").await.unwrap().as_deref(), Some(&b"va"[..]));
        for op in [Op::Set, Op::Delete, Op::Clear, Op::Get] {
            faults.next(op, 1, Fault::Lie);
        }
        backend.set("k", Bytes::from_static(b"new"), SetOptions::default()).await.unwrap();
        assert!(backend.delete("k").await.unwrap());
        backend.clear("k").await.unwrap();
        assert_eq!(backend.get("k").await.unwrap(), None);
        assert_eq!(backend.get("k").await.unwrap(), Some(VALUE), "nothing of it was done");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_late_or_never_end() {
        let (backend, faults) = with_an_entry().await;
        faults.delay(Op::Get, Duration::from_secs(2));
        let start = Instant::now();
        backend.get("k").await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        faults.hang(Op::Get);
        timeout(Duration::from_secs(3_600), backend.get("k")).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_batch_fails_as_many_times_as_it_has_keys() {
        let (backend, faults) = with_an_entry().await;
        faults.down(ErrorKind::Unavailable);
        assert_eq!(backend.delete_many(&["k", "other"]).await.len(), 2);
        assert_eq!(backend.inner().len(), 2);
        assert_eq!(faults.calls(Op::DeleteMany), 1);
    }

    #[tokio::test]
    #[should_panic(expected = "injected into Health")]
    async fn a_panic_is_a_panic() {
        let (backend, faults) = with_an_entry().await;
        faults.panic_next(Op::Health);
        let _ = backend.health().await;
    }
}
