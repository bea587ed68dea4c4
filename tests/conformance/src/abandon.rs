//! Drops a call in the middle.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Polls a call until it has been pending `polls` times, and drops it then; `Some` when it ended before.
pub(crate) async fn abandon_after<T>(polls: usize, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    let mut pending = 0;
    poll_fn(|context| {
        if let Poll::Ready(output) = call.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        pending += 1;
        if pending == polls { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}
