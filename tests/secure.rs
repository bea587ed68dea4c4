//! A cache with `secure`: what the tiers hold, what opens, and what becomes of what does not.
#![cfg(feature = "secure")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::secure::{Keyring, MasterKey, Secure, SecureExt};
use cachekit::testing::{ManualClock, MemoryBackend, Op};
use cachekit::{Cache, CacheBuilder, CallError, ErrorKind, Fetched, Reason, Source, Stored};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Rig, Runs};

const NEEDLE: &str = "needle-5f3a9c1e77d2";

fn key(fill: u8) -> MasterKey {
    MasterKey::from_bytes([fill; 32])
}

fn secure() -> Secure {
    Secure::new(Keyring::new(key(1)))
}

fn rig(secure: Secure) -> Rig {
    Rig::with(|builder| builder.secure(secure))
}

/// Another process over the same store.
fn reader(rig: &Rig, secure: Secure) -> Rig {
    Rig::over(rig.store.clone(), rig.clock.clone(), |builder| builder.secure(secure))
}

fn holds_the_needle(store: &MemoryBackend) -> bool {
    let mut bytes = store.keys().into_iter().filter_map(|key| store.raw(&key));
    bytes.any(|bytes| bytes.windows(NEEDLE.len()).any(|window| window == NEEDLE.as_bytes()))
}

async fn compute(rig: &Rig, key: &str) -> (Fetched<String>, usize) {
    let runs = Runs::new();
    let fetched = rig.cache.fetch(key, || runs.give("computed".to_owned())).await.unwrap();
    (fetched, runs.count())
}

/// Flips one bit of what the backend holds.
fn tamper(rig: &Rig, stored_key: &str) {
    let mut bytes = rig.store.raw(stored_key).unwrap().to_vec();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    rig.store.insert_raw(stored_key, bytes);
}

#[tokio::test]
async fn u118_no_public_write_path_lets_plaintext_reach_the_backend() {
    let plain = Rig::new();
    let _ = plain.cache.set("k", NEEDLE.to_owned()).await.unwrap();
    assert!(holds_the_needle(&plain.store), "the control: a plain cache stores it in the clear");

    let rig = Rig::with(|builder| builder.secure(secure()).negative_ttl(Duration::from_secs(60)));
    let value = || NEEDLE.to_owned();
    let _ = rig.cache.set("set", value()).await.unwrap();
    let _ = rig.cache.set_with_ttl("set_with_ttl", value(), Duration::from_secs(1)).await.unwrap();
    let _ = rig.cache.with_ttl(Duration::from_secs(9)).unwrap().set("with_ttl", value()).await.unwrap();
    let _ = rig.cache.for_tenant("acme").unwrap().set("tenant", value()).await.unwrap();
    let _ = rig.cache.get_or_compute("compute", || Runs::new().give_owned(value())).await.unwrap();
    let _ = rig.cache.get_or_compute_opt("compute_opt", || Runs::new().give_owned(Some(value()))).await.unwrap();
    let _ = rig.cache.get_or_compute_opt("nothing", || Runs::new().give_owned(None::<String>)).await.unwrap();
    let _ = rig.cache.fetch("fetch", || Runs::new().give_owned(value())).await.unwrap();
    assert_eq!(rig.store.len(), 8);
    assert!(!holds_the_needle(&rig.store));
    let other = reader(&rig, secure());
    for key in ["set", "set_with_ttl", "with_ttl", "compute", "compute_opt", "fetch"] {
        assert_eq!(other.cache.get::<String>(key).await.unwrap().as_deref(), Some(NEEDLE), "{key}");
    }
}

