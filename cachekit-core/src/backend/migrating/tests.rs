//! Two stores in memory, and what is in each.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod take_over;

use super::MigratingFactory;
use crate::testing::{Faults, FaultyBackend, ManualClock, MemoryBackend, MemoryFactory, Op, ScriptedFactory};
use crate::{
    Backend, BackendError, BackendFactory, BackendHealth, Cache, Capabilities, ErrorKind, SetOptions, TtlState,
    async_trait,
};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

const V: &[u8] = b"value";

struct Rig {
    new: MemoryBackend,
    old: MemoryBackend,
    new_faults: Faults,
    old_faults: Faults,
    clock: ManualClock,
    factory: MigratingFactory,
    backend: Arc<dyn Backend>,
}

impl Rig {
    async fn new() -> Self {
        let clock = ManualClock::new();
        let store = || MemoryBackend::new().with_clock(Arc::new(clock.clone()));
        let (new, old) = (store(), store());
        let (new_faults, old_faults) = (Faults::new(), Faults::new());
        let faulty = |store: &MemoryBackend, faults| {
            ScriptedFactory::with_backend(FaultyBackend::with_faults(store.clone(), faults))
        };
        let factory = MigratingFactory::new(faulty(&new, &new_faults), faulty(&old, &old_faults));
        let backend = factory.build().await.unwrap();
        Self { new, old, new_faults, old_faults, clock, factory, backend }
    }

    async fn get(&self, key: &str) -> Option<Bytes> {
        self.backend.get(key).await.unwrap()
    }
}

async fn put(store: &dyn Backend, key: &str, value: &'static [u8], seconds: impl Into<Option<u64>>) {
    let options = SetOptions::default().with_ttl(seconds.into().map(Duration::from_secs));
    store.set(key, Bytes::from_static(value), options).await.unwrap();
}

/// Only what every backend has to have.
#[derive(Debug)]
struct Smallest(MemoryBackend);

#[async_trait]
impl Backend for Smallest {
    fn name(&self) -> &'static str {
        "smallest"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        self.0.get(key).await
    }
    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        self.0.set(key, value, options).await
    }
    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        self.0.delete(key).await
    }
    async fn health(&self) -> Result<BackendHealth, BackendError> {
        self.0.health().await
    }
}

#[tokio::test]
async fn a_hit_in_the_old_store_is_taken_over_for_the_rest_of_its_time() {
    let rig = Rig::new().await;
    put(&rig.old, "k", V, 10).await;
    put(&rig.old, "for ever", V, None).await;
    rig.clock.advance(Duration::from_secs(4));
    assert_eq!(rig.backend.ttl("k").await.unwrap(), TtlState::Remaining(Duration::from_secs(6)));
    assert!(rig.backend.exists("k").await.unwrap() && rig.new.is_empty());
    assert_eq!(rig.get("k").await.as_deref(), Some(V));
    assert_eq!(rig.get("for ever").await.as_deref(), Some(V));
    assert_eq!(rig.new.ttl("k").await.unwrap(), TtlState::Remaining(Duration::from_secs(6)));
    assert_eq!(rig.new.ttl("for ever").await.unwrap(), TtlState::NoExpiry);
    assert_eq!((rig.get("k").await.as_deref(), rig.factory.old_hits()), (Some(V), 2), "from the new one now");
    rig.clock.advance(Duration::from_secs(6));
    assert_eq!(rig.get("k").await, None);
}

#[tokio::test]
async fn nothing_that_was_replaced_comes_back_from_the_old_store() {
    let rig = Rig::new().await;
    for key in ["set", "touched", "deleted", "clear:ed"] {
        put(&rig.old, key, b"older", 100).await;
    }
    put(&*rig.backend, "set", V, 1).await;
    assert!(rig.backend.touch("touched", Some(Duration::from_secs(1))).await.unwrap());
    assert_eq!(rig.get("touched").await.as_deref(), Some(&b"older"[..]));
    assert!(rig.backend.delete("deleted").await.unwrap());
    rig.backend.clear("clear:").await.unwrap();
    rig.clock.advance(Duration::from_secs(1));
    for key in ["set", "touched", "deleted", "clear:ed"] {
        assert_eq!(rig.get(key).await, None, "{key}");
        assert!(!rig.backend.exists(key).await.unwrap() && rig.backend.ttl(key).await.unwrap() == TtlState::Missing);
    }
    assert!(rig.old.is_empty() && rig.new.is_empty());
}

#[tokio::test(start_paused = true)]
async fn trouble_with_the_old_store_fails_no_read_and_no_write() {
    let rig = Rig::new().await;
    put(&rig.old, "k", b"older", 100).await;
    rig.old_faults.down(ErrorKind::Unavailable);
    assert_eq!(rig.get("other").await, None);
    put(&*rig.backend, "k", V, 1).await;
    assert_eq!(rig.get("k").await.as_deref(), Some(V));
    rig.old_faults.heal();
    rig.clock.advance(Duration::from_secs(1));
    // The old store has rested.
    tokio::time::advance(Duration::from_secs(2)).await;
    put(&rig.old, "seen again", V, None).await;
    assert_eq!(rig.get("seen again").await.as_deref(), Some(V));
    assert_eq!(rig.get("k").await, None, "it could not be removed, and is not read");
    assert!(!rig.backend.delete("k").await.unwrap(), "what is not read is not there");
    assert_eq!(rig.old.keys(), ["seen again"]);
    put(&rig.old, "k", V, None).await;
    assert_eq!(rig.get("k").await.as_deref(), Some(V), "it is read again once the copy was removed");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_old_store_costs_its_patience_once() {
    let rig = Rig::new().await;
    rig.old_faults.hang(Op::Get);
    let start = tokio::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(rig.get("k").await, None);
    }
    assert_eq!(start.elapsed(), Duration::from_millis(200));
}

