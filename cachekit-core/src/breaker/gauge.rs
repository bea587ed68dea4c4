//! How many breakers of a namespace are in which state.

use super::{State, export};
use std::collections::BTreeMap;
// The standard library's also under loom: what is counted here decides nothing.
use std::sync::atomic::{AtomicU64, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// How many live breakers are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateCounts {
    /// CLOSED.
    pub closed: u64,
    /// HALF_OPEN.
    pub half_open: u64,
    /// OPEN.
    pub open: u64,
}

impl StateCounts {
    /// How many are in this state.
    #[must_use]
    pub const fn get(&self, state: State) -> u64 {
        match state {
            State::Closed => self.closed,
            State::HalfOpen => self.half_open,
            State::Open => self.open,
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.closed + self.half_open + self.open
    }

    const fn unpack(packed: u64) -> Self {
        const fn counter(packed: u64, state: State) -> u64 {
            packed >> (state as u32 * COUNTER_BITS) & LARGEST
        }
        Self {
            closed: counter(packed, State::Closed),
            half_open: counter(packed, State::HalfOpen),
            open: counter(packed, State::Open),
        }
    }
}

/// The live breakers of a namespace by state, all three counted at the same moment. All zero for a namespace that no
/// breaker ever had.
#[must_use]
pub fn live(namespace: &str) -> StateCounts {
    let namespaces = NAMESPACES.lock().unwrap_or_else(PoisonError::into_inner);
    namespaces.get(namespace).map_or_else(StateCounts::default, |namespace| namespace.counts())
}

/// Three counters of 21 bits in one word, so that a transition is a single addition and nobody ever sees a breaker in
/// two states or in none.
const COUNTER_BITS: u32 = 21;
const LARGEST: u64 = (1 << COUNTER_BITS) - 1;

const fn one(state: State) -> u64 {
    1 << (state as u32 * COUNTER_BITS)
}

/// Entries stay, so that a namespace whose last breaker went goes on showing zeros.
static NAMESPACES: Mutex<BTreeMap<String, Arc<Namespace>>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Namespace {
    name: String,
    packed: AtomicU64,
    /// What was published last; held while publishing.
    published: Mutex<StateCounts>,
}

impl Namespace {
    fn counts(&self) -> StateCounts {
        StateCounts::unpack(self.packed.load(SeqCst))
    }
}

/// A live breaker's place in its namespace.
#[derive(Debug)]
pub(super) struct Membership(Arc<Namespace>);

impl Membership {
    /// Counts one more CLOSED breaker. `None` beyond 2,097,151 of one namespace: a counter that overflowed would spoil
    /// its neighbour.
    pub(super) fn join(name: &str) -> Option<Self> {
        let namespace = {
            let mut namespaces = NAMESPACES.lock().unwrap_or_else(PoisonError::into_inner);
            let namespace = namespaces.entry(name.to_owned()).or_insert_with(|| {
                Arc::new(Namespace { name: name.to_owned(), packed: AtomicU64::new(0), published: Mutex::default() })
            });
            Arc::clone(namespace)
        };
        let join = |packed| (StateCounts::unpack(packed).total() < LARGEST).then(|| packed + one(State::Closed));
        namespace.packed.fetch_update(SeqCst, SeqCst, join).ok()?;
        let membership = Self(namespace);
        membership.publish();
        Some(membership)
    }

    /// A breaker changed its state.
    pub(super) fn moved(&self, from: State, to: State) {
        self.0.packed.fetch_add(one(to).wrapping_sub(one(from)), SeqCst);
    }

    /// A breaker is gone.
    pub(super) fn left(&self, state: State) {
        self.0.packed.fetch_sub(one(state), SeqCst);
        self.publish();
    }

    /// Hands the counts to the recorder. When this returns, they or newer ones are handed over or somebody else is at
    /// it: whoever publishes looks again after giving the lock back, so it does not wait, and a recorder that ends up
    /// here again does not deadlock.
    pub(super) fn publish(&self) {
        let namespace = &*self.0;
        loop {
            let counts = {
                // Before the attempt at the lock: either it succeeds, or its holder sees the change that brought us here.
                fence(SeqCst);
                let mut published = match namespace.published.try_lock() {
                    Ok(published) => published,
                    Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                    Err(TryLockError::WouldBlock) => return,
                };
                let counts = namespace.counts();
                export::publish(&namespace.name, *published, counts);
                *published = counts;
                counts
            };
            fence(SeqCst);
            if namespace.counts() == counts {
                return;
            }
        }
    }
}
