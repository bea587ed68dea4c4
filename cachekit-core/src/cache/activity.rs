//! What goes on with each key right now: who fills it, who writes it, and which computation others may wait for.
//!
//! A key has a record only while somebody works on it. The record's generation moves with every set, delete and clear,
//! at its start and at its end: so a fill (a read from L2, a computed value) can tell whether what it brings is still
//! the newest there is. L1 changes under the record's lock, together with that decision.
//!
//! No value is dropped under a lock, since a value's `Drop` is the user's code: what a change of L1 displaces is handed
//! out and dropped behind the unlock.

use super::flight::Flight;
use crate::key::{Key, KeyHashBuilder, Scope};
use crate::l1::Displaced;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 16;

#[derive(Debug)]
pub(crate) struct Activity {
    shards: [Mutex<Shard>; SHARDS],
    /// Clears under way, of whatever scope.
    clears: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    records: HashMap<Key, Record, KeyHashBuilder>,
    /// How many clears are under way. Nothing that began before or during one is stored.
    clears: usize,
}

#[derive(Debug, Default)]
struct Record {
    generation: u64,
    /// Fills and writes that hold this record.
    users: usize,
    writers: usize,
    /// The generations of the fills that write to the L2 right now. One that is outdated may land after what outdated it,
    /// and is taken back only then: until that is done, the L2 is not to be believed.
    writing_fills: Vec<u64>,
    flights: Vec<ActiveFlight>,
}

#[derive(Debug)]
struct ActiveFlight {
    value_type: TypeId,
    generation: u64,
    flight: Arc<dyn Any + Send + Sync>,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), clears: AtomicUsize::new(0) }
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let index = usize::try_from(KeyHashBuilder::new().hash_one(key) % SHARDS as u64).unwrap_or(0);
        lock(&self.shards[index])
    }

    /// Begins to fill a key with what a lower tier or the function says.
    pub(super) fn fill(&self, key: &Key) -> Fill<'_> {
        let mut shard = self.shard(key);
        let record = shard.record(key);
        record.users += 1;
        Fill { activity: self, key: key.clone(), generation: record.generation }
    }

    /// Begins to fill a key, together with everyone else who computes the same type for it. A flight from before the
    /// last set, delete or clear is not joined.
    pub(super) fn join<V: Send + Sync + 'static>(&self, key: &Key) -> (Fill<'_>, Arc<Flight<V>>) {
        let mut shard = self.shard(key);
        let record = shard.record(key);
        record.users += 1;
        let value_type = TypeId::of::<V>();
        let generation = record.generation;
        let outdated: Vec<_> = record.flights.extract_if(.., |active| active.generation != generation).collect();
        let running = record.flights.iter().find(|active| active.value_type == value_type);
        let flight = match running.and_then(|active| Arc::clone(&active.flight).downcast().ok()) {
            Some(flight) => flight,
            None => {
                let flight = Arc::new(Flight::new());
                record.flights.push(ActiveFlight { value_type, generation, flight: Arc::clone(&flight) as _ });
                flight
            }
        };
        drop(shard);
        drop(outdated);
        (Fill { activity: self, key: key.clone(), generation }, flight)
    }

    /// Begins to write or delete a key. `change_l1` runs before anyone else can decide about it.
    pub(super) fn write(&self, key: &Key, change_l1: impl FnOnce() -> Displaced) -> Write<'_> {
        let mut shard = self.shard(key);
        let record = shard.record(key);
        record.users += 1;
        record.writers += 1;
        record.generation += 1;
        let generation = record.generation;
        let displaced = change_l1();
        drop(shard);
        drop(displaced);
        Write { activity: self, key: key.clone(), generation }
    }

    /// A write that ends where it begins, since there is no L2.
    pub(super) fn write_at_once(&self, key: &Key, change_l1: impl FnOnce() -> Displaced) {
        let mut shard = self.shard(key);
        if let Some(record) = shard.records.get_mut(key) {
            record.generation += 1;
        }
        let displaced = change_l1();
        drop(shard);
        drop(displaced);
    }

    /// Begins to clear a scope. What was begun before is not stored any more.
    pub(super) fn clear(&self, scope: &Scope) -> Clear<'_> {
        self.clears.fetch_add(1, Ordering::AcqRel);
        self.pass_through(scope, |shard| shard.clears += 1);
        Clear { activity: self, scope: scope.clone() }
    }

    /// Lets nothing that was begun before be stored in L1.
    pub(super) fn outdate_all(&self) {
        for shard in &self.shards {
            lock(shard).records.values_mut().for_each(|record| record.generation += 1);
        }
    }

    fn pass_through(&self, scope: &Scope, mark: impl Fn(&mut Shard)) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            mark(&mut shard);
            shard.records.iter_mut().filter(|(key, _)| key.is_in(scope)).for_each(|(_, record)| record.generation += 1);
        }
    }

    /// Fills, writes and clears under way.
    pub(super) fn len(&self) -> usize {
        self.clears.load(Ordering::Acquire)
            + self
                .shards
                .iter()
                .map(|shard| lock(shard).records.values().map(|record| record.users).sum::<usize>())
                .sum::<usize>()
    }
}

