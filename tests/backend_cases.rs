//! What users of other libraries ran into with their backends, and what happens here.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::{FaultyBackend, MemoryBackend, Op};
use cachekit::{Backend, ErrorKind, Reason, SetOptions, Source};
use std::time::Duration;
use support::{Rig, Runs};

#[tokio::test]
async fn u052_a_backend_that_fails_every_operation_fails_no_call() {
    let rig = Rig::new();
    rig.faults.down(ErrorKind::Unavailable);
    let runs = Runs::new();
    assert_eq!(rig.cache.get_or_compute("k", || runs.give(1)).await.unwrap(), 1);
    assert_eq!((runs.count(), rig.degraded("read_error"), rig.degraded("write_error")), (1, 1, 1));
}

#[tokio::test]
async fn u055_a_miss_and_an_error_differ_where_the_caller_looks() {
    let rig = Rig::new();
    let backend = FaultyBackend::new(MemoryBackend::new());
    assert_eq!(backend.get("k").await.unwrap(), None);
    backend.faults().down(ErrorKind::Unavailable);
    assert_eq!(backend.get("k").await.unwrap_err().kind(), ErrorKind::Unavailable);

    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
    assert_eq!(rig.degraded("read_error"), 0);
    rig.faults.fail_all(Op::Get, ErrorKind::Unavailable);
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
    assert_eq!(rig.degraded("read_error"), 1);
    let fetched = rig.cache.fetch("k", || Runs::new().give_owned(1)).await.unwrap();
    assert_eq!((fetched.source, fetched.degraded), (Source::Computed, Some(Reason::ReadError)));
}

#[tokio::test]
async fn u059_a_caller_that_leaves_while_the_value_is_stored_loses_it_for_nobody() {
    let rig = Rig::new();
    rig.faults.hang(Op::Set);
    let runs = Runs::new();
    let leaving = tokio::spawn({
        let (cache, runs) = (rig.cache.clone(), runs.clone());
        async move { cache.get_or_compute("k", || runs.give_owned(1)).await }
    });
    while rig.writes() == 0 {
        tokio::task::yield_now().await;
    }
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    assert_eq!(rig.cache.get_or_compute("k", || runs.give(2)).await.unwrap(), 1);
    assert_eq!(runs.count(), 1, "the computed value is in L1");
}

#[tokio::test(start_paused = true)]
async fn u061_a_backend_of_20_ms_is_no_slow_one() {
    let rig = Rig::new();
    let _ = rig.cache.set("k", 1).await.unwrap();
    let second = rig.second();
    second.faults.delay(Op::Get, Duration::from_millis(20));
    assert_eq!(second.cache.get("k").await.unwrap(), Some(1));
    assert!(second.cache.health().degraded.is_empty());
}

#[tokio::test]
async fn u097_values_fail_open_and_locks_do_not() {
    let rig = Rig::new();
    let backend = FaultyBackend::with_faults(rig.store.clone(), &rig.faults);
    rig.faults.down(ErrorKind::Unavailable);
    assert_eq!(rig.cache.get_or_compute("k", || Runs::new().give_owned(1)).await.unwrap(), 1);
    let error = backend.try_lock("k", Duration::from_secs(10)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    rig.faults.heal();
    assert!(backend.set("k", "v".into(), SetOptions::default()).await.is_ok());
    assert!(backend.try_lock("k", Duration::from_secs(10)).await.unwrap().is_some());
}
