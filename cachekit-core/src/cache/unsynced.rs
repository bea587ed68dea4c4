//! The keys whose last set, delete or clear did not certainly reach the L2: what it holds under them may be older than
//! what this process was told, so it is not asked.

use crate::clock::Tick;
use crate::key::{Key, KeyHashBuilder, Scope};
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys and clears, each.
const MOST_MARKS: usize = 10_000;
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
    keys: Marks<Key, Tick>,
    clears: Marks<String, FailedClear>,
}

#[derive(Debug)]
struct FailedClear {
    /// Entries written up to this wall time may have been meant to go.
    written_before: u64,
    until: Tick,
    /// Keys that this process has written to the L2 since.
    rewritten: HashSet<Key, KeyHashBuilder>,
}

/// A point in the order of marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    keys: u64,
    clears: u64,
}

/// What a read of the L2 must not believe, as it stood when the read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Barrier(Option<u64>);

impl Barrier {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Whether an entry written at this wall time may be one that a failed clear was meant to remove.
    pub(super) fn hides(&self, written_at: u64) -> bool {
        self.0.is_some_and(|written_before| written_at <= written_before)
    }
}

impl Unsynced {
    pub(super) fn new() -> Self {
        Self { count: AtomicUsize::new(0), state: Mutex::default() }
    }

    /// Marks a key until the given tick; `true` when the oldest mark had to go for it.
    pub(super) fn mark(&self, key: &Key, until: Tick) -> bool {
        let mut state = self.lock();
        let overflowed = state.keys.insert(key.clone(), until);
        self.recount(&state);
        overflowed
    }