#[tokio::test]
async fn l1_holds_no_value_only_what_opens_to_one() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(from = "u32")]
    struct Counted(u32);
    impl From<u32> for Counted {
        fn from(number: u32) -> Self {
            ALIVE.fetch_add(1, Ordering::SeqCst);
            Self(number)
        }
    }
    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.into()
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }
    for (builder, held) in [
        (Cache::builder("n"), 1),
        (Cache::builder("n").secure(secure()), 0),
        (Rig::new().builder().secure(secure()), 0),
    ] {
        let cache = builder.build().unwrap();
        let _ = cache.set("k", Counted::from(7)).await.unwrap();
        assert_eq!(ALIVE.load(Ordering::SeqCst), held);
        assert_eq!(cache.get::<Counted>("k").await.unwrap().unwrap().0, 7);
        assert_eq!(cache.fetch("k", || Runs::new().give_owned(Counted::from(0))).await.unwrap().source, Source::L1);
        assert_eq!(ALIVE.load(Ordering::SeqCst), held);
        assert!(cache.exists("k").await.unwrap() && cache.delete("k").await.unwrap());
        assert_eq!(ALIVE.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn u122_u121_a_plaintext_entry_never_opens_and_fail_open_overwrites_it() {
    let plain = Rig::new();
    let _ = plain.cache.set("k", NEEDLE.to_owned()).await.unwrap();
    let sealed = reader(&plain, secure());
    assert_eq!(sealed.cache.get::<String>("k").await.unwrap(), None);
    let (fetched, runs) = compute(&sealed, "k").await;
    assert_eq!((fetched.value.as_str(), fetched.degraded, runs), ("computed", Some(Reason::Unauthentic), 1));
    assert_eq!(sealed.degraded("unauthentic"), 2);
    assert!(!holds_the_needle(&plain.store), "overwritten");
    // And the other way round: a plain cache does not believe a sealed entry.
    assert_eq!(plain.second().cache.get::<String>("k").await.unwrap(), None);
}

#[tokio::test]
async fn s27_fail_open_makes_tampering_a_miss() {
    let rig = rig(secure());
    let _ = rig.cache.set("k", "value".to_owned()).await.unwrap();
    tamper(&rig, "n:k");
    let reader = reader(&rig, secure());
    assert!(!reader.cache.exists("k").await.unwrap());
    let (fetched, runs) = compute(&reader, "k").await;
    assert_eq!((fetched.value.as_str(), fetched.degraded, runs), ("computed", Some(Reason::Unauthentic), 1));
    assert_eq!((reader.failures(), reader.state()), (0, "CLOSED"));
}

#[tokio::test]
async fn s27_fail_closed_makes_tampering_an_error_to_every_waiter_and_keeps_the_evidence() {
    let rig = rig(secure());
    let _ = rig.cache.set("k", "value".to_owned()).await.unwrap();
    tamper(&rig, "n:k");
    let evidence = rig.store.raw("n:k");
    let reader = reader(&rig, secure().fail_closed());
    reader.faults.delay(Op::Get, Duration::from_millis(5));
    let runs = Runs::new();
    let calls = (0..10).map(|_| {
        let (cache, runs) = (reader.cache.clone(), runs.clone());
        async move { cache.get_or_compute("k", || runs.give("computed".to_owned())).await }
    });
    for result in futures_util::future::join_all(calls).await {
        let Err(CallError::Cache(error)) = result else { panic!("{result:?}") };
        assert_eq!(error.kind(), ErrorKind::DecryptionAuthentication);
        assert_eq!(error.to_string(), "the entry did not authenticate");
    }
    assert_eq!((runs.count(), reader.reads()), (0, 1), "the function never ran");
    for error in [reader.cache.get::<String>("k").await.unwrap_err(), reader.cache.exists("k").await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::DecryptionAuthentication);
    }
    assert_eq!(rig.store.raw("n:k"), evidence);
    assert_eq!((reader.failures(), reader.state(), reader.writes()), (0, "CLOSED", 0));
    // A write is how a key becomes usable again.
    let _ = reader.cache.set("k", "new".to_owned()).await.unwrap();
    assert_eq!(reader.cache.get::<String>("k").await.unwrap().as_deref(), Some("new"));
}

#[tokio::test]
async fn q21_what_does_not_authenticate_gives_a_probe_its_slot_back() {
    let rig = rig(secure().fail_closed());
    rig.store.insert_raw("n:k", "junk");
    rig.cache.breaker().force_open();
    rig.clock.advance(Duration::from_secs(31));
    for _ in 0..10 {
        assert!(rig.cache.get::<String>("k").await.is_err());
        assert!(rig.cache.get_or_compute("k", || Runs::new().give_owned(String::new())).await.is_err());
        assert_eq!((rig.state(), rig.cache.breaker().snapshot().probes_in_use), ("HALF_OPEN", 0));
    }
}

#[tokio::test]
async fn bytes_of_any_length_never_open_and_never_panic() {
    let rig = rig(secure());
    let _ = rig.cache.set("k", "value".to_owned()).await.unwrap();
    let bytes = rig.store.raw("n:k").unwrap();
    let reader = reader(&rig, secure());
    for len in 0..bytes.len() {
        rig.store.insert_raw("n:k", bytes.slice(..len));
        assert_eq!(reader.cache.get::<String>("k").await.unwrap(), None, "{len} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        rig.store.insert_raw("n:k", flipped);
        assert_eq!(reader.cache.get::<String>("k").await.unwrap(), None, "bit {bit}");
    }
    rig.store.insert_raw("n:k", [&bytes[..], &[0; 5 << 20]].concat());
    assert_eq!(reader.cache.get::<String>("k").await.unwrap(), None, "over the cap");
}

#[tokio::test]
async fn another_key_namespace_tenant_schema_or_master_key_opens_nothing() {
    let rig = rig(secure());
    let _ = rig.cache.set("k", "value".to_owned()).await.unwrap();
    let bytes = rig.store.raw("n:k").unwrap();
    for stored_key in ["n:other", "m:k", "n@acme:k"] {
        rig.store.insert_raw(stored_key, bytes.clone());
    }
    let open = |namespace: &'static str, set_up: fn(CacheBuilder) -> CacheBuilder| {
        let factory = cachekit::testing::MemoryFactory::new(&rig.store);
        let builder = Cache::builder(namespace).backend(factory).clock(Arc::new(rig.clock.clone()));
        set_up(builder).build().unwrap()
    };
    let sealed = |builder: CacheBuilder| builder.secure(secure());
    assert_eq!(open("n", sealed).get::<String>("other").await.unwrap(), None);
    assert_eq!(open("m", sealed).get::<String>("k").await.unwrap(), None);
    assert_eq!(open("n", sealed).for_tenant("acme").unwrap().get::<String>("k").await.unwrap(), None);
    let other_key = |builder: CacheBuilder| builder.secure(Secure::new(Keyring::new(key(2))));
    assert_eq!(open("n", other_key).get::<String>("k").await.unwrap(), None);
    let other_schema = |builder: CacheBuilder| builder.secure(secure().fail_closed()).schema_version(1);
    assert_eq!(open("n", other_schema).get::<String>("k").await.unwrap(), None, "authentic: a miss, not an error");
    assert_eq!(open("n", sealed).get::<String>("k").await.unwrap().as_deref(), Some("value"), "the control");
}

#[tokio::test]
async fn u128_a_tenants_entry_opens_for_that_tenant_only() {
    let by_key = || secure().tenant(|key| Cow::Owned(key.split('/').next().unwrap_or_default().to_owned()));
    let rig = rig(by_key());
    let _ = rig.cache.set("acme/k", "value".to_owned()).await.unwrap();
    assert_eq!(reader(&rig, by_key()).cache.get::<String>("acme/k").await.unwrap().as_deref(), Some("value"));
    let other = secure().tenant(|_| Cow::Borrowed("someone else"));
    assert_eq!(reader(&rig, other).cache.get::<String>("acme/k").await.unwrap(), None);
    assert_eq!(reader(&rig, secure()).cache.get::<String>("acme/k").await.unwrap(), None);
}

#[tokio::test]
async fn u124_rotation_needs_no_downtime_and_says_when_the_old_key_can_go() {
    let old = rig(Secure::new(Keyring::new(key(1))));
    let _ = old.cache.set("k", "value".to_owned()).await.unwrap();
    let rotated = reader(&old, Secure::new(Keyring::new(key(2)).previous(key(1))));
    assert_eq!(rotated.cache.get::<String>("k").await.unwrap().as_deref(), Some("value"));
    let report = rotated.cache.health().sealer.unwrap();
    assert_eq!((report.keys.len(), report.keys[1].opened), (2, 1));
    assert!(report.keys.iter().all(|key| key.id.len() == 8));
    assert!(!report.previous_keys_can_be_dropped);
    let _ = rotated.cache.set("k", "value".to_owned()).await.unwrap();
    let finished = reader(&old, Secure::new(Keyring::new(key(2))));
    assert_eq!(finished.cache.get::<String>("k").await.unwrap().as_deref(), Some("value"));
    assert_eq!(reader(&old, Secure::new(Keyring::new(key(1)))).cache.get::<String>("k").await.unwrap(), None);
}

#[tokio::test]
async fn u125_an_expired_entry_that_is_put_back_never_opens() {
    let rig = rig(secure());
    let _ = rig.cache.set_with_ttl("k", "value".to_owned(), Duration::from_secs(1)).await.unwrap();
    let bytes = rig.store.raw("n:k").unwrap();
    rig.clock.advance(Duration::from_secs(1));
    rig.store.insert_raw("n:k", bytes);
    for secure in [secure(), secure().fail_closed()] {
        assert_eq!(reader(&rig, secure).cache.get::<String>("k").await.unwrap(), None);
    }
    assert_eq!(rig.cache.get::<String>("k").await.unwrap(), None);
}

#[tokio::test]
async fn hidden_key_names_are_nowhere_and_everything_still_works() {
    let hidden = || secure().hide_key_names(key(9));
    let rig = rig(hidden());
    let _ = rig.cache.set(NEEDLE, 1).await.unwrap();
    let _ = rig.cache.for_tenant("acme").unwrap().set(NEEDLE, 2).await.unwrap();
    let keys = rig.store.keys();
    assert!(keys.len() == 2 && keys.iter().all(|key| !key.contains(NEEDLE)), "{keys:?}");
    assert!(keys.iter().any(|key| key.starts_with("n:")) && keys.iter().any(|key| key.starts_with("n@acme:")));
    let other = reader(&rig, hidden());
    assert_eq!(other.cache.get::<i32>(NEEDLE).await.unwrap(), Some(1));
    assert_eq!(other.cache.fetch(NEEDLE, || Runs::new().give_owned(0)).await.unwrap().source, Source::L1);
    assert_eq!(other.cache.for_tenant("acme").unwrap().get::<i32>(NEEDLE).await.unwrap(), Some(2));
    assert_eq!(
        other.cache.get::<i32>("").await.unwrap_err().kind(),
        ErrorKind::KeyInvalid,
        "the name is checked first"
    );
    assert!(rig.cache.delete(NEEDLE).await.unwrap());
    assert_eq!(reader(&rig, hidden()).cache.get::<i32>(NEEDLE).await.unwrap(), None);
    rig.cache.for_tenant("acme").unwrap().clear().await.unwrap();
    assert!(rig.store.is_empty());
}

#[tokio::test]
async fn the_golden_entry_opens_through_a_cache() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct User {
        age: u8,
        name: String,
    }
    let golden = "c1530101000101000000000700000199c82cc00000000199c82f09f000000199c83153e0e479b8e603059783af0e253b1ac598\
                  14404142434445464748494a4b4c4d4e4f5051525354555657aac9be9ce533a436ec7057edfd691830deab34d01753eec242e66d\
                  9b8df924fe5f";
    let bytes: Vec<u8> =
        (0..golden.len()).step_by(2).map(|i| u8::from_str_radix(&golden[i..i + 2], 16).unwrap()).collect();
    let store = MemoryBackend::new();
    store.insert_raw("users:42", bytes);
    let clock = ManualClock::new();
    clock.set_wall_millis(1_760_000_000_000);
    let master = MasterKey::from_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()));
    let cache = Cache::builder("users")
        .backend(cachekit::testing::MemoryFactory::new(&store))
        .clock(Arc::new(clock))
        .schema_version(7)
        .secure(Secure::new(Keyring::new(master)).tenant(|_| Cow::Borrowed("acme")))
        .build()
        .unwrap();
    let alice = User { age: 30, name: "alice".to_owned() };
    assert_eq!(cache.get::<User>("42").await.unwrap(), Some(alice));
}

