//! `SecureBackend`: no plaintext gets past it, and nothing that is not authentic gets back.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit_core::testing::{Corruption, FaultyBackend, ManualClock, MemoryBackend, MemoryFactory, Op};
use cachekit_core::{Backend, BackendFactory, Bytes, ErrorKind, Message, SetOptions, TtlState};
use cachekit_secure::{Compression, Padding, Secure, SecureBackend, SecureFactory};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use support::{Noise, forge, master, master_bytes, occurs, secure};

const MINUTE: Duration = Duration::from_secs(60);

fn for_a_minute() -> SetOptions {
    SetOptions::default().with_ttl(Some(MINUTE))
}

fn sealed(store: &MemoryBackend, secure: &Secure) -> SecureBackend<MemoryBackend> {
    SecureBackend::new(store.clone(), secure).unwrap().with_namespace("users")
}

/// Every configuration that changes what is stored.
fn configurations() -> Vec<Secure> {
    vec![
        secure(),
        secure().fail_closed().compression(Compression::lz4()),
        secure().compression(Compression::zstd(3)).padding(Padding::powers_of_two()),
        secure().hide_key_names(master(9)),
    ]
}

/// The most valuable test here: a random needle inside values occurs in nothing that reaches the store.
#[tokio::test]
async fn u118_no_needle_reaches_the_store() {
    let mut noise = Noise(std::process::id().into());
    for secure in configurations() {
        let store = MemoryBackend::new();
        let mut raw_messages = store.subscribe("channel").await.unwrap();
        let backend = sealed(&store, &secure);
        let mut messages = backend.subscribe("channel").await.unwrap();
        let needle = noise.bytes(16);
        let value = |front: usize| Bytes::from([&vec![b'a'; front][..], &needle, &[b'z'; 300]].concat());

        assert!(occurs(&needle, &value(7)), "the control");
        backend.set("set", value(0), SetOptions::default()).await.unwrap();
        backend.set("set:ttl", value(1), for_a_minute()).await.unwrap();
        let many: Vec<_> = ["m1", "m2", "m3"].into_iter().zip((2..).map(value)).collect();
        assert!(backend.set_many(&many, for_a_minute()).await.iter().all(Result::is_ok));
        backend.publish("channel", value(9)).await.unwrap();
        let token = backend.try_lock("set", MINUTE).await.unwrap().unwrap();
        assert!(backend.extend(&token, MINUTE).await.unwrap());

        let Message::Payload(raw) = raw_messages.next().await.unwrap() else { panic!("no message") };
        assert!(!occurs(&needle, &raw));
        assert_eq!(messages.next().await.unwrap(), Message::Payload(value(9)));
        assert_eq!(store.len(), 5);
        for key in store.keys() {
            assert!(!occurs(&needle, &store.raw(&key).unwrap()), "{key}");
            assert!(!occurs(&needle, key.as_bytes()));
        }
        assert_eq!(backend.get("set").await.unwrap().unwrap(), value(0));
        let keys = ["m1", "missing", "m3", "m1"];
        let got: Vec<_> = backend.get_many(&keys).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(got, [Some(value(2)), None, Some(value(4)), Some(value(2))]);
    }
}

#[tokio::test]
async fn another_implementation_reads_what_is_stored() {
    let clock = ManualClock::new();
    let store = MemoryBackend::new().with_clock(Arc::new(clock.clone()));
    let backend = sealed(&store, &secure().clock(Arc::new(clock))).with_tenant("acme");
    backend.set("users:42", Bytes::from_static(b"Alice"), for_a_minute()).await.unwrap();
    let entry = store.raw("users:42").unwrap();
    let owner = forge::Owner { master: master_bytes(0), tenant: "acme", namespace: "users", stored_key: "users:42" };
    assert_eq!(forge::open(owner, &entry).unwrap(), b"Alice");
    assert_eq!(entry[..36], forge::header(0, 1, 0, 0, support::NOW, support::NOW + 60_000));
}

