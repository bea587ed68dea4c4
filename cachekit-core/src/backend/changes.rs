//! What a backend tells about keys that somebody else changed.

use crate::{BackendError, ErrorKind};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A listener that falls behind by more keys than this is told that any may have changed.
const MOST_WAITING: usize = 4_096;

/// One report of [`Backend::track`](crate::Backend::track).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Somebody set, deleted or touched this key, or it ended.
    Key(String),
    /// From here on, changes go unreported.
    Lost,
    /// From here on, changes are reported again; before this, any key may have changed.
    Resumed,
}

/// The reports of one [`Backend::track`](crate::Backend::track), in order. Dropping it ends them.
///
/// ```
/// use cachekit_core::{Change, Changes};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), cachekit_core::BackendError> {
/// let (reporter, mut changes) = Changes::new();
/// reporter.changed("users:42");
/// assert_eq!(changes.next().await?, Change::Key("users:42".to_owned()));
/// drop(reporter);
/// assert!(changes.next().await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Changes {
    queue: Arc<Queue>,
}

/// The other end of [`Changes`], for the backend. It never waits: what the listener has not taken is bounded, and what is
/// too much becomes one [`Change::Resumed`]. The reports end with the last clone of it.
pub struct ChangeReporter {
    queue: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    reporters: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    changes: VecDeque<Change>,
    listener_is_gone: bool,
    waker: Option<Waker>,
}

impl Changes {
    /// Both ends of a new, empty queue.
    #[must_use]
    pub fn new() -> (ChangeReporter, Self) {
        let queue = Arc::new(Queue { waiting: Mutex::default(), reporters: AtomicUsize::new(1) });
        (ChangeReporter { queue: Arc::clone(&queue) }, Self { queue })
    }

    /// The next report. Dropping the future loses none.
    ///
    /// # Errors
    ///
    /// [`Closed`](ErrorKind::Closed) once the backend was closed or is gone; nothing comes after that.
    pub async fn next(&mut self) -> Result<Change, BackendError> {
        poll_fn(|context| {
            let mut waiting = self.queue.lock();
            if let Some(change) = waiting.changes.pop_front() {
                return Poll::Ready(Ok(change));
            }
            if self.queue.reporters.load(Ordering::Acquire) == 0 {
                return Poll::Ready(Err(BackendError::new(ErrorKind::Closed, "nobody reports changes any more")));
            }
            waiting.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl ChangeReporter {
    /// Somebody changed this key.
    pub fn changed(&self, key: &str) {
        self.queue.put(|changes| {
            if changes.len() < MOST_WAITING {
                changes.push_back(Change::Key(key.to_owned()));
            } else {
                // Whether changes are reported at this point is what the last of these says.
                let lost = changes.iter().rev().find(|change| !matches!(change, Change::Key(_))) == Some(&Change::Lost);
                changes.clear();
                changes.push_back(if lost { Change::Lost } else { Change::Resumed });
            }
        });
    }

    /// From here on, changes may go unreported.
    pub fn lost(&self) {
        self.queue.put(|changes| {
            // It takes all keys with it.
            changes.clear();
            changes.push_back(Change::Lost);
        });
    }

    /// From here on, all changes are reported; any key may have changed before.
    pub fn resumed(&self) {
        self.queue.put(|changes| {
            changes.clear();
            changes.push_back(Change::Resumed);
        });
    }

    /// Whether nobody listens any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.lock().listener_is_gone
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, change: impl FnOnce(&mut VecDeque<Change>)) {
        let mut waiting = self.lock();
        if waiting.listener_is_gone {
            return;
        }
        change(&mut waiting.changes);
        self.wake(waiting);
    }

    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let waker = waiting.waker.take();
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let mut waiting = self.queue.lock();
        waiting.listener_is_gone = true;
        waiting.changes = VecDeque::new();
    }
}

impl Clone for ChangeReporter {
    fn clone(&self) -> Self {
        self.queue.reporters.fetch_add(1, Ordering::Relaxed);
        Self { queue: Arc::clone(&self.queue) }
    }
}

impl Drop for ChangeReporter {
    fn drop(&mut self) {
        if self.queue.reporters.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.queue.wake(self.queue.lock());
        }
    }
}

impl fmt::Debug for ChangeReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChangeReporter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Context;

    fn taken(changes: &mut Changes) -> Vec<Change> {
        let mut all = Vec::new();
        loop {
            match pin!(changes.next()).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(change)) => all.push(change),
                _ => return all,
            }
        }
    }

    fn key(key: &str) -> Change {
        Change::Key(key.to_owned())
    }

    #[test]
    fn reports_come_in_order() {
        let (reporter, mut changes) = Changes::new();
        reporter.changed("a");
        reporter.clone().changed("b");
        assert_eq!(taken(&mut changes), [key("a"), key("b")]);
    }

    #[test]
    fn a_loss_takes_the_keys_before_it_along() {
        let (reporter, mut changes) = Changes::new();
        reporter.changed("a");
        reporter.lost();
        reporter.resumed();
        reporter.changed("b");
        assert_eq!(taken(&mut changes), [Change::Resumed, key("b")]);
    }

    #[test]
    fn what_is_too_much_is_any_key() {
        let (reporter, mut changes) = Changes::new();
        for number in 0..10_000 {
            reporter.changed(&number.to_string());
        }
        let all = taken(&mut changes);
        assert_eq!(all[0], Change::Resumed);
        assert!(all.len() <= MOST_WAITING && all.last() == Some(&key("9999")));
        reporter.lost();
        for number in 0..10_000 {
            reporter.changed(&number.to_string());
        }
        assert_eq!(taken(&mut changes)[0], Change::Lost, "keys alone do not end a loss");
    }

    #[test]
    fn each_end_learns_that_the_other_is_gone() {
        let (reporter, mut changes) = Changes::new();
        reporter.changed("a");
        drop(reporter);
        assert_eq!(taken(&mut changes), [key("a")], "what was reported before still comes");
        let (reporter, changes) = Changes::new();
        assert!(!reporter.is_closed());
        drop(changes);
        assert!(reporter.is_closed());
        reporter.changed("a");
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
        let (reporter, mut changes) = Changes::new();
        let listener = tokio::spawn(async move { (changes.next().await, changes.next().await) });
        tokio::task::yield_now().await;
        reporter.changed("a");
        tokio::task::yield_now().await;
        drop(reporter);
        let (first, second) = listener.await.unwrap();
        assert_eq!(first.unwrap(), key("a"));
        assert_eq!(second.unwrap_err().kind(), ErrorKind::Closed);
    }
}
