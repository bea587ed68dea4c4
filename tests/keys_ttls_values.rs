//! Bad and odd input: keys, times to live, values, stored bytes, clocks.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::{Fault, Op};
use cachekit::{Backend, Cache, CallError, ErrorKind, Reason, SetOptions, Source, Stored, Ttl};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use support::{Rig, Runs};

const LONGEST: usize = 1_024 - "n:".len();

#[tokio::test]
async fn u155_a_bad_key_is_refused_by_every_method_alike() {
    for rig_cache in [Rig::new().cache, Cache::builder("n").build().unwrap()] {
        for key in ["", "a\0b", "line\nbreak", "\u{7f}", "\u{85}", &"k".repeat(LONGEST + 1), &"é".repeat(512)] {
            let cache = &rig_cache;
            let mut errors = vec![
                cache.get::<i32>(key).await.unwrap_err(),
                cache.set(key, 1).await.unwrap_err(),
                cache.set_with_ttl(key, 1, Ttl::Never).await.unwrap_err(),
                cache.delete(key).await.unwrap_err(),
                cache.exists(key).await.unwrap_err(),
            ];
            let runs = Runs::new();
            for error in [
                cache.get_or_compute(key, || runs.give(1)).await.unwrap_err(),
                cache.get_or_compute_opt(key, || runs.give(Some(1))).await.unwrap_err(),
                cache.fetch(key, || runs.give(1)).await.unwrap_err(),
            ] {
                let CallError::Cache(error) = error;
                errors.push(error);
            }
            assert!(errors.iter().all(|error| error.kind() == ErrorKind::KeyInvalid), "{key:?}: {errors:?}");
            assert_eq!(runs.count(), 0);
        }
    }
}

#[tokio::test]
async fn any_other_key_works_in_both_tiers() {
    let rig = Rig::new();
    let longest = "k".repeat(LONGEST);
    let keys =
        [" ", "a b", "é✓🦀", ":", "a:b", "n:", "%2F", "*?[x]", "\u{200b}", "\u{fffd}", "'; DROP TABLE", &longest];
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(rig.cache.set(key, i).await.unwrap(), Stored::Stored, "{key:?}");
    }
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(rig.cache.get(key).await.unwrap(), Some(i), "{key:?}");
        assert_eq!(rig.second().cache.get(key).await.unwrap(), Some(i), "{key:?}");
    }
}

#[tokio::test]
async fn u014_u148_namespaces_tenants_and_keys_never_meet() {
    let rig = Rig::new();
    let cache = |namespace: &str| {
        Cache::builder(namespace).backend(cachekit::testing::MemoryFactory::new(&rig.store)).build().unwrap()
    };
    let (a, ab) = (cache("a"), cache("ab"));
    let tenants = [a.for_tenant("b").unwrap(), a.for_tenant("b.c").unwrap()];
    let handles = [&a, &ab, &tenants[0], &tenants[1]];
    for (i, handle) in handles.iter().enumerate() {
        for key in ["k", "b:k", "@b:k"] {
            let _ = handle.set(key, (i, key.to_owned())).await.unwrap();
        }
    }
    assert_eq!(rig.store.len(), 12);
    for (i, handle) in handles.iter().enumerate() {
        for key in ["k", "b:k", "@b:k"] {
            assert_eq!(handle.get(key).await.unwrap(), Some((i, key.to_owned())));
        }
    }
    a.clear().await.unwrap();
    assert_eq!(rig.store.len(), 9, "the tenants and the other namespace stay");
}

#[tokio::test]
async fn u149_the_stored_key_is_the_namespace_a_colon_and_the_key() {
    let store = cachekit::testing::MemoryBackend::new();
    let cache = Cache::builder("q").backend(cachekit::testing::MemoryFactory::new(&store)).build().unwrap();
    let _ = cache.set("k", 1).await.unwrap();
    let _ = cache.for_tenant("acme").unwrap().set("k", 1).await.unwrap();
    assert_eq!(store.keys(), ["q:k", "q@acme:k"]);
}

