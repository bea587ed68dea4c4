//! The keys whose last set, delete or clear did not certainly reach the L2: what it holds under them may be older than
//! what this process was told, so it is not asked.

use crate::clock::Tick;
use crate::key::{Key, KeyHashBuilder, Scope};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MOST_KEYS: usize = 10_000;
/// A clear's entries were written before it on clocks that may be ahead of ours by as much as a reader accepts.
const SKEW_MILLIS: u64 = 30_000;

#[derive(Debug)]
pub(super) struct Unsynced {
    /// Keys and clears, so that the usual case asks no lock.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    keys: HashMap<Key, Mark, KeyHashBuilder>,
    /// In the order of marking; a mark that was taken away or renewed leaves its number behind.
    order: VecDeque<(u64, Key)>,
    next: u64,
    clears: Vec<FailedClear>,
}

#[derive(Debug)]
struct Mark {
    number: u64,
    until: Tick,
}

#[derive(Debug)]
struct FailedClear {
    prefix: String,
    /// Entries written up to this wall time may have been meant to go.
    written_before: u64,
    until: Tick,
}

impl Unsynced {
    pub(super) fn new() -> Self {
        Self { count: AtomicUsize::new(0), state: Mutex::default() }
    }

    /// Marks a key until the given tick; `true` when the oldest mark had to go for it.
    pub(super) fn mark(&self, key: &Key, until: Tick) -> bool {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.keys.insert(key.clone(), Mark { number, until });
        state.order.push_back((number, key.clone()));
        let overflowed = state.keys.len() > MOST_KEYS;
        while state.keys.len() > MOST_KEYS || state.order.len() > 2 * MOST_KEYS {
            let Some((number, key)) = state.order.pop_front() else { break };
            if state.keys.get(&key).is_some_and(|mark| mark.number == number) {
                if state.keys.len() > MOST_KEYS {
                    state.keys.remove(&key);
                } else {
                    state.order.push_back((number, key));
                }
            }
        }
        self.recount(&state);
        overflowed
    }

    /// An L2 write or delete of the key succeeded.
    pub(super) fn synced(&self, key: &Key) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.lock();
        state.keys.remove(key);
        self.recount(&state);
    }

    /// Whether the L2 must not be asked for this key.
    pub(super) fn contains(&self, key: &Key, now: Tick) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.lock();
        let Some(mark) = state.keys.get(key) else { return false };
        if mark.until >= now {
            return true;
        }
        state.keys.remove(key);
        self.recount(&state);
        false
    }

    /// A clear of this scope did not certainly reach the L2.
    pub(super) fn mark_clear(&self, scope: &Scope, wall_now: u64, until: Tick) {
        let mut state = self.lock();
        state.clears.retain(|clear| clear.prefix != scope.prefix());
        let written_before = wall_now.saturating_add(SKEW_MILLIS);
        state.clears.push(FailedClear { prefix: scope.prefix().to_owned(), written_before, until });
        self.recount(&state);
    }

    /// A clear of this scope reached the L2: nothing older is there.
    pub(super) fn clear_synced(&self, scope: &Scope) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.lock();
        state.clears.retain(|clear| clear.prefix != scope.prefix());
        state.keys.retain(|key, _| !key.is_in(scope));
        self.recount(&state);
    }

    /// Whether an entry of this key, written at this wall time, may be one that a failed clear was meant to remove.
    pub(super) fn was_cleared(&self, scope: &Scope, written_at: u64, now: Tick) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.lock();
        state.clears.retain(|clear| clear.until >= now);
        self.recount(&state);
        state.clears.iter().any(|clear| clear.prefix == scope.prefix() && written_at <= clear.written_before)
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    fn recount(&self, state: &State) {
        self.count.store(state.keys.len() + state.clears.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope::of_namespace("n").unwrap()
    }

    fn key(text: &str) -> Key {
        scope().key(text).unwrap()
    }

    #[test]
    fn a_mark_lasts_until_the_key_is_synced_or_its_time_is_up() {
        let unsynced = Unsynced::new();
        unsynced.mark(&key("a"), 10);
        assert!(unsynced.contains(&key("a"), 10) && !unsynced.contains(&key("b"), 10));
        unsynced.synced(&key("a"));
        assert!(!unsynced.contains(&key("a"), 10));
        unsynced.mark(&key("a"), 10);
        assert!(!unsynced.contains(&key("a"), 11));
        assert_eq!(unsynced.len(), 0);
    }

    #[test]
    fn overflow_drops_the_oldest_and_says_so() {
        let unsynced = Unsynced::new();
        for i in 0..MOST_KEYS {
            assert!(!unsynced.mark(&key(&i.to_string()), 10));
        }
        assert!(!unsynced.mark(&key("0"), 10), "a renewed mark needs no room");
        assert!(unsynced.mark(&key("one more"), 10));
        assert!(unsynced.contains(&key("0"), 1), "renewed, so not the oldest");
        assert!(!unsynced.contains(&key("1"), 1));
        assert_eq!(unsynced.len(), MOST_KEYS);
    }

    #[test]
    fn marking_and_syncing_for_ever_takes_no_room() {
        let unsynced = Unsynced::new();
        for i in 0..100_000 {
            unsynced.mark(&key(&(i % 7).to_string()), 10);
        }
        assert_eq!(unsynced.len(), 7);
        assert!(unsynced.lock().order.len() <= 2 * MOST_KEYS);
    }

    #[test]
    fn a_failed_clear_covers_what_was_written_before_it() {
        let unsynced = Unsynced::new();
        unsynced.mark_clear(&scope(), 1_000_000, 10);
        assert!(unsynced.was_cleared(&scope(), 1_000_000, 5));
        assert!(!unsynced.was_cleared(&scope(), 1_000_000 + SKEW_MILLIS + 1, 5));
        assert!(!unsynced.was_cleared(&scope().for_tenant("t").unwrap(), 1, 5), "another scope");
        assert!(!unsynced.was_cleared(&scope(), 1, 11), "its time is up");
        unsynced.mark_clear(&scope(), 1_000_000, 10);
        unsynced.clear_synced(&scope());
        assert!(!unsynced.was_cleared(&scope(), 1, 5));
    }
}