#[tokio::test]
async fn u125_an_expired_entry_that_is_put_back_never_opens() {
    let clock = ManualClock::new();
    let shared: Arc<ManualClock> = Arc::new(clock.clone());
    for secure in [secure(), secure().fail_closed()] {
        let store = MemoryBackend::new().with_clock(shared.clone());
        let backend = sealed(&store, &secure.clock(shared.clone()));
        backend.set("k", Bytes::from_static(b"v"), for_a_minute()).await.unwrap();
        let entry = store.raw("k").unwrap();
        clock.advance(MINUTE - Duration::from_millis(1));
        assert!(backend.exists("k").await.unwrap());
        clock.advance(Duration::from_millis(1));
        store.insert_raw("k", entry.clone());
        assert_eq!(backend.get("k").await.unwrap(), None);
        assert!(!backend.exists("k").await.unwrap());
        assert_eq!(backend.get_many(&["k"]).await[0].as_ref().unwrap(), &None);
        // Within its life it can be rolled back, which is all that whoever writes the store can do.
        backend.set("k", Bytes::from_static(b"new"), for_a_minute()).await.unwrap();
        let current = store.raw("k").unwrap();
        backend.set("k", Bytes::from_static(b"newer"), for_a_minute()).await.unwrap();
        store.insert_raw("k", current);
        assert_eq!(backend.get("k").await.unwrap().unwrap(), "new");
    }
}

