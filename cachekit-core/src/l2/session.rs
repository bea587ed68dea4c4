//! The operations of one call on a built backend: bounded in time, safe from panics, reported to the breaker once.

use super::{Built, L2, panicked};
use crate::breaker::{Open, Permit};
use crate::cache::Reason;
use crate::key::{Key, Scope};
use crate::timer::{self, Ended};
use crate::{BackendError, ErrorKind, SetOptions};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What a large value may take on top of the operation timeout: one second for this many bytes.
const BYTES_PER_SECOND: u64 = 50_000_000;

/// Why there is no session.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    pub(super) cause: Cause,
}

/// Most callers go on without the backend, so the text of an open circuit is made only for those who report it.
#[derive(Debug)]
pub(super) enum Cause {
    Failed(BackendError),
    Open(Open),
}

impl Refusal {
    pub(crate) fn into_error(self) -> BackendError {
        match self.cause {
            Cause::Failed(error) => error,
            Cause::Open(open) => BackendError::new(ErrorKind::CircuitOpen, open.to_string()),
        }
    }
}

/// The right to use the backend for one call of a cache.
///
/// All its operations share one operation timeout. It ends with [`succeeded`](Self::succeeded) or
/// [`raised`](Self::raised); a session that is dropped belonged to a caller that went away.
#[derive(Debug)]
#[must_use]
pub(crate) struct Session<'a> {
    l2: &'a L2,
    backend: Built,
    /// Taken by the first failure that counts.
    permit: Option<Permit<'a>>,
    spent: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl<'a> Session<'a> {
    pub(super) fn new(l2: &'a L2, backend: Built, permit: Permit<'a>) -> Self {
        Self { l2, backend, permit: Some(permit), spent: Duration::ZERO }
    }

    pub(crate) fn max_value_bytes(&self) -> usize {
        self.backend.max_value_bytes
    }

    pub(crate) async fn get(&mut self, key: &Key) -> Result<Option<Bytes>, BackendError> {
        let backend = Arc::clone(&self.backend.backend);
        self.run(Direction::Read, 0, async { backend.get(key.stored()).await }).await
    }

    pub(crate) async fn set(&mut self, key: &Key, value: Bytes, ttl: Option<Duration>) -> Result<(), BackendError> {
        let backend = Arc::clone(&self.backend.backend);
        let (len, options) = (value.len(), SetOptions::default().with_ttl(ttl));
        self.run(Direction::Write, len, async { backend.set(key.stored(), value, options).await }).await
    }

    pub(crate) async fn delete(&mut self, key: &Key) -> Result<bool, BackendError> {
        let backend = Arc::clone(&self.backend.backend);
        self.run(Direction::Write, 0, async { backend.delete(key.stored()).await }).await
    }

    pub(crate) async fn clear(&mut self, scope: &Scope) -> Result<(), BackendError> {
        let backend = Arc::clone(&self.backend.backend);
        self.run(Direction::Write, 0, async { backend.clear(scope.prefix()).await }).await
    }

    /// The backend was there; by default that is all the breaker asks.
    pub(crate) fn succeeded(self) {
        let Some(permit) = self.permit else { return };
        permit.success();
        self.l2.events.breaker_may_have_moved(&self.l2.breaker);
    }

    /// The call ended for a reason that says nothing about the backend.
    pub(crate) fn raised(self) {
        if let Some(permit) = self.permit {
            permit.raised();
        }
    }

    async fn run<T>(
        &mut self,
        direction: Direction,
        bytes: usize,
        operation: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let result = self.bounded(direction, bytes, operation).await;
        self.l2.events.operated(self.l2.backend_name(), result.as_ref().err());
        if let Err(error) = &result {
            if error.kind() == ErrorKind::Closed {
                self.l2.discard(&self.backend.backend, error);
            }
            if self.l2.breaker.config().count_operation_errors()
                && tells_of_an_outage(error)
                && let Some(permit) = self.permit.take()
            {
                permit.failure();
                self.l2.events.breaker_may_have_moved(&self.l2.breaker);
            }
        }
        result
    }

    async fn bounded<T>(
        &mut self,
        direction: Direction,
        bytes: usize,
        operation: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let transfer = Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000 / BYTES_PER_SECOND));
        let limit = self.l2.operation_timeout.saturating_add(transfer);
        let started = Instant::now();
        let ended = timer::bounded(limit.saturating_sub(self.spent), operation).await?;
        self.spent += started.elapsed();
        match ended {
            Ended::Returned(result) => result,
            Ended::Panicked => {
                let error = panicked("an operation");
                self.l2.discard(&self.backend.backend, &error);
                Err(error)
            }
            Ended::TimedOut => {
                let error = BackendError::new(ErrorKind::Timeout, format!("no answer within {limit:?}"));
                Err(if direction == Direction::Write { error.maybe_applied() } else { error })
            }
        }
    }
}

/// Whether an operation's error counts, where operation errors do: the backend could not be reached, did not answer,
/// refused work or the credentials. A refused value, key or command says nothing about its health.
fn tells_of_an_outage(error: &BackendError) -> bool {
    error.is_temporary() || error.kind() == ErrorKind::AuthenticationFailed
}