#[tokio::test]
async fn ttls_are_exact_in_both_tiers() {
    let rig = Rig::new();
    let cases = [
        (Duration::from_nanos(1), 1),
        (Duration::from_micros(300), 1),
        (Duration::from_millis(300), 300),
        (Duration::from_secs(1), 1_000),
        (Duration::from_secs(31 * 86_400), 31 * 86_400_000),
        (Duration::from_secs(20 * 365 * 86_400), 20 * 365 * 86_400_000),
    ];
    for (ttl, millis) in cases {
        let _ = rig.cache.set_with_ttl("k", 1, ttl).await.unwrap();
        rig.clock.advance(Duration::from_millis(millis) - Duration::from_nanos(1));
        assert!(rig.in_l1("k").await, "{ttl:?}");
        rig.clock.advance(Duration::from_nanos(1));
        assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None, "{ttl:?}");
        assert_eq!(rig.second().cache.get::<i32>("k").await.unwrap(), None, "{ttl:?}");
    }
}

#[tokio::test]
async fn u134_zero_is_refused_and_the_rest_never_ends() {
    let rig = Rig::new();
    assert_eq!(rig.cache.set_with_ttl("k", 1, Duration::ZERO).await.unwrap_err().kind(), ErrorKind::TtlInvalid);
    assert_eq!(rig.cache.with_ttl(Duration::ZERO).unwrap_err().kind(), ErrorKind::TtlInvalid);
    for ttl in [Ttl::Never, Ttl::For(Duration::MAX), Ttl::For(Duration::from_secs(u64::MAX / 1_000))] {
        let _ = rig.cache.set_with_ttl("k", 1, ttl).await.unwrap();
        rig.clock.advance(Duration::from_secs(100 * 365 * 86_400));
        assert!(rig.in_l1("k").await, "{ttl:?}");
        assert_eq!(rig.second().cache.get::<i32>("k").await.unwrap(), Some(1), "{ttl:?}");
    }
}

#[tokio::test]
async fn u035_each_entry_has_its_own_ttl() {
    let cache = Rig::new();
    let _ = cache.cache.set_with_ttl("short", 1, Duration::from_secs(1)).await.unwrap();
    let _ = cache.cache.set_with_ttl("long", 1, Duration::from_secs(5)).await.unwrap();
    cache.clock.advance(Duration::from_secs(2));
    assert_eq!(cache.cache.get::<i32>("short").await.unwrap(), None);
    assert_eq!(cache.cache.get::<i32>("long").await.unwrap(), Some(1));
}

#[tokio::test]
async fn u073_u074_l1_keeps_a_copy_for_what_is_left_or_l1_max_ttl_whichever_is_less() {
    let store = Rig::with(|builder| builder.default_ttl(Duration::from_secs(600)));
    let _ = store.cache.set_with_ttl("left", 1, Duration::from_secs(10)).await.unwrap();
    let _ = store.cache.set("aged", 2).await.unwrap();
    let reader = Rig::over(store.store.clone(), store.clock.clone(), |b| b.l1_max_ttl(Duration::from_secs(30)));
    store.clock.advance(Duration::from_secs(8));
    let fetched = reader.cache.fetch("left", || Runs::new().give_owned(0)).await.unwrap();
    assert_eq!((fetched.value, fetched.source, fetched.age), (1, Source::L2, Duration::from_secs(8)));
    reader.clock.advance(Duration::from_secs(1));
    let fetched = reader.cache.fetch("left", || Runs::new().give_owned(0)).await.unwrap();
    assert_eq!((fetched.value, fetched.source, fetched.age), (1, Source::L1, Duration::from_secs(9)));
    reader.clock.advance(Duration::from_secs(2));
    assert!(!reader.in_l1("left").await);
    assert_eq!(reader.cache.get::<i32>("left").await.unwrap(), None);

    reader.clock.advance(Duration::from_secs(89));
    assert_eq!(reader.cache.get::<i32>("aged").await.unwrap(), Some(2));
    reader.clock.advance(Duration::from_secs(29));
    assert!(reader.in_l1("aged").await);
    let reads = reader.reads();
    reader.clock.advance(Duration::from_secs(2));
    assert_eq!(reader.cache.get::<i32>("aged").await.unwrap(), Some(2), "from the L2 again");
    assert_eq!(reader.reads(), reads + 1);
}

#[tokio::test]
async fn an_expired_entry_that_the_backend_still_has_is_not_served() {
    let rig = Rig::new();
    let _ = rig.cache.set_with_ttl("k", 1, Duration::from_secs(1)).await.unwrap();
    let bytes = rig.store.raw("n:k").unwrap();
    rig.clock.advance(Duration::from_secs(2));
    rig.store.set("n:k", bytes, SetOptions::default()).await.unwrap();
    assert_eq!(rig.second().cache.get::<i32>("k").await.unwrap(), None);
    assert!(!rig.second().cache.exists("k").await.unwrap());
}

