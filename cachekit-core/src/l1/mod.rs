//! The in-process tier: bounded by bytes and by entries, typed, and exact about time.

mod displaced;
mod expiry;
mod slot;
mod sweeper;

pub(crate) use displaced::Displaced;
pub(crate) use slot::{Absent, Slot};

use crate::ErrorKind;
use crate::cache::Error;
use crate::clock::{Clock, Tick};
use crate::key::{Key, KeyHashBuilder, Scope};
use expiry::ExpiryIndex;
use quick_cache::sync::Cache as Engine;
use quick_cache::{Equivalent, Lifecycle, OptionsBuilder, Weighter};
use std::any::Any;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// What an entry weighs beyond its encoded bytes and its key: the slot, the engine's and the index's share.
const ENTRY_OVERHEAD: u64 = 64;
/// No entry weighs less: its overhead, the header and checksum, and a key of two bytes at least.
const LIGHTEST_ENTRY: u64 = ENTRY_OVERHEAD + crate::entry::plain::OVERHEAD as u64 + 2;
/// More memory than there is, and little enough that no sum of weights overflows.
const MOST_BYTES: u64 = 1 << 48;
/// The share of a shard that one entry may take at most, which is the engine's room for entries seen more than once.
const HOT_ALLOCATION: f64 = 0.97;

/// How much the tier holds, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_bytes: u64,
    pub(crate) max_entries: u64,
    /// The largest entry that should fit.
    pub(crate) max_entry_bytes: u64,
}

pub(crate) struct L1 {
    engine: Engine<Key, Arc<Slot>, ByBytes, KeyHashBuilder, DropOutside>,
    /// What one entry may weigh at most.
    heaviest: u64,
    expiry: ExpiryIndex,
    clock: Arc<dyn Clock>,
}

/// An entry weighs its bytes, but never less than its share of `max_entries`: so one capacity bounds both.
#[derive(Clone, Copy, Debug)]
struct ByBytes {
    least: u64,
}

impl Weighter<Key, Arc<Slot>> for ByBytes {
    fn weight(&self, _: &Key, slot: &Arc<Slot>) -> u64 {
        u64::from(slot.weight).max(self.least)
    }
}

/// Hands evicted entries to the caller of the engine, which drops them once it holds no lock: a value's `Drop` is the
/// user's code, and may be slow, panic, or ask this very cache.
#[derive(Clone, Debug)]
struct DropOutside;

impl Lifecycle<Key, Arc<Slot>> for DropOutside {
    type RequestState = Displaced;

    fn on_evict(&self, displaced: &mut Displaced, key: Key, slot: Arc<Slot>) {
        displaced.push((key, slot));
    }
}

impl L1 {
    pub(crate) fn new(limits: Limits, clock: Arc<dyn Clock>) -> Result<Arc<Self>, Error> {
        let max_bytes = limits.max_bytes.min(MOST_BYTES);
        let share = max_bytes / limits.max_entries;
        let (least, capacity) = if share < LIGHTEST_ENTRY {
            // The bytes run out before the entries do.
            (1, max_bytes)
        } else {
            // Without the remainder, which would be room for an entry more.
            (share, share * limits.max_entries)
        };
        let expected = usize::try_from(capacity / least.max(LIGHTEST_ENTRY)).unwrap_or(usize::MAX);
        let shards = shards(capacity, expected, limits.max_entry_bytes);
        // In a cache of a handful of entries the cold share would not hold even one.
        let hot_allocation = if expected < 64 { 1.0 } else { HOT_ALLOCATION };
        let mut options = OptionsBuilder::new();
        options
            .estimated_items_capacity(expected)
            // The engine rounds each shard's part up.
            .weight_capacity(capacity - capacity % shards as u64)
            .shards(shards)
            .hot_allocation(hot_allocation);
        let options =
            options.build().map_err(|e| Error::new(ErrorKind::ConfigInvalid, "the bounds of L1").with_source(e))?;
        let engine = Engine::with_options(options, ByBytes { least }, KeyHashBuilder::new(), DropOutside);
        let heaviest = room_for_one(engine.shard_capacity(), hot_allocation);
        let l1 = Arc::new(Self { engine, heaviest, expiry: ExpiryIndex::new(), clock });
        sweeper::watch(&l1);
        Ok(l1)
    }