#[tokio::test]
async fn two_writes_of_one_value_look_different() {
    let rig = rig(secure());
    let _ = rig.cache.set("k", 1).await.unwrap();
    let first = rig.store.raw("n:k");
    let _ = rig.cache.set("k", 1).await.unwrap();
    assert_ne!(rig.store.raw("n:k"), first);
}

#[tokio::test]
async fn the_cap_counts_the_sealed_bytes() {
    // 92 bytes of sealing, 2 of MessagePack, 50 of text.
    for (cap, stored) in [(144, Stored::Stored), (143, Stored::Skipped(Reason::TooLarge))] {
        for rig in [Rig::with(|b| b.secure(secure()).max_value_bytes(cap))] {
            assert_eq!(rig.cache.set("k", "x".repeat(50)).await.unwrap(), stored);
        }
        let l1_only = Cache::builder("n").secure(secure()).max_value_bytes(cap).build().unwrap();
        assert_eq!(l1_only.set("k", "x".repeat(50)).await.unwrap(), stored);
    }
}

#[test]
fn a_secure_cache_without_a_good_ring_does_not_build() {
    let twice = Keyring::new(key(1)).previous(key(1));
    let error = Cache::builder("n").secure(Secure::new(twice)).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
    assert!(MasterKey::from_env("CACHEKIT_TEST_NO_SUCH_VARIABLE").is_err());
}

