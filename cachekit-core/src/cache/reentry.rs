//! Notices a function that asks for the very key it computes, which would wait for itself.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;

thread_local! {
    /// The flights whose functions are being polled on this thread right now, outermost first.
    static ABOARD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A flight's address names it for as long as it lives.
pub(super) fn id<T>(flight: &T) -> usize {
    std::ptr::from_ref(flight).addr()
}

/// Whether the code that runs now was called by this flight's function.
pub(super) fn is_aboard(flight: usize) -> bool {
    ABOARD.with_borrow(|aboard| aboard.contains(&flight))
}

/// Runs a function as this flight's. The mark stands only while it is polled, so it follows the call and not the task.
pub(super) async fn aboard<Fut: Future>(flight: usize, function: impl FnOnce() -> Fut) -> Fut::Output {
    let mut future = pin!({
        let _mark = Mark::new(flight);
        function()
    });
    poll_fn(|context| {
        let _mark = Mark::new(flight);
        future.as_mut().poll(context)
    })
    .await
}

struct Mark;

impl Mark {
    fn new(flight: usize) -> Self {
        ABOARD.with_borrow_mut(|aboard| aboard.push(flight));
        Self
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        ABOARD.with_borrow_mut(Vec::pop);
    }
}
