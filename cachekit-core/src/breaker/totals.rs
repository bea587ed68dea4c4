//! Counters that nothing is decided by.

use super::State;
use super::snapshot::Rejected;
// The standard library's also under loom: they are not part of any decision, and modelling them would only multiply
// the interleavings.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What calls count without the breaker's lock, away from the word that every admission reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Totals {
    rejected_open: AtomicU64,
    rejected_half_open: AtomicU64,
    late_outcomes: AtomicU64,
}

impl Totals {
    #[inline]
    pub(super) fn count_rejection(&self, state: State) {
        let counter = if state == State::Open { &self.rejected_open } else { &self.rejected_half_open };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn count_late_outcome(&self) {
        self.late_outcomes.fetch_add(1, Relaxed);
    }

    pub(super) fn rejected(&self) -> Rejected {
        Rejected { open: self.rejected_open.load(Relaxed), half_open: self.rejected_half_open.load(Relaxed) }
    }

    pub(super) fn late_outcomes(&self) -> u64 {
        self.late_outcomes.load(Relaxed)
    }
}
