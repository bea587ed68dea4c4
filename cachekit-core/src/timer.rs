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
    let lacks = |what| BackendError::new(ErrorKind::ConfigInvalid, what);
    // A task is always one of a runtime. Asked first: a handle is counted, and all threads would count at the same place.
    if tokio::task::try_id().is_none() && Handle::try_current().is_err() {
        return Err(lacks("a backend needs a Tokio runtime, and there is none here"));
    }
    let timerless =
        || lacks("a backend needs a Tokio runtime with timers: call `enable_time` on the runtime's builder");
    if TIMERLESS.get().is_some_and(|timerless| Some(timerless) == runtime()) {
        return Err(timerless());
    }
    // Tokio has no question for "do you have timers?"; it panics.
    match catch_unwind(|| tokio::time::sleep(after)) {
        // It also panics when a timer is polled from elsewhere after its runtime has ended.
        Ok(sleep) => Ok(AssertUnwindSafe(sleep).catch_unwind().map(drop)),
        Err(_) => {
            TIMERLESS.set(runtime());
            Err(timerless())
        }
    }
}

fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
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