#[tokio::test]
async fn a_wall_clock_that_jumps_an_hour_serves_nothing_it_must_not() {
    let rig = Rig::new();
    let _ = rig.cache.set("k", 1).await.unwrap();
    // Back: L1 does not look at it; the L2's entry seems to come from the future.
    rig.clock.shift_wall(-3_600_000);
    assert!(rig.in_l1("k").await);
    let second = rig.second();
    assert_eq!(second.cache.get::<i32>("k").await.unwrap(), None);
    assert_eq!(second.degraded("decode"), 1);
    // Forward: L1 keeps it for exactly its time; for the L2 it is over.
    rig.clock.shift_wall(2 * 3_600_000);
    assert!(rig.in_l1("k").await);
    assert_eq!(rig.second().cache.get::<i32>("k").await.unwrap(), None);
    rig.clock.advance(Duration::from_secs(300));
    assert!(!rig.in_l1("k").await);
    // A little ahead is a clock like any other.
    rig.clock.shift_wall(-3_600_000);
    let _ = rig.cache.set("skew", 1).await.unwrap();
    rig.clock.shift_wall(-30_000);
    assert_eq!(rig.second().cache.get::<i32>("skew").await.unwrap(), Some(1));
}

#[tokio::test]
async fn a_value_over_the_cap_is_returned_and_held_by_no_tier() {
    let rig = Rig::with(|builder| builder.max_value_bytes(1_000));
    let fits = vec![0_u8; 400];
    let large = vec![0_u8; 1_000];
    assert_eq!(rig.cache.set("k", fits.clone()).await.unwrap(), Stored::Stored);
    assert_eq!(rig.cache.set("k", large.clone()).await.unwrap(), Stored::Skipped(Reason::TooLarge));
    assert!(!rig.in_l1("k").await && !rig.in_l2("k"), "nor the older one");
    let fetched = rig.cache.fetch("f", || Runs::new().give_owned(large.clone())).await.unwrap();
    assert_eq!((fetched.value, fetched.stored), (large.clone(), Some(Stored::Skipped(Reason::TooLarge))));
    // On reading too: another process with a larger cap wrote it.
    let other = Rig::over(rig.store.clone(), rig.clock.clone(), |builder| builder);
    assert_eq!(other.cache.set("k", large).await.unwrap(), Stored::Stored);
    assert_eq!(rig.cache.get::<Vec<u8>>("k").await.unwrap(), None);
    assert_eq!(rig.degraded("too_large"), 3);
    let l1_only = Cache::builder("n").max_value_bytes(10).build().unwrap();
    assert_eq!(l1_only.set("k", fits).await.unwrap(), Stored::Skipped(Reason::TooLarge));
    assert_eq!(l1_only.get::<Vec<u8>>("k").await.unwrap(), None);
}

#[tokio::test]
async fn the_cap_counts_the_entry_as_stored() {
    // 44 bytes of header and checksum, 2 of MessagePack, 10 of text.
    for (cap, stored) in [(56, Stored::Stored), (55, Stored::Skipped(Reason::TooLarge))] {
        let rig = Rig::with(|builder| builder.max_value_bytes(cap));
        assert_eq!(rig.cache.set("k", "x".repeat(11)).await.unwrap(), stored);
        let l1_only = Cache::builder("n").max_value_bytes(cap).build().unwrap();
        assert_eq!(l1_only.set("k", "x".repeat(11)).await.unwrap(), stored);
    }
}

#[tokio::test]
async fn u079_a_value_over_the_backends_limit_stays_in_l1_and_the_older_one_goes() {
    for says_so_beforehand in [true, false] {
        let store = cachekit::testing::MemoryBackend::new();
        let rig = Rig::over(store.clone(), cachekit::testing::ManualClock::new(), |builder| builder);
        let rig = if says_so_beforehand {
            Rig::over(store.with_max_value_bytes(1_000), rig.clock.clone(), |b| b)
        } else {
            rig
        };
        let _ = rig.cache.set("k", vec![0_u8; 10]).await.unwrap();
        let writes = rig.writes();
        if !says_so_beforehand {
            rig.faults.next(Op::Set, 1, Fault::Fail(ErrorKind::TooLarge));
        }
        let large = vec![0_u8; 2_000];
        assert_eq!(rig.cache.set("k", large.clone()).await.unwrap(), Stored::L1Only(Reason::TooLarge));
        assert_eq!(rig.writes(), writes + u64::from(!says_so_beforehand), "no network write");
        assert!(!rig.in_l2("k"));
        assert_eq!(rig.cache.get::<Vec<u8>>("k").await.unwrap(), Some(large));
        assert_eq!((rig.degraded("too_large"), rig.cache.health().unsynced, rig.failures()), (1, 0, 0));
    }
}

