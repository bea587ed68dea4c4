//! What a dropped future tells the job it left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the caller is gone.
///
/// A job looks at it while it holds the stripe of its key. So a job that was abandoned while it waited changes nothing
/// afterwards, and one that was abandoned in the middle is done before the next operation on that key begins: a write
/// that nobody waits for any more never lands on top of a later one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

/// Cancels when it is dropped.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(Cancel);

impl Cancel {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}