#[tokio::test]
async fn a_waiter_that_waits_no_longer_does_not_get_around_fail_closed() {
    let rig = Rig::with(|b| b.secure(secure().fail_closed()).flight_wait(Duration::from_millis(10)));
    rig.store.insert_raw("n:k", "tampered");
    rig.faults.delay(Op::Get, Duration::from_millis(60));
    let runs = Runs::new();
    let calls = (0..5).map(|_| {
        let (cache, runs) = (rig.cache.clone(), runs.clone());
        async move { cache.get_or_compute("k", || runs.give("computed".to_owned())).await }
    });
    for result in futures_util::future::join_all(calls).await {
        let Err(CallError::Cache(error)) = result else { panic!("{result:?}") };
        assert_eq!(error.kind(), ErrorKind::DecryptionAuthentication);
    }
    assert_eq!((runs.count(), rig.writes()), (0, 0));
    assert_eq!(rig.store.raw("n:k").as_deref(), Some(&b"tampered"[..]));
}

#[tokio::test]
async fn exists_drops_and_counts_what_does_not_open() {
    let secure = secure().fail_closed();
    let rig = rig(secure.clone());
    let _ = rig.cache.set("k", 1).await.unwrap();
    secure.reload(Keyring::new(key(2))).unwrap();
    assert_eq!(rig.cache.exists("k").await.unwrap_err().kind(), ErrorKind::DecryptionAuthentication);
    assert_eq!((rig.cache.health().l1.unwrap().entries, rig.degraded("unauthentic")), (0, 1));
    assert_eq!(rig.cache.exists("k").await.unwrap_err().kind(), ErrorKind::DecryptionAuthentication);
    assert_eq!(rig.degraded("unauthentic"), 2, "now the L2's");
}