impl Shard {
    fn record(&mut self, key: &Key) -> &mut Record {
        self.records.entry(key.clone()).or_default()
    }

    /// The record, if this was its last user: to be dropped behind the unlock.
    fn leave(&mut self, key: &Key, change: impl FnOnce(&mut Record)) -> Option<Record> {
        let Entry::Occupied(mut entry) = self.records.entry(key.clone()) else { return None };
        let record = entry.get_mut();
        record.users -= 1;
        change(record);
        (record.users == 0).then(|| entry.remove())
    }
}

/// The right to store what a lower tier or the function said, as long as nothing newer happened.
#[derive(Debug)]
pub(super) struct Fill<'a> {
    activity: &'a Activity,
    key: Key,
    generation: u64,
}

impl Fill<'_> {
    /// Runs `change_l1` if no set, delete or clear of the key happened since the fill began.
    pub(super) fn commit(&self, change_l1: impl FnOnce() -> Displaced) -> bool {
        let shard = self.activity.shard(&self.key);
        let displaced = self.is_current_in(&shard).then(change_l1);
        drop(shard);
        displaced.is_some()
    }

    /// Begins the write of a fill's value to the L2; `None` when something newer has happened.
    pub(super) fn write_to_l2(&self) -> Option<FillWrite<'_>> {
        let mut shard = self.activity.shard(&self.key);
        let current = self.is_current_in(&shard);
        let record = shard.records.get_mut(&self.key).filter(|_| current)?;
        record.writing_fills.push(self.generation);
        drop(shard);
        Some(FillWrite { fill: self })
    }

    /// Whether what the L2 holds may be older than the last set, delete or clear, since an outdated fill may have just
    /// landed there.
    pub(super) fn l2_may_be_outdated(&self) -> bool {
        let shard = self.activity.shard(&self.key);
        let outdated = |record: &Record| record.writing_fills.iter().any(|fill| *fill != record.generation);
        shard.records.get(&self.key).is_some_and(outdated)
    }

    pub(super) fn is_current(&self) -> bool {
        self.is_current_in(&self.activity.shard(&self.key))
    }

    fn is_current_in(&self, shard: &Shard) -> bool {
        let unmoved = |record: &Record| record.generation == self.generation && record.writers == 0;
        shard.clears == 0 && shard.records.get(&self.key).is_some_and(unmoved)
    }

    /// Lets no more callers join this flight.
    pub(super) fn retire<V: Send + Sync + 'static>(&self, flight: &Arc<Flight<V>>) {
        let this: *const () = Arc::as_ptr(flight).cast();
        let mut shard = self.activity.shard(&self.key);
        let retired = shard.records.get_mut(&self.key).and_then(|record| {
            let is_this = |active: &ActiveFlight| std::ptr::eq(Arc::as_ptr(&active.flight).cast(), this);
            record.flights.iter().position(is_this).map(|at| record.flights.swap_remove(at))
        });
        drop(shard);
        drop(retired);
    }
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        let mut shard = self.activity.shard(&self.key);
        let record = shard.leave(&self.key, |_| ());
        drop(shard);
        drop(record);
    }
}

/// A fill on its way to the L2. It ends when the L2 holds what it should: the fill's value, or nothing where that was
/// outdated and has been taken back.
#[derive(Debug)]
pub(super) struct FillWrite<'a> {
    fill: &'a Fill<'a>,
}

