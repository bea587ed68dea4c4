//! A connection in service, and what its operations found out about it.

use crate::link::Link;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many timeouts in a row, with no answer in between, are a dead connection.
const MOST_TIMEOUTS: u32 = 3;
/// A cluster in trouble for so long is looked at anew: by itself the driver stays with a node that hangs.
const TROUBLE: Duration = Duration::from_millis(500);
/// So long after the last trouble, the next one is another one.
const TROUBLE_ENDS: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) link: Arc<dyn Link>,
    pub(crate) generation: u64,
    pub(crate) since: Instant,
    timeouts: AtomicU32,
    /// When the first of the operations was sent that were given up since the last answer, in milliseconds after `since`
    /// and one; 0: none.
    waiting: AtomicU64,
    trouble: Mutex<Trouble>,
}

/// What goes wrong in a cluster: when it began, when it was seen last, how often.
#[derive(Debug, Default)]
struct Trouble(Option<(Instant, Instant, u32)>);

impl Ready {
    pub(crate) fn new(link: Arc<dyn Link>, generation: u64) -> Self {
        let (timeouts, waiting, trouble) = (AtomicU32::new(0), AtomicU64::new(0), Mutex::default());
        Self { link, generation, since: Instant::now(), timeouts, waiting, trouble }
    }

    /// The server answered.
    pub(crate) fn heard(&self) {
        // Read first: a store would pull the line to this core at every answer.
        if self.timeouts.load(Ordering::Relaxed) != 0 {
            self.timeouts.store(0, Ordering::Relaxed);
        }
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.waiting.store(0, Ordering::Relaxed);
        }
    }

    /// An operation that was sent then was given up. True when nothing was answered for this long, since the first of those.
    pub(crate) fn is_left_waiting(&self, sent: Instant, long: Duration) -> bool {
        let millis = |at: Instant| u64::try_from((at - self.since).as_millis()).unwrap_or(u64::MAX - 1) + 1;
        let (sent, now) = (millis(sent), millis(Instant::now()));
        let first = match self.waiting.compare_exchange(0, sent, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => sent,
            Err(first) => first,
        };
        Duration::from_millis(now.saturating_sub(first)) >= long
    }

    /// It did not answer in time. True when that is one time too many.
    pub(crate) fn is_silent(&self) -> bool {
        self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= MOST_TIMEOUTS
    }

    /// A node of the cluster did not answer, or not well. True when that goes on.
    pub(crate) fn is_in_trouble(&self) -> bool {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_lasting(Instant::now())
    }
}

impl Trouble {
    /// Adds one. True when there were several over some time; then the count begins anew.
    fn is_lasting(&mut self, now: Instant) -> bool {
        let (first, count) = match self.0 {
            Some((first, last, count)) if now - last < TROUBLE_ENDS => (first, count + 1),
            _ => (now, 1),
        };
        let lasting = count >= MOST_TIMEOUTS && now - first >= TROUBLE;
        self.0 = (!lasting).then_some((first, now, count));
        lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_lasts_when_it_comes_again_and_again() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut burst = Trouble::default();
        assert!((0..100).all(|ms| !burst.is_lasting(at(ms))), "all at once is one");
        assert!(burst.is_lasting(at(500)));
        assert!(!burst.is_lasting(at(501)), "counted anew");
        let mut rare = Trouble::default();
        assert!((0..100).all(|round| !rare.is_lasting(at(round * 2_000))), "one now and then is another one");
    }
}