#[tokio::test]
async fn a_value_that_does_not_serialize_is_skipped_and_takes_the_older_one_with_it() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Odd {
        #[serde(serialize_with = "refuse_zero")]
        number: u8,
    }
    fn refuse_zero<S: serde::Serializer>(number: &u8, serializer: S) -> Result<S::Ok, S::Error> {
        if *number == 0 { Err(serde::ser::Error::custom("zero")) } else { serializer.serialize_u8(*number) }
    }
    for cache in [Rig::new().cache, Cache::builder("n").build().unwrap()] {
        assert_eq!(cache.set("k", Odd { number: 1 }).await.unwrap(), Stored::Stored);
        assert_eq!(cache.set("k", Odd { number: 0 }).await.unwrap(), Stored::Skipped(Reason::Serialize));
        assert_eq!(cache.get::<Odd>("k").await.unwrap(), None);
        let fetched = cache.fetch("f", || Runs::new().give_owned(Odd { number: 0 })).await.unwrap();
        assert_eq!((fetched.value.number, fetched.stored), (0, Some(Stored::Skipped(Reason::Serialize))));
    }
}

#[tokio::test]
async fn stored_bytes_cut_at_any_length_or_with_any_bit_flipped_are_a_miss() {
    let rig = Rig::new();
    let _ = rig.cache.set("k", "some text".to_owned()).await.unwrap();
    let bytes = rig.store.raw("n:k").unwrap();
    let reader = rig.second();
    for len in 0..bytes.len() {
        reader.store.insert_raw("n:k", bytes.slice(..len));
        assert_eq!(reader.cache.get::<String>("k").await.unwrap(), None, "{len} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        reader.store.insert_raw("n:k", flipped);
        assert_eq!(reader.cache.get::<String>("k").await.unwrap(), None, "bit {bit}");
    }
    reader.store.insert_raw("n:k", [&bytes[..], b"\0"].concat());
    assert_eq!(reader.cache.get::<String>("k").await.unwrap(), None);
    reader.store.insert_raw("n:k", bytes);
    assert_eq!(reader.cache.get::<String>("k").await.unwrap().as_deref(), Some("some text"));
}

#[tokio::test]
async fn another_keys_bytes_are_a_miss() {
    let rig = Rig::new();
    let _ = rig.cache.set("a", 1).await.unwrap();
    rig.store.insert_raw("n:b", rig.store.raw("n:a").unwrap());
    assert_eq!(rig.second().cache.get::<i32>("b").await.unwrap(), None);
    let other = Cache::builder("m").backend(cachekit::testing::MemoryFactory::new(&rig.store)).build().unwrap();
    rig.store.insert_raw("m:a", rig.store.raw("n:a").unwrap());
    assert_eq!(other.get::<i32>("a").await.unwrap(), None);
}

#[tokio::test]
async fn u151_a_value_of_any_shape_round_trips_through_the_l2() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Unit,
        Tuple(i64, f64),
        Struct { map: BTreeMap<String, Option<Vec<u8>>>, nested: Box<Shape> },
    }
    let rig = Rig::new();
    let shapes = vec![
        Shape::Unit,
        Shape::Tuple(i64::MIN, f64::MAX),
        Shape::Struct {
            map: [("a".to_owned(), None), (String::new(), Some(vec![0xC1]))].into(),
            nested: Box::new(Shape::Tuple(0, -0.0)),
        },
    ];
    let _ = rig.cache.set("k", shapes.clone()).await.unwrap();
    assert_eq!(rig.second().cache.get("k").await.unwrap(), Some(shapes));
    let _ = rig.cache.set("unit", ()).await.unwrap();
    assert_eq!(rig.second().cache.get("unit").await.unwrap(), Some(()));
    let _ = rig.cache.set("empty", String::new()).await.unwrap();
    assert_eq!(rig.second().cache.get("empty").await.unwrap(), Some(String::new()));
    let _ = rig.cache.set("none", None::<u8>).await.unwrap();
    assert_eq!(rig.second().cache.get("none").await.unwrap(), Some(None::<u8>));
}

