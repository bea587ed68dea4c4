//! What `docs/decisions/0001-l1-engine.md` says about the two engines, one test per fact.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Equivalent, Lifecycle, OptionsBuilder, Weighter};

/// The weight stands in the value.
#[derive(Clone)]
struct Stated;

impl<K> Weighter<K, u64> for Stated {
    fn weight(&self, _: &K, value: &u64) -> u64 {
        *value
    }
}

type Plain = Cache<String, u64, Stated>;

fn plain(max_bytes: u64, max_entries: usize, shards: usize) -> Plain {
    Cache::with_options(
        options(max_bytes, max_entries, shards),
        Stated,
        DefaultHashBuilder::default(),
        DefaultLifecycle::default(),
    )
}

fn options(max_bytes: u64, max_entries: usize, shards: usize) -> quick_cache::Options {
    OptionsBuilder::new()
        .weight_capacity(max_bytes)
        .estimated_items_capacity(max_entries)
        .shards(shards)
        .build()
        .unwrap()
}

#[test]
fn the_largest_storable_item_is_97_percent_of_one_shard() {
    for (shards, largest) in [(1, 9_700), (2, 4_850), (4, 2_425), (16, 606)] {
        let cache = plain(10_000, 10_000, shards);
        assert_eq!(cache.num_shards(), shards);
        cache.insert("fits".to_owned(), largest);
        assert_eq!(cache.get("fits"), Some(largest), "{shards} shards");
        cache.insert("too heavy".to_owned(), largest + 1);
        assert_eq!(cache.get("too heavy"), None, "{shards} shards");
    }
}

#[test]
fn the_whole_shard_is_storable_when_all_of_it_is_hot() {
    let options = OptionsBuilder::new()
        .weight_capacity(10_000)
        .estimated_items_capacity(10_000)
        .shards(1)
        .hot_allocation(1.0)
        .build()
        .unwrap();
    let cache = Cache::with_options(options, Stated, DefaultHashBuilder::default(), DefaultLifecycle::default());
    cache.insert("all".to_owned(), 10_000);
    assert_eq!(cache.get("all"), Some(10_000));
}

/// With `max_entries` 1 the floor of the weight is all of `max_bytes`, which 97 % do not hold.
#[test]
fn a_cache_of_one_entry_holds_none_unless_all_of_it_is_hot() {
    let held = |hot| {
        let options = OptionsBuilder::new()
            .weight_capacity(1_000)
            .estimated_items_capacity(1)
            .hot_allocation(hot)
            .build()
            .unwrap();
        let cache = Cache::with_options(options, Stated, DefaultHashBuilder::default(), DefaultLifecycle::default());
        cache.insert("first".to_owned(), 1_000);
        cache.insert("second".to_owned(), 1_000);
        (cache.len(), cache.get("second"))
    };
    assert_eq!(held(0.97), (0, None));
    assert_eq!(held(1.0), (1, Some(1_000)));
}

#[test]
fn shards_are_a_power_of_two_and_expect_at_least_32_entries_each() {
    assert_eq!(plain(10_000, 10_000, 5).num_shards(), 8);
    assert_eq!(plain(10_000, 100, 64).num_shards(), 2);
    assert_eq!(plain(10_000, 63, 64).num_shards(), 2);
    assert_eq!(plain(10_000, 31, 64).num_shards(), 1);
    assert_eq!(plain(10_000, 1, 64).num_shards(), 1);
}

#[test]
fn capacity_is_rounded_up_per_shard() {
    let cache = plain(1_001, 10_000, 8);
    assert_eq!((cache.shard_capacity(), cache.capacity()), (126, 1_008));
}

#[test]
fn an_item_too_heavy_is_dropped_silently_and_takes_the_older_value_with_it() {
    let cache = plain(1_000, 1_000, 1);
    cache.insert("key".to_owned(), 10);
    cache.insert("key".to_owned(), 2_000);
    assert_eq!(cache.get("key"), None);
    assert_eq!((cache.len(), cache.weight()), (0, 0));
    // `replace` at least says so.
    cache.insert("key".to_owned(), 10);
    assert_eq!(cache.replace("key".to_owned(), 2_000, false), Err(("key".to_owned(), 2_000)));
    assert_eq!(cache.get("key"), None);
}

#[test]
fn weight_zero_is_never_evicted() {
    let cache = plain(1_000, 1_000, 1);
    for i in 0..500 {
        cache.insert(format!("nothing {i}"), 0);
    }
    for i in 0..10_000 {
        cache.insert(format!("something {i}"), 10);
    }
    assert_eq!((0..500).filter(|i| cache.get(&format!("nothing {i}")).is_some()).count(), 500);
    assert!(cache.len() > 500 && cache.weight() <= 1_000);
}

