//! Tokio's timers, without their panics.

use crate::{BackendError, ErrorKind};
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Sleep;

/// A timer, or the error that says what the runtime lacks.
pub(crate) fn sleep(after: Duration) -> Result<Sleep, BackendError> {
    if Handle::try_current().is_err() {
        return Err(BackendError::new(
            ErrorKind::ConfigInvalid,
            "a backend needs a Tokio runtime, and there is none here",
        ));
    }
    // Tokio has no question for "do you have timers?"; it panics.
    catch_unwind(|| tokio::time::sleep(after)).map_err(|_| {
        BackendError::new(
            ErrorKind::ConfigInvalid,
            "a backend needs a Tokio runtime with timers: call `enable_time` on the runtime's builder",
        )
    })
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