#[tokio::test]
async fn when_sealing_fails_no_tier_is_touched_and_the_older_value_is_not_served() {
    use cachekit::secure::Padding;
    let padded = || secure().padding(Padding::multiples_of(std::num::NonZeroUsize::new(1 << 40).unwrap()));
    let rig = rig(secure());
    let _ = rig.cache.set("k", "old".to_owned()).await.unwrap();
    let failing = reader(&rig, padded());
    assert_eq!(failing.cache.set("k", "new".to_owned()).await.unwrap(), Stored::Skipped(Reason::Seal));
    assert_eq!(failing.faults.total_calls(), 0);
    assert_eq!(failing.cache.get::<String>("k").await.unwrap(), None);
    let fetched = failing.cache.fetch("other", || Runs::new().give_owned("v".to_owned())).await.unwrap();
    assert_eq!((fetched.value.as_str(), fetched.stored), ("v", Some(Stored::Skipped(Reason::Seal))));
    assert_eq!(failing.faults.total_calls(), 1, "the read");
    assert!(rig.in_l2("k"));
}

#[tokio::test]
async fn l1_filled_during_an_outage_is_sealed_too() {
    let rig = Rig::with(|b| b.secure(secure()).l1_during_outage(true)).unbuildable();
    let _ = rig.cache.set("set", NEEDLE.to_owned()).await.unwrap();
    let _ = rig.cache.get_or_compute("computed", || Runs::new().give_owned(NEEDLE.to_owned())).await.unwrap();
    for key in ["set", "computed"] {
        // Opened, not merely handed out: under another type it does not decode.
        assert_eq!(rig.cache.get::<String>(key).await.unwrap().as_deref(), Some(NEEDLE));
        assert_eq!(rig.cache.get::<u64>(key).await.unwrap(), None);
    }
}