#[tokio::test]
async fn deletes_and_clears_are_acknowledged_by_both() {
    for store in [true, false] {
        let rig = Rig::new().await;
        let faults = if store { &rig.new_faults } else { &rig.old_faults };
        put(&rig.old, "k", b"older", None).await;
        faults.fail_all(Op::Delete, ErrorKind::OutOfSpace);
        faults.fail_all(Op::Clear, ErrorKind::OutOfSpace);
        assert_eq!(rig.backend.delete("k").await.unwrap_err().kind(), ErrorKind::OutOfSpace);
        let error = rig.backend.clear("k").await.unwrap_err();
        assert!(error.kind() == ErrorKind::OutOfSpace && (store || error.may_be_applied()));
        faults.heal();
        let _ = rig.backend.delete("k").await.unwrap();
        assert!(rig.old.is_empty() && rig.get("k").await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_over_never_replaces_what_was_set_meanwhile() {
    let rig = Rig::new().await;
    // However busy the machine is: a write that did not wait may be lost.
    let backend = rig.factory.clone().with_patience(Duration::from_secs(60)).build().await.unwrap();
    rig.old_faults.delay(Op::Get, Duration::from_millis(1));
    for round in 0..200 {
        let key = format!("k{round}");
        put(&rig.old, &key, b"older", None).await;
        let reader = tokio::spawn({
            let (backend, key) = (Arc::clone(&backend), key.clone());
            async move { backend.get(&key).await.unwrap() }
        });
        tokio::time::sleep(Duration::from_micros(round * 10)).await;
        put(&*backend, &key, V, None).await;
        reader.await.unwrap();
        assert_eq!(backend.get(&key).await.unwrap().as_deref(), Some(V), "round {round}");
    }
}

#[tokio::test]
async fn a_key_that_is_being_replaced_is_never_missing() {
    let rig = Rig::new().await;
    put(&rig.old, "k", b"older", None).await;
    rig.new_faults.delay(Op::Set, Duration::from_millis(20));
    let read_meanwhile = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        rig.get("k").await
    };
    let (found, ()) = tokio::join!(read_meanwhile, put(&*rig.backend, "k", V, None));
    assert_eq!(found.as_deref(), Some(V));
}

#[tokio::test]
async fn an_old_store_that_cannot_tell_times_keeps_its_entries() {
    let (new, old) = (MemoryBackend::new(), MemoryBackend::new());
    put(&old, "k", V, 100).await;
    let factory = MigratingFactory::new(MemoryFactory::new(&new), ScriptedFactory::with_backend(Smallest(old)));
    let backend = factory.build().await.unwrap();
    assert_eq!(backend.get("k").await.unwrap().as_deref(), Some(V));
    assert!(new.is_empty() && !backend.capabilities().ttl() && !backend.capabilities().clear());
    for refused in [backend.ttl("k").await.map(drop), backend.clear("k").await] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert!(backend.touch("k", None).await.unwrap());
    assert_eq!(new.keys(), ["k"], "with a time of its own it can be taken over");
}

#[tokio::test]
async fn an_old_store_that_is_closed_is_built_again_and_one_that_is_gone_is_done_without() {
    let old = MemoryBackend::new();
    let old_factory = ScriptedFactory::new(MemoryFactory::new(&old));
    let factory = MigratingFactory::new(MemoryFactory::default(), old_factory.clone());
    factory.build().await.unwrap().close().await.unwrap();
    put(&old, "k", V, None).await;
    let backend = factory.build().await.unwrap();
    assert_eq!(backend.get("k").await.unwrap().as_deref(), Some(V));
    assert_eq!(old_factory.attempts(), 2);
    backend.close().await.unwrap();
    old_factory.by_default(crate::testing::Build::Fail(ErrorKind::Unavailable));
    let backend = factory.build().await.unwrap();
    put(&*backend, "other", V, None).await;
    assert_eq!(backend.get("other").await.unwrap().as_deref(), Some(V));
    assert_eq!(backend.delete("other").await.unwrap_err().kind(), ErrorKind::Unavailable);
    let health = backend.health().await.unwrap();
    assert_eq!(health.details, [("old".to_owned(), "unavailable".to_owned()), ("old_hits".to_owned(), "1".to_owned())]);
}

#[tokio::test]
async fn a_cache_finds_in_the_new_store_what_another_wrote_to_the_old_one() {
    let (new, old) = (MemoryBackend::new(), MemoryBackend::new());
    let over_new = || MemoryFactory::new(&new);
    let over_both = MigratingFactory::new(over_new(), MemoryFactory::new(&old));
    let cache = |factory: Arc<dyn BackendFactory>| Cache::builder("n").backend(factory).build().unwrap();
    let _ = cache(Arc::new(MemoryFactory::new(&old))).set("k", 7).await.unwrap();
    assert_eq!(cache(Arc::new(over_both.clone())).get::<i32>("k").await.unwrap(), Some(7));
    assert_eq!(cache(Arc::new(over_new())).get::<i32>("k").await.unwrap(), Some(7));
    assert!(cache(Arc::new(over_both)).delete("k").await.unwrap());
    assert!(new.is_empty() && old.is_empty());
}

#[tokio::test]
async fn changes_are_not_reported_since_a_delete_in_the_old_store_would_not_be() {
    let rig = Rig::new().await;
    assert!(rig.new.capabilities().track() && !rig.backend.capabilities().track());
    assert_eq!(rig.backend.track(&["k"]).await.unwrap_err().kind(), ErrorKind::Unsupported);
}