    /// Whether an entry of this weight can be held at all.
    pub(crate) fn fits(&self, weight: u32) -> bool {
        u64::from(weight) <= self.heaviest
    }

    /// A live entry.
    pub(crate) fn get(&self, key: &(impl Hash + Equivalent<Key>)) -> Option<Arc<Slot>> {
        let slot = self.engine.get(key)?;
        self.is_live(&slot).then_some(slot)
    }

    fn is_live(&self, slot: &Slot) -> bool {
        slot.last == Tick::MAX || self.clock.not_after(slot.last)
    }

    /// Stores an entry that fits, whatever was there before.
    #[must_use]
    pub(crate) fn insert(&self, key: Key, slot: Arc<Slot>) -> Displaced {
        let mut displaced = Displaced::new();
        let last = slot.last;
        let overwritten = self.engine.peek(&key);
        self.engine.insert_with_lifecycle(key.clone(), slot, &mut displaced);
        if last != Tick::MAX && overwritten.as_ref().is_none_or(|slot| slot.last != last) {
            displaced.append(self.expiry.add(last, key.clone(), |key| self.engine.peek(key)));
        }
        self.expiry.reclaim_some(self.clock.now(), |key, last| displaced.extend(self.remove_expired(key, last)));
        displaced.extend(overwritten.map(|slot| (key, slot)));
        displaced
    }

    #[must_use]
    pub(crate) fn remove(&self, key: &Key) -> Displaced {
        self.engine.remove(key).into_iter().collect()
    }

    #[must_use]
    pub(crate) fn remove_scope(&self, scope: &Scope) -> Displaced {
        // Not `retain`, which drops under the lock.
        let keys = self.engine.iter().map(|(key, _)| key).filter(|key| key.is_in(scope));
        keys.filter_map(|key| self.engine.remove(&key)).collect()
    }

    /// Removes every expired entry; returns how many there were.
    pub(crate) fn remove_all_expired(&self) -> usize {
        let now = self.clock.now();
        let mut removed = 0;
        self.expiry.reclaim_all(now, |key, last| removed += usize::from(self.remove_expired(key, last).is_some()));
        removed
    }

    #[must_use]
    pub(crate) fn remove_all(&self) -> Displaced {
        self.engine.drain().collect()
    }

    fn remove_expired(&self, key: &Key, last: Tick) -> Option<(Key, Arc<Slot>)> {
        self.engine.remove_if(key, |slot| slot.last <= last)
    }

    pub(crate) fn entries(&self) -> usize {
        self.engine.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.engine.weight()
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.engine.capacity()
    }
}

impl fmt::Debug for L1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("L1").field("entries", &self.entries()).field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// What an entry of this encoded length weighs.
pub(crate) fn weight(key: &Key, encoded_len: usize) -> u32 {
    let bytes = encoded_len as u64 + key.stored().len() as u64 + ENTRY_OVERHEAD;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// As the engine computes it.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "capacities are far below 2^53"
)]
fn room_for_one(shard_capacity: u64, hot_allocation: f64) -> u64 {
    (shard_capacity as f64 * hot_allocation) as u64
}

/// Four shards a core spread the locks; fewer when a shard would be too small for the largest entry, or would hold so few
/// that an uneven spread of keys leaves room unused.
fn shards(capacity: u64, expected_entries: usize, max_entry_bytes: u64) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let mut shards = (cores * 4).next_power_of_two();
    let too_small = |shards: usize| {
        // 3 % of the shard is lost to `HOT_ALLOCATION`.
        let largest = capacity / shards as u64 / 100 * 97;
        largest < max_entry_bytes || expected_entries.div_ceil(shards) < 32
    };
    while shards > 1 && too_small(shards) {
        shards /= 2;
    }
    shards
}

/// A slot's value as the type that a caller asks for.
pub(crate) fn downcast<V: Any>(slot: &Slot) -> Option<&V> {
    slot.value.downcast_ref()
}