impl Drop for FillWrite<'_> {
    fn drop(&mut self) {
        let fill = self.fill;
        if let Some(record) = fill.activity.shard(&fill.key).records.get_mut(&fill.key)
            && let Some(at) = record.writing_fills.iter().position(|generation| *generation == fill.generation)
        {
            record.writing_fills.swap_remove(at);
        }
    }
}

/// A set or delete under way. While there is one, no fill of the key is stored.
#[derive(Debug)]
pub(super) struct Write<'a> {
    activity: &'a Activity,
    key: Key,
    generation: u64,
}

impl Write<'_> {
    /// Runs `change_l1` with the answer whether another write of the key overlapped this one, so that nobody knows
    /// which of the two the L2 kept.
    pub(super) fn settle(&self, change_l1: impl FnOnce(bool) -> Displaced) {
        let shard = self.activity.shard(&self.key);
        let overlapped = shard.records.get(&self.key).is_none_or(|record| record.generation != self.generation);
        let displaced = change_l1(overlapped);
        drop(shard);
        drop(displaced);
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        let mut shard = self.activity.shard(&self.key);
        let record = shard.leave(&self.key, |record| {
            record.writers -= 1;
            record.generation += 1;
        });
        drop(shard);
        drop(record);
    }
}

/// A clear under way.
#[derive(Debug)]
pub(super) struct Clear<'a> {
    activity: &'a Activity,
    scope: Scope,
}

impl Drop for Clear<'_> {
    fn drop(&mut self) {
        self.activity.pass_through(&self.scope, |shard| shard.clears -= 1);
        self.activity.clears.fetch_sub(1, Ordering::AcqRel);
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Nothing under the lock runs foreign code.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope::of_namespace("n").unwrap()
    }

    #[test]
    fn a_fill_is_stored_unless_something_newer_happened() {
        let (activity, key) = (Activity::new(), scope().key("k").unwrap());
        assert!(activity.fill(&key).commit(Displaced::new));

        let fill = activity.fill(&key);
        drop(activity.write(&key, Displaced::new));
        assert!(!fill.commit(|| panic!("begun before the write")));
        drop(fill);

        let write = activity.write(&key, Displaced::new);
        let fill = activity.fill(&key);
        assert!(!fill.is_current(), "a write is under way");
        drop(write);
        assert!(!fill.is_current(), "it may have read what the write replaced");
        drop(fill);

        let fill = activity.fill(&key);
        drop(activity.clear(&scope()));
        assert!(!fill.is_current());
        drop(fill);

        let other = scope().for_tenant("t").unwrap();
        let fill = activity.fill(&key);
        drop(activity.clear(&other));
        assert!(fill.is_current(), "another scope was cleared");
        drop(fill);
        assert_eq!(activity.len(), 0);
        assert!(activity.shard(&key).records.is_empty(), "no record outlives its users");
    }

    #[test]
    fn flights_are_joined_by_key_and_type_until_a_write() {
        let (activity, key) = (Activity::new(), scope().key("k").unwrap());
        let (_one, first) = activity.join::<u8>(&key);
        let (_two, second) = activity.join::<u8>(&key);
        assert!(Arc::ptr_eq(&first, &second));
        let (_three, _other_type) = activity.join::<u16>(&key);
        activity.write_at_once(&key, Displaced::new);
        let (four, third) = activity.join::<u8>(&key);
        assert!(!Arc::ptr_eq(&first, &third), "a caller after a set does not get what was computed before it");
        four.retire(&third);
        let (_five, fourth) = activity.join::<u8>(&key);
        assert!(!Arc::ptr_eq(&third, &fourth));
    }

    #[test]
    fn overlapping_writes_are_noticed_by_both() {
        let (activity, key) = (Activity::new(), scope().key("k").unwrap());
        let first = activity.write(&key, Displaced::new);
        let second = activity.write(&key, Displaced::new);
        first.settle(|overlapped| {
            assert!(overlapped);
            Displaced::new()
        });
        drop(first);
        second.settle(|overlapped| {
            assert!(overlapped);
            Displaced::new()
        });
        drop(second);
        activity.write(&key, Displaced::new).settle(|overlapped| {
            assert!(!overlapped);
            Displaced::new()
        });
    }
}