#[tokio::test]
async fn a_large_value_behind_an_arc_is_not_copied_by_a_hit() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Large(Vec<u8>);
    #[derive(Clone, Debug)]
    struct Shared(Arc<Large>);
    impl Serialize for Shared {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            self.0.serialize(serializer)
        }
    }
    impl<'de> Deserialize<'de> for Shared {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Large::deserialize(deserializer).map(|large| Self(Arc::new(large)))
        }
    }
    let cache = Cache::builder("n").build().unwrap();
    let value = Shared(Arc::new(Large(vec![7; 64 << 10])));
    let _ = cache.set("k", value.clone()).await.unwrap();
    let hit = cache.get::<Shared>("k").await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&hit.0, &value.0));
}

#[tokio::test]
async fn u044_exists_agrees_with_get() {
    let rig = Rig::new();
    for (key, value) in [("a", 1), ("b", 2)] {
        let _ = rig.cache.set_with_ttl(key, value, Duration::from_secs(u64::try_from(value).unwrap())).await.unwrap();
    }
    rig.store.insert_raw("n:junk", "junk");
    for _ in 0..3 {
        for key in ["a", "b", "c", "junk"] {
            for rig in [rig.second()] {
                assert_eq!(rig.cache.exists(key).await.unwrap(), rig.cache.get::<i32>(key).await.unwrap().is_some());
            }
            assert_eq!(rig.cache.exists(key).await.unwrap(), rig.cache.get::<i32>(key).await.unwrap().is_some());
        }
        rig.clock.advance(Duration::from_secs(1));
    }
}

#[cfg(feature = "json")]
#[tokio::test]
async fn json_is_another_format_and_never_read_as_message_pack() {
    let json = Rig::with(|builder| builder.json());
    let _ = json.cache.set("k", 1).await.unwrap();
    assert!(json.store.raw("n:k").unwrap().ends_with(b"1"));
    let other = Rig::over(json.store.clone(), json.clock.clone(), |builder| builder.json());
    assert_eq!(other.cache.get::<i32>("k").await.unwrap(), Some(1));
    let message_pack = json.second();
    assert_eq!(message_pack.cache.get::<i32>("k").await.unwrap(), None);
    assert_eq!(message_pack.degraded("decode"), 1);
}

#[tokio::test]
async fn u034_u140_u143_jitter_spreads_ttls_within_its_bounds_in_both_tiers() {
    let rig = Rig::with(|b| b.ttl_jitter(0.1).ttl_jitter_seed(1).default_ttl(Duration::from_secs(100)));
    for i in 0..1_000 {
        let _ = rig.cache.set(&i.to_string(), i).await.unwrap();
    }
    let alive = async |rig: &Rig| {
        let mut alive = 0;
        for i in 0..1_000 {
            alive += usize::from(rig.cache.get::<i32>(&i.to_string()).await.unwrap().is_some());
        }
        alive
    };
    let tiers = [&rig, &rig.second()];
    rig.clock.advance(Duration::from_millis(89_999));
    for tier in tiers {
        assert_eq!(alive(tier).await, 1_000);
    }
    rig.clock.advance(Duration::from_secs(10));
    for tier in tiers {
        assert!((400..600).contains(&alive(tier).await));
    }
    rig.clock.advance(Duration::from_secs(10) + Duration::from_millis(2));
    for tier in tiers {
        assert_eq!(alive(tier).await, 0);
    }
    let _ = rig.cache.set_with_ttl("short", 1, Duration::from_millis(1)).await.unwrap();
    assert!(rig.in_l1("short").await, "never to zero");
    let _ = rig.cache.set_with_ttl("never", 1, Ttl::Never).await.unwrap();
    rig.clock.advance(Duration::from_secs(1_000_000_000));
    assert!(rig.in_l1("never").await);
    for fraction in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        let error = Cache::builder("n").ttl_jitter(fraction).build().unwrap_err();
        assert!(error.to_string().contains("ttl_jitter"), "{error}");
    }
}
