//! The breaker around a future.

use super::{CircuitBreaker, Open, Permit};
use crate::ticks;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

impl CircuitBreaker {
    /// Runs `f` unless the circuit rejects the call.
    ///
    /// An `Err`, a panic (which goes on to the caller) and, with [`slow_call`](super::BreakerConfig::with_slow_call), a
    /// call that took longer are failures. A future that is dropped before it is ready is
    /// [abandoned](super::Abandoned): put a timeout *inside* `f` for it to count.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was rejected; then `f` did not run. [`CallError::Inner`] is the error of `f`,
    /// unchanged.
    pub async fn call<T, E, F, Fut>(&self, f: F) -> Result<T, CallError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call_excluding(|_| false, f).await
    }

    /// [`call`](Self::call), where errors that `excluded` picks are the caller's own: nothing is counted, however long
    /// the call took, and a probe gives its slot back.
    ///
    /// ```
    /// use cachekit_core::breaker::{BreakerConfig, CircuitBreaker, State};
    /// use std::io::{Error, ErrorKind};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let breaker = CircuitBreaker::new(BreakerConfig::new().with_failure_threshold(1))?;
    /// let not_found = |error: &Error| error.kind() == ErrorKind::NotFound;
    /// let read = || async { Err::<(), _>(Error::from(ErrorKind::NotFound)) };
    /// let _ = breaker.call_excluding(not_found, read).await;
    /// assert_eq!(breaker.state(), State::Closed);
    /// # Ok::<(), cachekit_core::breaker::ConfigError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn call_excluding<T, E, F, Fut>(&self, excluded: impl Fn(&E) -> bool, f: F) -> Result<T, CallError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let permit = self.admit()?;
        let limit = self.config.slow_call().map(|longest| (self.now(), ticks(longest)));
        let mut attempt = Attempt { permit: Some(permit), running: true };
        let future = f();
        attempt.running = false;

        let mut future = pin!(future);
        let result = poll_fn(|context| {
            attempt.running = true;
            let poll = future.as_mut().poll(context);
            attempt.running = false;
            poll
        })
        .await;

        let slow = limit.is_some_and(|(start, longest)| self.now().saturating_sub(start) > longest);
        let excluded = result.as_ref().is_err_and(excluded);
        if let Some(permit) = attempt.permit.take() {
            match &result {
                Err(_) if excluded => permit.raised(),
                Ok(_) if !slow => permit.success(),
                _ => permit.failure(),
            }
        }
        result.map_err(CallError::Inner)
    }
}

/// A call under way. Dropped while the closure or its future runs, it was their panic that got here; dropped at any
/// other moment, the caller left.
struct Attempt<'a> {
    permit: Option<Permit<'a>>,
    running: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.running
            && let Some(permit) = self.permit.take()
        {
            permit.failure();
        }
    }
}

/// Why a guarded call has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError<E> {
    /// The guarded closure's own error.
    #[error(transparent)]
    Inner(E),
    /// The circuit did not admit the call: nothing was called.
    #[error("{}", Open { retry_in: *retry_in })]
    Open {
        /// As [`Open::retry_in`].
        retry_in: Duration,
    },
}

impl<E> CallError<E> {
    /// The guarded closure's own error, if it ran.
    pub fn into_inner(self) -> Option<E> {
        match self {
            Self::Inner(error) => Some(error),
            Self::Open { .. } => None,
        }
    }

    /// Whether the circuit did not admit the call.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

impl<E> From<Open> for CallError<E> {
    fn from(Open { retry_in }: Open) -> Self {
        Self::Open { retry_in }
    }
}
