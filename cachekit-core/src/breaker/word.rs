//! The one word that admits and rejects without a lock.

use super::State;
use super::sync::{AtomicU64, Ordering};
use crate::Tick;

const TAG_BITS: u32 = 2;
const TAG: u64 = (1 << TAG_BITS) - 1;

/// The largest payload: 62 bits, which are 146 years of nanoseconds or more cycles than fit into them.
pub(super) const LARGEST: u64 = u64::MAX >> TAG_BITS;

// An odd tag means "reject while the clock is not past the payload", so that OPEN and a HALF_OPEN cycle without a free
// slot take the same branch.
const CLOSED: u64 = 0;
const OPEN: u64 = 1;
const HALF_OPEN_FREE: u64 = 2;
const HALF_OPEN_TAKEN: u64 = 3;

/// The state of a breaker as far as an admission needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    pub(super) const fn closed(cycle: u64) -> Self {
        Self::new(CLOSED, cycle)
    }

    /// `until` is the last tick at which calls are rejected.
    pub(super) const fn open(until: Tick) -> Self {
        Self::new(OPEN, until)
    }

    pub(super) const fn half_open(cycle: u64) -> Self {
        Self::new(HALF_OPEN_FREE, cycle)
    }

    /// `until` is the last tick at which calls are rejected.
    pub(super) const fn half_open_taken(until: Tick) -> Self {
        Self::new(HALF_OPEN_TAKEN, until)
    }

    const fn new(tag: u64, payload: u64) -> Self {
        Self((if payload < LARGEST { payload } else { LARGEST }) << TAG_BITS | tag)
    }

    /// The latest cycle, if the circuit is CLOSED.
    #[inline]
    pub(super) const fn admits(self) -> Option<u64> {
        if self.0 & TAG == CLOSED { Some(self.0 >> TAG_BITS) } else { None }
    }

    /// The last tick at which calls are rejected, if they are.
    #[inline]
    pub(super) const fn rejects_until(self) -> Option<Tick> {
        if self.0 & 1 == 1 { Some(self.0 >> TAG_BITS) } else { None }
    }

    pub(super) const fn state(self) -> State {
        match self.0 & TAG {
            CLOSED => State::Closed,
            OPEN => State::Open,
            _ => State::HalfOpen,
        }
    }
}

/// The word where all threads see it, on a cache line that nothing else writes to.
///
/// Everything is relaxed: nobody reads other memory because of what the word says, every store happens under the
/// breaker's mutex, and a thread that a transition happened before sees that transition's word or a later one, which is
/// all that coherence of a single location has to give.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct SharedWord(AtomicU64);

impl SharedWord {
    pub(super) fn new(word: Word) -> Self {
        Self(AtomicU64::new(word.0))
    }

    #[inline]
    pub(super) fn load(&self) -> Word {
        Word(self.0.load(Ordering::Relaxed))
    }

    /// Only under the breaker's mutex.
    pub(super) fn store(&self, word: Word) {
        self.0.store(word.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        for payload in [0, 1, 30_000_000_000, LARGEST - 1, LARGEST] {
            assert_eq!(Word::closed(payload).admits(), Some(payload));
            assert_eq!(Word::open(payload).rejects_until(), Some(payload));
            assert_eq!(Word::half_open_taken(payload).rejects_until(), Some(payload));
            let [closed, open] = [Word::closed(payload), Word::open(payload)];
            let [free, taken] = [Word::half_open(payload), Word::half_open_taken(payload)];
            assert_eq!([closed, open, free, taken].map(Word::state), {
                use State::{Closed, HalfOpen, Open};
                [Closed, Open, HalfOpen, HalfOpen]
            });
            assert_eq!([open, free, taken].map(Word::admits), [None; 3]);
            assert_eq!([closed, free].map(Word::rejects_until), [None; 2]);
        }
    }

    #[test]
    fn a_payload_saturates_and_leaves_the_tag_alone() {
        assert_eq!(Word::open(u64::MAX), Word::open(LARGEST));
        assert_eq!(Word::open(u64::MAX).state(), State::Open);
    }
}
