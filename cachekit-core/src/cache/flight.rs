//! One running computation that other callers of the same key and type wait for.

use super::Error;
use super::outcome::Fetched;
use crate::timer;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Whoever holds the one turn leads; a leader that goes away hands it to the next in line, and one that is done closes
/// the line, which wakes everyone at once.
#[derive(Debug)]
pub(crate) struct Flight<V> {
    turn: Semaphore,
    ended: OnceLock<Ended<V>>,
}

#[derive(Debug)]
enum Ended<V> {
    Failed,
    Landed(Fetched<Option<V>>),
    Refused(Error),
}

/// What a caller is to do.
pub(super) enum Boarding<'a, V> {
    /// Compute, for everyone.
    Lead(Lead<'a, V>),
    /// Take what the leader computed.
    Landed(Fetched<Option<V>>),
    /// Compute alone, like everyone who waited: the leader found nothing, and its function failed.
    Failed,
    /// Look for it alone: the wait was too long.
    TooLong,
    /// The cache refused, for everyone.
    Refused(Error),
}

impl<V> Flight<V> {
    pub(super) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    pub(super) const fn new() -> Self {
        Self { turn: Semaphore::const_new(1), ended: OnceLock::new() }
    }
}

impl<V: Clone> Flight<V> {
    pub(super) async fn board(&self, longest_wait: Duration) -> Boarding<'_, V> {
        // The usual case, in which nobody else is there, arms no timer.
        let turn = match self.turn.try_acquire() {
            Ok(turn) => Ok(turn),
            Err(tokio::sync::TryAcquireError::Closed) => return self.read(),
            Err(tokio::sync::TryAcquireError::NoPermits) => match timer::sleep(longest_wait) {
                Ok(sleep) => match select(pin!(self.turn.acquire()), pin!(sleep)).await {
                    Either::Left((turn, _)) => turn,
                    Either::Right(_) => return Boarding::TooLong,
                },
                // A cache without an L2 runs without a runtime, where nothing can bound the wait.
                Err(_) => self.turn.acquire().await,
            },
        };
        match turn {
            Ok(turn) => Boarding::Lead(Lead { flight: self, _turn: turn }),
            Err(_) => self.read(),
        }
    }

    fn read(&self) -> Boarding<'_, V> {
        match self.ended.get() {
            Some(Ended::Landed(fetched)) => Boarding::Landed(fetched.clone()),
            Some(Ended::Refused(error)) => Boarding::Refused(error.clone()),
            Some(Ended::Failed) | None => Boarding::Failed,
        }
    }
}

/// The right to compute for everyone. Dropped without an end, it passes to the next in line.
#[derive(Debug)]
pub(super) struct Lead<'a, V> {
    flight: &'a Flight<V>,
    _turn: SemaphorePermit<'a>,
}

impl<V> Lead<'_, V> {
    /// Hands the value to everyone who waits.
    pub(super) fn land(&self, fetched: Fetched<Option<V>>) {
        self.end(Ended::Landed(fetched));
    }

    /// Hands the cache's refusal to everyone who waits.
    pub(super) fn refuse(&self, error: Error) {
        self.end(Ended::Refused(error));
    }

    /// Tells everyone who waits to compute alone.
    pub(super) fn fail(&self) {
        self.end(Ended::Failed);
    }

    fn end(&self, ended: Ended<V>) {
        // Only the leader ends a flight, and only once.
        let _ = self.flight.ended.set(ended);
        self.flight.turn.close();
    }
}
