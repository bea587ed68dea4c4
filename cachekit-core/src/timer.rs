//! Tokio's timers, without their panics.

use crate::{BackendError, ErrorKind};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;
use tokio::runtime::{Handle, Id};

thread_local! {
    /// The runtime that was last found to have no timers, so that Tokio panics over it once and not at every call.
    static TIMERLESS: Cell<Option<Id>> = const { Cell::new(None) };
}

/// A timer, or the error that says what the runtime lacks. A timer whose runtime has ended has run out.
pub(crate) fn sleep(after: Duration) -> Result<impl Future<Output = ()>, BackendError> {
    let runtime = Handle::try_current()
        .map_err(|_| {
            BackendError::new(ErrorKind::ConfigInvalid, "a backend needs a Tokio runtime, and there is none here")
        })?
        .id();
    let timerless = || {
        BackendError::new(
            ErrorKind::ConfigInvalid,
            "a backend needs a Tokio runtime with timers: call `enable_time` on the runtime's builder",
        )
    };
    if TIMERLESS.get() == Some(runtime) {
        return Err(timerless());
    }
    // Tokio has no question for "do you have timers?"; it panics.
    match catch_unwind(|| tokio::time::sleep(after)) {
        // It also panics when a timer is polled from elsewhere after its runtime has ended.
        Ok(sleep) => Ok(AssertUnwindSafe(sleep).catch_unwind().map(drop)),
        Err(_) => {
            TIMERLESS.set(Some(runtime));
            Err(timerless())
        }
    }
}

/// How a call of foreign code ended.
pub(crate) enum Ended<T> {
    Panicked,
    Returned(T),
    TimedOut,
}

/// Runs foreign code for at most this long, and survives its panics. The time is up only when the code had its chance
/// to answer.
pub(crate) async fn bounded<T>(limit: Duration, code: impl Future<Output = T>) -> Result<Ended<T>, BackendError> {
    let (code, limit) = (pin!(AssertUnwindSafe(code).catch_unwind()), pin!(sleep(limit)?));
    Ok(match select(code, limit).await {
        Either::Left((Ok(output), _)) => Ended::Returned(output),
        Either::Left((Err(_), _)) => Ended::Panicked,
        Either::Right(_) => Ended::TimedOut,
    })
}
