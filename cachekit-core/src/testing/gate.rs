//! A gate that holds callers until a test opens it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Holds whoever waits at it until it is opened, and lets everyone pass from then on. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    wakers: Vec<Waker>,
}

impl Gate {
    /// A gate that is shut.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everyone pass who waits now or comes later.
    pub fn open(&self) {
        let wakers = {
            let mut state = self.lock();
            state.open = true;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until the gate is open.
    pub async fn pass(&self) {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.open {
                return Poll::Ready(());
            }
            if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                state.wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
