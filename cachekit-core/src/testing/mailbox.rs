//! One subscriber's queue of messages.

use crate::{BackendError, ErrorKind, Message, Subscription, async_trait};
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A reader that falls behind by more than this loses the oldest messages, and is told.
const CAPACITY: usize = 1_024;

/// Where the store puts messages for one subscription.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// Whether the handle that subscribed was closed.
    closed: Arc<AtomicBool>,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    lost: bool,
    messages: VecDeque<Bytes>,
    waker: Option<Waker>,
}

impl Mailbox {
    pub(super) fn new(closed: Arc<AtomicBool>) -> Self {
        Self { closed, queue: Mutex::default() }
    }

    pub(super) fn put(&self, payload: Bytes) {
        let waker = {
            let mut queue = self.lock();
            if queue.messages.len() == CAPACITY {
                queue.messages.pop_front();
                queue.lost = true;
            }
            queue.messages.push_back(payload);
            queue.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Makes a reader that waits look again whether its handle is still open.
    pub(super) fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reading end; the store holds the other one weakly, so dropping this ends the subscription.
#[derive(Debug)]
pub(super) struct Reader(pub(super) Arc<Mailbox>);

#[async_trait]
impl Subscription for Reader {
    async fn next(&mut self) -> Result<Message, BackendError> {
        poll_fn(|context| {
            let mut queue = self.0.lock();
            if self.0.closed.load(Ordering::SeqCst) {
                return Poll::Ready(Err(BackendError::new(ErrorKind::Closed, "the backend was closed")));
            }
            if std::mem::take(&mut queue.lost) {
                return Poll::Ready(Ok(Message::Lost));
            }
            if let Some(payload) = queue.messages.pop_front() {
                return Poll::Ready(Ok(Message::Payload(payload)));
            }
            queue.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}
