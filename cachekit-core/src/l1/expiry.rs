//! Which entries end when, so that one that nobody reads again goes away all the same.

use super::{Displaced, Slot};
use crate::clock::Tick;
use crate::key::{Key, KeyHashBuilder};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PARTITIONS: usize = 16;
/// How many ended entries one write takes away.
const PER_WRITE: usize = 16;
const SMALLEST_COMPACTION: usize = 64;

/// For each entry that ends, its last tick and its key. An entry that was overwritten or evicted leaves a stale record
/// behind, which does no harm; once a partition has doubled, those are dropped.
pub(super) struct ExpiryIndex {
    partitions: [Mutex<Partition>; PARTITIONS],
    /// The partition that the next write reclaims from.
    turn: AtomicUsize,
}

struct Partition {
    records: BinaryHeap<Reverse<Record>>,
    compact_at: usize,
}

#[derive(PartialEq, Eq)]
struct Record {
    last: Tick,
    key: Key,
}

impl Ord for Record {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.last.cmp(&other.last)
    }
}

impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl ExpiryIndex {
    pub(super) fn new() -> Self {
        let partition = || Mutex::new(Partition { records: BinaryHeap::new(), compact_at: SMALLEST_COMPACTION });
        Self { partitions: std::array::from_fn(|_| partition()), turn: AtomicUsize::new(0) }
    }

    /// `find`: the entry that the tier has under a key now. Returns what `find` brought, to be dropped by a caller who
    /// holds no lock.
    #[must_use]
    pub(super) fn add(&self, last: Tick, key: Key, find: impl Fn(&Key) -> Option<Arc<Slot>>) -> Displaced {
        let mut found = Displaced::new();
        let index = usize::try_from(KeyHashBuilder::new().hash_one(&key) % PARTITIONS as u64).unwrap_or(0);
        let mut partition = lock(&self.partitions[index]);
        partition.records.push(Reverse(Record { last, key }));
        if partition.records.len() > partition.compact_at {
            partition.records.retain(|Reverse(record)| {
                let slot = find(&record.key);
                let current = slot.as_ref().is_some_and(|slot| slot.last == record.last);
                found.extend(slot.map(|slot| (record.key.clone(), slot)));
                current
            });
            partition.compact_at = (partition.records.len() * 2).max(SMALLEST_COMPACTION);
            let keep = partition.compact_at;
            partition.records.shrink_to(keep);
        }
        found
    }

    /// Hands up to [`PER_WRITE`] ended entries to `remove`.
    pub(super) fn reclaim_some(&self, now: Tick, remove: impl FnMut(&Key, Tick)) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % PARTITIONS;
        reclaim(&self.partitions[turn], now, PER_WRITE, remove);
    }

    /// Hands every ended entry to `remove`.
    pub(super) fn reclaim_all(&self, now: Tick, mut remove: impl FnMut(&Key, Tick)) {
        for partition in &self.partitions {
            // A bounded step at a time, so that no write waits long for the partition.
            while reclaim(partition, now, 256, &mut remove) == 256 {}
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.partitions.iter().map(|partition| lock(partition).records.len()).sum()
    }
}

/// Returns how many records it took.
fn reclaim(partition: &Mutex<Partition>, now: Tick, most: usize, mut remove: impl FnMut(&Key, Tick)) -> usize {
    let mut ended = Vec::new();
    {
        let mut partition = lock(partition);
        while ended.len() < most && partition.records.peek().is_some_and(|Reverse(record)| record.last < now) {
            ended.extend(partition.records.pop().map(|Reverse(record)| record));
        }
    }
    for record in &ended {
        remove(&record.key, record.last);
    }
    ended.len()
}

fn lock(partition: &Mutex<Partition>) -> MutexGuard<'_, Partition> {
    // Nothing that panics runs under the lock half-way through a change.
    partition.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Scope;
    use std::time::Duration;

    #[test]
    fn overwriting_one_key_for_ever_does_not_grow_the_index() {
        let index = ExpiryIndex::new();
        let key = Scope::of_namespace("n").unwrap().key("k").unwrap();
        for last in 0..100_000 {
            let now: Arc<Slot> = Arc::new(Slot::new((), 1, last, Some(Duration::from_nanos(1)), Duration::ZERO));
            drop(index.add(now.last, key.clone(), |_| Some(Arc::clone(&now))));
        }
        assert!(index.len() <= SMALLEST_COMPACTION + 1, "{}", index.len());
    }
}
