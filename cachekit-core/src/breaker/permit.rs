//! The right to one call, and its refusal.

use super::CircuitBreaker;
use super::machine::Ticket;
use std::time::Duration;

/// The right to one call. Say how the call ended with exactly one of [`success`](Self::success),
/// [`failure`](Self::failure) and [`raised`](Self::raised).
///
/// Dropped instead, the call was abandoned, which [`Abandoned`](super::Abandoned) decides about; dropped while its
/// thread panics, it was [`raised`](Self::raised).
#[derive(Debug)]
#[must_use = "dropping a permit abandons its call: report how the call ended"]
pub struct Permit<'a> {
    breaker: &'a CircuitBreaker,
    ticket: Ticket,
    pending: bool,
}

/// How a call ended, as far as its permit knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Abandoned,
    Failure,
    Raised,
    Success,
}

impl<'a> Permit<'a> {
    #[inline]
    pub(super) fn new(breaker: &'a CircuitBreaker, ticket: Ticket) -> Self {
        Self { breaker, ticket, pending: true }
    }

    /// The dependency worked. A probe counts towards closing the circuit and keeps its slot; while CLOSED it costs and
    /// changes nothing.
    #[inline]
    pub fn success(mut self) {
        self.pending = false;
        if self.ticket.probe {
            self.breaker.report(Outcome::Success, self.ticket);
        }
    }

    /// The dependency failed. It counts towards opening the circuit, and as a probe it opens the circuit at once.
    #[inline]
    pub fn failure(mut self) {
        self.pending = false;
        self.breaker.report(Outcome::Failure, self.ticket);
    }

    /// Something else went wrong, and nothing is known about the dependency: the caller's function failed, a value did
    /// not serialize. Nothing is counted, and a probe gives its slot back, so that the next call probes in its place.
    #[inline]
    pub fn raised(mut self) {
        self.pending = false;
        if self.ticket.probe {
            self.breaker.report(Outcome::Raised, self.ticket);
        }
    }

    /// Whether the call holds a slot of a HALF_OPEN cycle.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.ticket.probe
    }

    /// The HALF_OPEN cycle that admitted the call, or while CLOSED the latest one there was; 0 before the first.
    #[must_use]
    pub fn cycle(&self) -> u64 {
        self.ticket.cycle
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.pending {
            // A thread that was panicking before it got the permit looks the same; a slot given back is the worst of it.
            let outcome = if std::thread::panicking() { Outcome::Raised } else { Outcome::Abandoned };
            self.breaker.report(outcome, self.ticket);
        }
    }
}

/// The circuit did not admit a call: nothing was called.
///
/// ```
/// use cachekit_core::breaker::Open;
/// use std::time::Duration;
///
/// let open = Open { retry_in: Duration::from_millis(12_340) };
/// assert_eq!(open.to_string(), "circuit open; retry in 12.3s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("circuit open; retry in {:.1}s", retry_in.as_secs_f64())]
pub struct Open {
    /// How much longer calls are rejected, at most `recovery_timeout`. At zero this call was still rejected, and any
    /// later one is not.
    pub retry_in: Duration,
}
