//! A counter that many threads increment at once without waiting for each other.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const STRIPES: usize = 8;

#[derive(Debug)]
pub(crate) struct Striped {
    stripes: [Stripe; STRIPES],
}

/// Two cache lines, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Striped {
    pub(crate) fn new() -> Self {
        Self { stripes: Default::default() }
    }

    pub(crate) fn increment(&self) {
        self.stripes[stripe()].0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sum(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

/// Threads take the stripes in turn.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut stripe = STRIPE.get();
    if stripe == usize::MAX {
        stripe = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
        STRIPE.set(stripe);
    }
    stripe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost() {
        let counter = Striped::new();
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| (0..1_000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.sum(), 10_000);
    }
}