    /// An L2 write or delete of the key, begun at this moment, succeeded. A mark that was set since stays: what it marks
    /// may have reached the L2 behind it.
    pub(super) fn synced(&self, key: &Key, since: Moment) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.lock();
        state.keys.remove_if(key, |number| number < since.keys);
        for (prefix, number, clear) in state.clears.iter_mut() {
            if number >= since.clears {
                continue;
            }
            if key.stored().starts_with(prefix.as_str()) && clear.rewritten.len() < MOST_MARKS {
                clear.rewritten.insert(key.clone());
            }
        }
        self.recount(&state);
    }

    /// Whether the L2 must not be asked for this key.
    pub(super) fn contains(&self, key: &Key, now: Tick) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.lock();
        let Some(until) = state.keys.get(key) else { return false };
        if *until >= now {
            return true;
        }
        state.keys.remove(key);
        self.recount(&state);
        false
    }

    /// A clear of this scope did not certainly reach the L2; `true` when the oldest one had to go for it.
    pub(super) fn mark_clear(&self, scope: &Scope, latest_written_at: u64, until: Tick) -> bool {
        let mut state = self.lock();
        let written_before = latest_written_at.saturating_add(SKEW_MILLIS);
        let clear = FailedClear { written_before, until, rewritten: HashSet::default() };
        let overflowed = state.clears.insert(scope.prefix().to_owned(), clear);
        self.recount(&state);
        overflowed
    }

    /// The marks there are now, to be told from later ones. Taken before a write is sent.
    pub(super) fn moment(&self) -> Moment {
        let state = self.lock();
        Moment { keys: state.keys.next, clears: state.clears.next }
    }

    /// A clear of this scope, begun at this moment, reached the L2: nothing is there that was there before.
    pub(super) fn clear_synced(&self, scope: &Scope, since: Moment) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.lock();
        state.clears.retain(|prefix, number| prefix != scope.prefix() || number >= since.clears);
        state.keys.retain(|key, number| !key.is_in(scope) || number >= since.keys);
        self.recount(&state);
    }

    /// What a read of this key that begins now must not believe.
    pub(super) fn barrier(&self, scope: &Scope, key: &Key, now: Tick) -> Barrier {
        if self.count.load(Ordering::Acquire) == 0 {
            return Barrier::none();
        }
        let mut state = self.lock();
        let Some(clear) = state.clears.get(scope.prefix()) else { return Barrier::none() };
        if clear.until < now {
            state.clears.remove(scope.prefix());
            self.recount(&state);
            return Barrier::none();
        }
        Barrier((!clear.rewritten.contains(key)).then_some(clear.written_before))
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

/// The newest [`MOST_MARKS`] marks, each under its name.
#[derive(Debug)]
struct Marks<K, V> {
    marks: HashMap<K, (u64, V), KeyHashBuilder>,
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K, V> Default for Marks<K, V> {
    fn default() -> Self {
        Self { marks: HashMap::default(), order: BTreeMap::new(), next: 0 }
    }
}

impl<K: Clone + Eq + Hash, V> Marks<K, V> {
    /// Sets or renews a mark; `true` when the oldest had to go for it.
    fn insert(&mut self, name: K, mark: V) -> bool {
        let number = self.next;
        self.next += 1;
        if let Some((before, _)) = self.marks.insert(name.clone(), (number, mark)) {
            self.order.remove(&before);
        }
        self.order.insert(number, name);
        if self.marks.len() <= MOST_MARKS {
            return false;
        }
        if let Some((_, oldest)) = self.order.pop_first() {
            self.marks.remove(&oldest);
        }
        true
    }

    fn get<Q: Eq + Hash + ?Sized>(&self, name: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.marks.get(name).map(|(_, mark)| mark)
    }

    fn remove<Q: Eq + Hash + ?Sized>(&mut self, name: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some((number, _)) = self.marks.remove(name) {
            self.order.remove(&number);
        }
    }

    fn remove_if(&mut self, name: &K, condition: impl Fn(u64) -> bool) {
        if self.marks.get(name).is_some_and(|(number, _)| condition(*number)) {
            self.remove(name);
        }
    }

    fn retain(&mut self, keep: impl Fn(&K, u64) -> bool) {
        self.marks.retain(|name, (number, _)| keep(name, *number));
        self.order.retain(|number, name| keep(name, *number));
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (&K, u64, &mut V)> {
        self.marks.iter_mut().map(|(name, (number, mark))| (name, *number, mark))
    }

    fn len(&self) -> usize {
        self.marks.len()
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
        unsynced.synced(&key("a"), unsynced.moment());
        assert!(!unsynced.contains(&key("a"), 10));
        let before = unsynced.moment();
        unsynced.mark(&key("a"), 10);
        unsynced.synced(&key("a"), before);
        assert!(unsynced.contains(&key("a"), 10), "set while the write that succeeded was under way");
        assert!(!unsynced.contains(&key("a"), 11));
        assert_eq!(unsynced.len(), 0);
    }

    #[test]
    fn overflow_drops_the_oldest_and_says_so() {
        let unsynced = Unsynced::new();
        for i in 0..MOST_MARKS {
            assert!(!unsynced.mark(&key(&i.to_string()), 10));
        }
        assert!(!unsynced.mark(&key("0"), 10), "a renewed mark needs no room");
        assert!(unsynced.mark(&key("one more"), 10));
        assert!(unsynced.contains(&key("0"), 1), "renewed, so not the oldest");
        assert!(!unsynced.contains(&key("1"), 1));
        assert_eq!(unsynced.len(), MOST_MARKS);
    }

    #[test]
    fn marking_and_syncing_for_ever_takes_no_room() {
        let unsynced = Unsynced::new();
        for i in 0..100_000 {
            unsynced.mark(&key(&(i % 7).to_string()), 10);
        }
        assert_eq!(unsynced.len(), 7);
        assert_eq!(unsynced.lock().keys.order.len(), 7);
    }

    #[test]
    fn a_failed_clear_covers_what_was_written_before_it() {
        let unsynced = Unsynced::new();
        let hides = |scope: &Scope, written_at, now| unsynced.barrier(scope, &key("a"), now).hides(written_at);
        unsynced.mark_clear(&scope(), 1_000_000, 10);
        assert!(hides(&scope(), 1_000_000, 5));
        assert!(!hides(&scope(), 1_000_000 + SKEW_MILLIS + 1, 5));
        assert!(!hides(&scope().for_tenant("t").unwrap(), 1, 5), "another scope");
        assert!(!hides(&scope(), 1, 11), "its time is up");
        unsynced.mark_clear(&scope(), 1_000_000, 10);
        unsynced.synced(&key("b"), unsynced.moment());
        assert!(hides(&scope(), 1, 5));
        unsynced.synced(&key("a"), unsynced.moment());
        assert!(!hides(&scope(), 1, 5), "written again by this process");
        unsynced.mark_clear(&scope(), 1_000_000, 10);
        assert!(hides(&scope(), 1, 5), "and cleared again");
        let moment = unsynced.moment();
        unsynced.mark(&key("during"), 10);
        unsynced.clear_synced(&scope(), moment);
        assert!(unsynced.contains(&key("during"), 5), "set while the clear ran");
        unsynced.synced(&key("during"), unsynced.moment());
        assert!(!hides(&scope(), 1, 5));
        assert_eq!(unsynced.len(), 0);
    }

    #[test]
    fn failed_clears_are_bounded_too() {
        let unsynced = Unsynced::new();
        let mut overflowed = 0;
        for i in 0..MOST_MARKS + 5 {
            overflowed += usize::from(unsynced.mark_clear(&scope().for_tenant(&i.to_string()).unwrap(), 1, 10));
        }
        assert_eq!((unsynced.len(), overflowed), (MOST_MARKS, 5));
    }
}