#[test]
fn total_weight_never_passes_the_bound() {
    let cache = plain(100_000, 1_000, 8);
    let highest = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (cache, highest) = (&cache, &highest);
            scope.spawn(move || {
                for i in 0..20_000_u64 {
                    // New keys, overwrites that grow and shrink, and hits.
                    cache.insert(format!("{}", (i * 7 + thread) % 3_000), (i * 31) % 5_000 + 1);
                    cache.get(&format!("{}", i % 100));
                    if i % 100 == 0 {
                        highest.fetch_max(cache.weight(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(highest.into_inner() <= cache.capacity());
    assert!(cache.weight() <= cache.capacity());
}

/// `max(bytes, max_bytes / max_entries)`, rounded up: rounded down, more than `max_entries` would fit.
#[test]
fn the_floor_of_the_weight_bounds_the_entries() {
    let (max_bytes, max_entries) = (1_000_u64, 600_u64);
    let filled = |floor: u64| {
        let cache = plain(max_bytes, 600, 1);
        for i in 0..5_000 {
            cache.insert(format!("{i}"), floor);
        }
        cache.len()
    };
    assert_eq!(filled(max_bytes / max_entries), 1_000);
    assert_eq!(filled(max_bytes.div_ceil(max_entries)), 500);
}

/// Of as many keys as there is room for, some do not fit where they belong, for shards share nothing.
#[test]
fn more_shards_hold_fewer_of_the_entries_there_is_room_for() {
    let held = |shards| {
        let cache = plain(1_000, 1_000, shards);
        for i in 0..1_000 {
            cache.insert(format!("{i}"), 1);
        }
        cache.len()
    };
    assert_eq!(held(1), 1_000);
    assert!((930..1_000).contains(&held(8)), "{}", held(8));
}

/// What the lifecycle was told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Lifecycle<String, u64> for Told {
    type RequestState = ();

    fn before_evict(&self, (): &mut (), key: &String, value: &mut u64) {
        self.0.lock().unwrap().push(format!("before {key}={value}"));
    }

    fn on_evict(&self, (): &mut (), key: String, value: u64) {
        self.0.lock().unwrap().push(format!("on {key}={value}"));
    }
}

#[test]
fn the_lifecycle_hears_of_replaced_evicted_and_refused_items_but_not_of_removed_ones() {
    let told = Told::default();
    let cache = Cache::with_options(options(100, 100, 1), Stated, DefaultHashBuilder::default(), told.clone());
    cache.insert("a".to_owned(), 10);
    assert_eq!(told.take(), Vec::<String>::new());
    cache.insert("a".to_owned(), 20);
    assert_eq!(told.take(), ["on a=10"], "replaced: `on_evict` without `before_evict`");
    cache.insert("a".to_owned(), 99);
    assert_eq!(told.take(), ["before a=99", "on a=20", "on a=99"], "refused: the older and the new one");
    cache.insert("b".to_owned(), 60);
    cache.insert("c".to_owned(), 60);
    assert_eq!(told.take(), ["before b=60", "on b=60"], "evicted");
    assert_eq!(cache.remove("c"), Some(("c".to_owned(), 60)));
    cache.insert("d".to_owned(), 10);
    assert_eq!(cache.remove_if("d", |_| true), Some(("d".to_owned(), 10)));
    cache.insert("e".to_owned(), 10);
    cache.retain(|_, _| false);
    cache.insert("f".to_owned(), 10);
    assert_eq!(cache.drain().count(), 1);
    cache.insert("g".to_owned(), 10);
    cache.clear();
    assert_eq!(told.take(), Vec::<String>::new(), "removed by hand");
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct TenantKey(Option<Arc<str>>, Arc<str>);

#[derive(Hash)]
struct TenantKeyRef<'a>(Option<&'a str>, &'a str);

impl Equivalent<TenantKey> for TenantKeyRef<'_> {
    fn equivalent(&self, key: &TenantKey) -> bool {
        self.0 == key.0.as_deref() && self.1 == &*key.1
    }
}

#[test]
fn a_key_of_several_parts_is_looked_up_without_building_it() {
    let cache: Cache<TenantKey, u64> = Cache::new(100);
    cache.insert(TenantKey(Some("a".into()), "k".into()), 1);
    cache.insert(TenantKey(None, "k".into()), 2);
    assert_eq!(cache.get(&TenantKeyRef(Some("a"), "k")), Some(1));
    assert_eq!(cache.get(&TenantKeyRef(None, "k")), Some(2));
    assert_eq!(cache.peek(&TenantKeyRef(Some("b"), "k")), None);
    assert_eq!(cache.remove_if(&TenantKeyRef(None, "k"), |v| *v == 1).map(|(_, v)| v), None);
    assert_eq!(cache.remove(&TenantKeyRef(None, "k")).map(|(_, v)| v), Some(2));
    let cache: Cache<Arc<str>, u64> = Cache::new(100);
    cache.insert("k".into(), 3);
    assert_eq!(cache.get("k"), Some(3));
}

#[test]
fn iter_drain_len_and_weight_agree() {
    let cache = plain(10_000, 10_000, 8);
    for i in 0..100 {
        cache.insert(format!("{i}"), i + 1);
    }
    assert_eq!((cache.len(), cache.weight()), (100, 5_050));
    assert_eq!(cache.iter().map(|(_, weight)| weight).sum::<u64>(), 5_050);
    // Removing while iterating: the lock is taken per item, and not held between two.
    for (key, _) in cache.iter() {
        cache.remove(&key);
    }
    assert!(cache.is_empty());
    cache.insert("a".to_owned(), 1);
    assert_eq!(cache.drain().collect::<Vec<_>>(), [("a".to_owned(), 1)]);
    assert_eq!((cache.len(), cache.weight()), (0, 0));
}

/// A value whose drop panics, as a user's may.
#[derive(Clone)]
struct Armed(Arc<Bomb>);

struct Bomb(u64, bool);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.1 || thread::panicking(), "dropped");
    }
}

#[derive(Clone)]
struct ByBomb;

impl Weighter<u64, Armed> for ByBomb {
    fn weight(&self, _: &u64, value: &Armed) -> u64 {
        value.0.0
    }
}

#[derive(Clone)]
struct DropOutside;

impl Lifecycle<u64, Armed> for DropOutside {
    type RequestState = Vec<(u64, Armed)>;

    fn on_evict(&self, evicted: &mut Self::RequestState, key: u64, value: Armed) {
        evicted.push((key, value));
    }
}

/// Whether the shard still answers after one insert evicted three values and the drop of the last one panicked.
fn survives<L: Lifecycle<u64, Armed> + Clone>(lifecycle: L) -> bool {
    let cache = Cache::with_options(options(100, 100, 1), ByBomb, DefaultHashBuilder::default(), lifecycle);
    for i in 0..3 {
        cache.insert(i, Armed(Arc::new(Bomb(30, i == 2))));
    }
    let insert = || cache.insert(3, Armed(Arc::new(Bomb(95, false))));
    assert!(catch_unwind(AssertUnwindSafe(insert)).is_err(), "the value's panic reaches the caller");
    catch_unwind(AssertUnwindSafe(|| cache.get(&3).is_some())).is_ok()
}

/// The default lifecycle carries two evicted items out of the lock and drops the third under it.
#[test]
fn a_drop_that_panics_under_the_lock_poisons_the_shard() {
    assert!(!survives(DefaultLifecycle::default()));
}

#[test]
fn a_lifecycle_that_keeps_all_evicted_items_drops_them_outside_the_lock() {
    assert!(survives(DropOutside));
}

/// `clear` and `retain` drop values under the lock; `drain`, `remove` and `remove_if` hand them out.
#[test]
fn drain_drops_outside_the_lock_and_clear_and_retain_inside() {
    type Bombs = Cache<u64, Armed, ByBomb, DefaultHashBuilder, DropOutside>;
    let survives = |empty: fn(&Bombs)| {
        let cache = Cache::with_options(options(100, 100, 1), ByBomb, DefaultHashBuilder::default(), DropOutside);
        cache.insert(0, Armed(Arc::new(Bomb(30, true))));
        assert!(catch_unwind(AssertUnwindSafe(|| empty(&cache))).is_err());
        catch_unwind(AssertUnwindSafe(|| cache.get(&0).is_none())).is_ok()
    };
    assert!(!survives(Bombs::clear));
    assert!(!survives(|cache| cache.retain(|_, _| false)));
    assert!(survives(|cache| cache.drain().for_each(drop)));
    assert!(survives(|cache| drop(cache.remove(&0))));
    assert!(survives(|cache| drop(cache.remove_if(&0, |_| true))));
}

/// Ghosts are slots too: half as many as entries were expected, however few the bytes let in.
#[test]
fn ghosts_take_slots_for_half_the_entries_expected() {
    let used = |expected| {
        let cache = plain(100_000, expected, 1);
        for i in 0..100_000 {
            cache.insert(format!("{i}"), 1_000);
        }
        assert!(cache.len() <= 100);
        cache.memory_used().entries
    };
    let (close, far) = (used(100), used(50_000));
    assert!(far > 100 * close, "{far} for {close}");
}

#[test]
fn moka_refuses_an_item_too_heavy_only_later_and_passes_its_bound_between() {
    let cache: moka::sync::Cache<u64, u64> = moka::sync::Cache::builder()
        .max_capacity(1_000)
        .weigher(|_, value| u32::try_from(*value).unwrap_or(u32::MAX))
        .build();
    cache.insert(1, 10);
    cache.run_pending_tasks();
    cache.insert(1, 2_000);
    assert_eq!(cache.get(&1), Some(2_000), "held although heavier than the whole cache");
    cache.run_pending_tasks();
    assert_eq!((cache.get(&1), cache.weighted_size()), (None, 0));

    for i in 0..50 {
        cache.insert(i, 900);
    }
    let held: u64 = cache.iter().map(|(_, weight)| weight).sum();
    assert!(held > 10_000, "{held} held for a bound of 1,000");
    cache.run_pending_tasks();
    assert!(cache.iter().map(|(_, weight)| weight).sum::<u64>() <= 1_000);
}