#[tokio::test]
async fn no_touch_lengthens_a_sealed_life() {
    let clock = ManualClock::new();
    let shared: Arc<ManualClock> = Arc::new(clock.clone());
    let store = MemoryBackend::new().with_clock(shared.clone());
    let backend = sealed(&store, &secure().clock(shared));
    backend.set("k", Bytes::from_static(b"v"), for_a_minute()).await.unwrap();
    assert!(!backend.capabilities().touch());
    assert_eq!(backend.touch("k", None).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(store.touch("k", None).await.unwrap());
    clock.advance(MINUTE);
    assert!(store.exists("k").await.unwrap());
    assert_eq!(backend.get("k").await.unwrap(), None);
}

#[tokio::test]
async fn a_part_of_a_millisecond_counts_as_one_and_never_is_never() {
    let clock = ManualClock::new();
    let store = MemoryBackend::new();
    let backend = sealed(&store, &secure().clock(Arc::new(clock)));
    for (ttl, life) in [
        (Some(Duration::from_nanos(1)), 1),
        (Some(Duration::from_millis(1)), 1),
        (Some(Duration::from_micros(1_001)), 2),
        (Some(MINUTE), 60_000),
    ] {
        backend.set("k", Bytes::new(), SetOptions::default().with_ttl(ttl)).await.unwrap();
        assert_eq!(store.raw("k").unwrap()[28..36], (support::NOW + life).to_be_bytes(), "{ttl:?}");
    }
    for ttl in [None, Some(Duration::MAX)] {
        backend.set("k", Bytes::new(), SetOptions::default().with_ttl(ttl)).await.unwrap();
        assert_eq!(store.raw("k").unwrap()[28..36], [0xFF; 8]);
        assert!(backend.get("k").await.unwrap().is_some());
    }
}

/// What is not authentic: a miss, or an error with one text. The store keeps it either way.
#[tokio::test]
async fn fail_open_misses_and_fail_closed_says_so() {
    let (open_store, closed_store) = (MemoryBackend::new(), MemoryBackend::new());
    let opens = sealed(&open_store, &secure());
    let closes = sealed(&closed_store, &secure().fail_closed());
    opens.set("good", Bytes::from_static(b"v"), for_a_minute()).await.unwrap();
    let good = open_store.raw("good").unwrap();
    let mut flipped = good.to_vec();
    flipped[100 % good.len()] ^= 1;
    let mut unknown = good.to_vec();
    unknown[40] ^= 1;
    let bad = [
        Bytes::new(),
        Bytes::from_static(b"hello"),
        good.slice(..91),
        flipped.into(),
        unknown.into(),
        good.clone(),
        Bytes::from(vec![0; (16 << 20) + 1]),
    ];
    let mut texts = std::collections::HashSet::new();
    for entry in bad {
        for store in [&open_store, &closed_store] {
            store.insert_raw("k", entry.clone());
        }
        assert_eq!(opens.get("k").await.unwrap(), None);
        assert!(!opens.exists("k").await.unwrap());
        let error = closes.get("k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DecryptionAuthentication);
        assert!(std::error::Error::source(&error).is_none());
        texts.insert(format!("{error} {error:?}"));
        assert_eq!(closes.exists("k").await.unwrap_err().kind(), ErrorKind::DecryptionAuthentication);
        let many = closes.get_many(&["k", "missing"]).await;
        assert!(many[0].is_err() && many[1].as_ref().unwrap().is_none());
        assert_eq!(closed_store.raw("k").unwrap(), entry);
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
    // In fail-open mode it is simply overwritten.
    opens.set("k", Bytes::from_static(b"again"), for_a_minute()).await.unwrap();
    assert_eq!(opens.get("k").await.unwrap().unwrap(), "again");
}

#[tokio::test]
async fn damage_on_the_way_is_noticed_and_failures_stay_failures() {
    let inner = FaultyBackend::new(MemoryBackend::new());
    let faults = inner.faults();
    let backend = SecureBackend::new(inner, &secure().fail_closed()).unwrap();
    backend.set("k", Bytes::from_static(b"value"), for_a_minute()).await.unwrap();
    backend.set("other", Bytes::from_static(b"value"), for_a_minute()).await.unwrap();
    for plan in [
        |faults: &cachekit_core::testing::Faults| faults.corrupt(Corruption::FlipBit),
        |faults: &cachekit_core::testing::Faults| faults.corrupt(Corruption::Truncate),
        |faults: &cachekit_core::testing::Faults| faults.wrong_value("other"),
    ] {
        plan(&faults);
        assert_eq!(backend.get("k").await.unwrap_err().kind(), ErrorKind::DecryptionAuthentication);
        let many = backend.get_many(&["k"]).await;
        assert_eq!(many[0].as_ref().unwrap_err().kind(), ErrorKind::DecryptionAuthentication);
        faults.heal();
        assert_eq!(backend.get("k").await.unwrap().unwrap(), "value");
    }
    faults.down(ErrorKind::Unavailable);
    assert_eq!(backend.get("k").await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(backend.delete_many(&["k", "other"]).await.len(), 2);
    faults.heal();
    faults.apply_then_fail(Op::Set);
    assert!(backend.set("k", Bytes::new(), for_a_minute()).await.unwrap_err().may_be_applied());
}

#[tokio::test]
async fn everything_else_passes_through() {
    let store = MemoryBackend::new();
    let backend = sealed(&store, &secure());
    let (ours, inner) = (backend.capabilities(), store.capabilities());
    assert_eq!(backend.name(), "memory");
    assert_eq!(ours.with_max_value_bytes(0).with_touch(true), inner.with_max_value_bytes(0));
    backend.set("a:1", Bytes::new(), for_a_minute()).await.unwrap();
    backend.set("b:1", Bytes::new(), for_a_minute()).await.unwrap();
    assert!(matches!(backend.ttl("a:1").await.unwrap(), TtlState::Remaining(left) if left <= MINUTE));
    backend.clear("a:").await.unwrap();
    assert_eq!(store.keys(), ["b:1"]);
    let token = backend.try_lock("b:1", MINUTE).await.unwrap().unwrap();
    assert_eq!(token.key(), "b:1");
    assert!(store.try_lock("b:1", MINUTE).await.unwrap().is_none());
    assert!(backend.unlock(&token).await.unwrap());
    assert!(backend.delete("b:1").await.unwrap());
    assert!(backend.health().await.is_ok());
    backend.close().await.unwrap();
    assert_eq!(backend.get("b:1").await.unwrap_err().kind(), ErrorKind::Closed);
    assert!(backend.inner().clone().get("b:1").await.is_ok());
}

#[tokio::test]
async fn the_largest_value_is_smaller_by_the_overhead() {
    let padded = secure().padding(Padding::multiples_of(NonZeroUsize::new(256).unwrap()));
    let compressed = secure().compression(Compression::lz4());
    for (secure, limit, largest) in [
        (&secure(), 1_000, 908),
        (&padded, 1_000, 764),
        (&compressed, 1_000, 908),
        (&secure(), 92, 0),
        (&secure(), 10, 0),
    ] {
        let store = MemoryBackend::new().with_max_value_bytes(limit);
        let backend = sealed(&store, secure);
        assert_eq!(backend.capabilities().max_value_bytes(), largest);
        let set = async |len: usize| backend.set("k", Bytes::from(vec![0; len]), for_a_minute()).await;
        assert_eq!(set(largest + 1).await.unwrap_err().kind(), ErrorKind::TooLarge);
        assert!(store.is_empty());
        if limit >= 92 {
            set(largest).await.unwrap();
            assert!(store.raw("k").unwrap().len() <= limit);
        }
    }
}

#[tokio::test]
async fn padding_shows_buckets_only() {
    let store = MemoryBackend::new();
    let backend = sealed(&store, &secure().padding(Padding::powers_of_two()));
    let mut lens = std::collections::BTreeSet::new();
    for len in 0..=252 {
        backend.set("k", Bytes::from(vec![1; len]), for_a_minute()).await.unwrap();
        lens.insert(store.raw("k").unwrap().len() - 92);
    }
    assert_eq!(lens.into_iter().collect::<Vec<_>>(), [64, 128, 256]);
}

#[tokio::test]
async fn hidden_names_show_nothing_of_a_key() {
    let store = MemoryBackend::new();
    let hiding = secure().hide_key_names(master(9));
    let backend = sealed(&store, &hiding);
    backend.set("alice@example.org", Bytes::from_static(b"v"), for_a_minute()).await.unwrap();
    let [name] = &store.keys()[..] else { panic!("one key") };
    assert!(name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(sealed(&store, &hiding).get("alice@example.org").await.unwrap().unwrap(), "v");
    assert_eq!(backend.get_many(&["x", "alice@example.org"]).await[1].as_ref().unwrap().as_deref(), Some(&b"v"[..]));
    // The name does not depend on the ring, which is rotated, and does on the key of names.
    let rotated = Secure::new(cachekit_secure::Keyring::new(master(5)).previous(master(0)));
    let renamed = |key: u8| sealed(&store, &rotated.clone().hide_key_names(master(key)));
    assert_eq!(renamed(9).get("alice@example.org").await.unwrap().unwrap(), "v");
    assert_eq!(renamed(8).get("alice@example.org").await.unwrap(), None);
    assert!(!backend.capabilities().clear());
    assert_eq!(backend.clear("alice").await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(backend.get("").await.unwrap_err().kind(), ErrorKind::KeyInvalid);
    let token = backend.try_lock("alice@example.org", MINUTE).await.unwrap().unwrap();
    assert_eq!(token.key(), "alice@example.org");
    assert!(store.try_lock(name, MINUTE).await.unwrap().is_none(), "locks are hidden too");
    assert!(backend.extend(&token, MINUTE).await.unwrap() && backend.unlock(&token).await.unwrap());
    // Moved to another name it does not open.
    let entry = store.raw(name).unwrap();
    let other = hiding.sealer().stored_key("", "bob@example.org").unwrap();
    store.insert_raw(&other, entry);
    assert_eq!(backend.get("bob@example.org").await.unwrap(), None);
    assert!(hiding.sealer().stored_key("users@acme:", "users@acme:42").unwrap().starts_with("users@acme:"));
}

#[tokio::test]
async fn u128_one_tenants_entry_never_opens_for_another() {
    let store = MemoryBackend::new();
    let by_key = sealed(&store, &secure().tenant(|key| key.split('/').next().unwrap_or_default().into()));
    by_key.set("acme/1", Bytes::from_static(b"a"), for_a_minute()).await.unwrap();
    let entry = store.raw("acme/1").unwrap();
    assert_eq!(sealed(&store, &secure()).with_tenant("acme").get("acme/1").await.unwrap().unwrap(), "a");
    for other in ["", "bmce", "acme/1"] {
        assert_eq!(sealed(&store, &secure()).with_tenant(other).get("acme/1").await.unwrap(), None, "{other}");
    }
    store.insert_raw("umbrella/1", entry);
    assert_eq!(by_key.get("umbrella/1").await.unwrap(), None);
    let elsewhere = SecureBackend::new(store, &secure()).unwrap().with_namespace("orders").with_tenant("acme");
    assert_eq!(elsewhere.get("acme/1").await.unwrap(), None);
}

#[tokio::test]
async fn a_message_opens_as_a_message_of_its_channel_only() {
    let store = MemoryBackend::new();
    let backend = sealed(&store, &secure());
    let mut messages = backend.subscribe("c").await.unwrap();
    let mut raw = store.subscribe("c").await.unwrap();
    backend.publish("c", Bytes::from_static(b"hello")).await.unwrap();
    let Message::Payload(sealed_message) = raw.next().await.unwrap() else { panic!("no message") };
    assert_eq!(messages.next().await.unwrap(), Message::Payload(Bytes::from_static(b"hello")));
    backend.set("c", Bytes::from_static(b"entry"), for_a_minute()).await.unwrap();
    store.publish("c", store.raw("c").unwrap()).await.unwrap();
    assert_eq!(messages.next().await.unwrap(), Message::Lost, "an entry is no message");
    store.publish("c", Bytes::from_static(b"hello")).await.unwrap();
    assert_eq!(messages.next().await.unwrap(), Message::Lost, "plaintext is no message");
    store.insert_raw("c", sealed_message.clone());
    assert_eq!(backend.get("c").await.unwrap(), None, "a message is no entry");
    let mut elsewhere = backend.subscribe("d").await.unwrap();
    store.publish("d", sealed_message).await.unwrap();
    assert_eq!(elsewhere.next().await.unwrap(), Message::Lost, "nor one of another channel");
    backend.close().await.unwrap();
}

/// A cache with the same keys, namespace and key writes authentic entries that are not raw bytes.
#[tokio::test]
async fn an_entry_of_another_format_is_a_miss() {
    let store = MemoryBackend::new();
    let backend = sealed(&store, &secure());
    let owner = forge::Owner { master: master_bytes(0), tenant: "", namespace: "users", stored_key: "k" };
    for (kind, format, schema, expected) in
        [(1, 0, 0, Some(Bytes::from_static(b"v"))), (1, 1, 0, None), (2, 0, 0, None), (1, 0, 1, None)]
    {
        let header = forge::header(0, kind, format, schema, 0, u64::MAX);
        store.insert_raw("k", forge::seal(owner, &header, &[1; 24], b"v"));
        assert_eq!(backend.get("k").await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_factory_wraps_what_it_builds() {
    let store = MemoryBackend::new();
    let factory = SecureFactory::new(MemoryFactory::new(&store), &secure()).unwrap().with_namespace("users");
    assert_eq!(factory.name(), "memory");
    let built = factory.build().await.unwrap();
    built.set("k", Bytes::from_static(b"value"), for_a_minute()).await.unwrap();
    assert!(!occurs(b"value", &store.raw("k").unwrap()));
    assert_eq!(sealed(&store, &secure()).get("k").await.unwrap().unwrap(), "value");
    let tenants = SecureFactory::new(MemoryFactory::new(&store), &secure()).unwrap().with_tenant("acme");
    assert_eq!(tenants.build().await.unwrap().get("k").await.unwrap(), None);
}
