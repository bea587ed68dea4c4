//! The backend is built when it is first needed: once at a time, shared by whoever waits, forgotten when it fails.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::{Build, Gate};
use cachekit::{Cache, ErrorKind, Reason};
use futures_util::future::join_all;
use std::time::Duration;
use support::{Rig, Runs};

#[tokio::test]
async fn u049_u091_u092_nothing_is_contacted_before_the_first_call_that_needs_it() {
    let rig = Rig::new().unbuildable();
    let _clones = (rig.cache.clone(), rig.cache.for_tenant("t").unwrap(), rig.cache.health());
    rig.cache.get_or_compute::<i32, _, _, _>("", || Runs::new().give_owned(1)).await.unwrap_err();
    assert_eq!(rig.factory.attempts(), 0);
    assert_eq!(rig.cache.health().l2.unwrap().status, "not_built");
    assert_eq!(rig.cache.get_or_compute("k", || Runs::new().give_owned(1)).await.unwrap(), 1);
    assert_eq!(rig.factory.attempts(), 1);
    assert_eq!(rig.cache.health().l2.unwrap().status, "failed");
}

#[tokio::test]
async fn concurrent_callers_share_one_attempt_and_its_failure_counts_once() {
    let rig = Rig::new();
    let gate = Gate::new();
    rig.factory.push(Build::Wait(gate.clone()));
    let runs = Runs::new();
    let calls = (0..50).map(|i| {
        let (cache, runs) = (rig.cache.clone(), runs.clone());
        async move { cache.fetch(&i.to_string(), || runs.give(i)).await.unwrap() }
    });
    let open = async {
        while rig.factory.running() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(rig.cache.health().l2.unwrap().status, "building");
        gate.open();
    };
    let (fetched, ()) = tokio::join!(join_all(calls), open);
    assert!(fetched.iter().all(|fetched| fetched.degraded.is_none()));
    assert_eq!((rig.factory.attempts(), runs.count()), (1, 50));
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_failed_attempt_share_its_failure_at_once() {
    let rig = Rig::new();
    rig.factory.by_default(Build::Hang);
    let calls = (0..50).map(|i| {
        let cache = rig.cache.clone();
        async move { cache.fetch(&i.to_string(), || Runs::new().give_owned(i)).await.unwrap() }
    });
    let start = tokio::time::Instant::now();
    let fetched = join_all(calls).await;
    assert_eq!(start.elapsed(), Duration::from_secs(5), "they do not try one after another");
    assert!(fetched.iter().all(|fetched| fetched.degraded == Some(Reason::BuildFailed)));
    assert_eq!((rig.factory.attempts(), rig.failures()), (1, 1), "q19: one count per attempt");
}

#[tokio::test(start_paused = true)]
async fn a_factory_that_fails_hangs_and_panics_then_works() {
    let rig = Rig::new();
    for build in [Build::Fail(ErrorKind::Unavailable), Build::Hang, Build::Panic] {
        rig.factory.push(build);
    }
    let runs = Runs::new();
    for call in 1..=4 {
        assert_eq!(rig.cache.get_or_compute("k", || runs.give(7)).await.unwrap(), 7);
        assert_eq!((rig.factory.attempts(), rig.failures()), (call, u32::try_from(call.min(3)).unwrap()));
    }
    assert!(rig.in_l2("k"));
    assert_eq!(rig.cache.get_or_compute("k", || runs.give(7)).await.unwrap(), 7);
    assert_eq!((runs.count(), rig.factory.attempts()), (4, 4));
    let health = rig.cache.health();
    assert_eq!((health.builds.ok, health.builds.failed, health.l2.unwrap().status), (1, 3, "ready"));
}

#[tokio::test]
async fn an_attempt_goes_on_when_the_caller_who_began_it_leaves() {
    let rig = Rig::new();
    let gate = Gate::new();
    rig.factory.push(Build::Wait(gate.clone()));
    let spawn_get = || {
        let cache = rig.cache.clone();
        tokio::spawn(async move { cache.get::<i32>("k").await.unwrap() })
    };
    let first = spawn_get();
    while rig.factory.running() == 0 {
        tokio::task::yield_now().await;
    }
    let second = spawn_get();
    tokio::task::yield_now().await;
    first.abort();
    let _ = first.await;
    gate.open();
    assert_eq!(second.await.unwrap(), None);
    assert_eq!((rig.factory.attempts(), rig.failures()), (1, 0));
}

#[tokio::test]
async fn an_attempt_that_everyone_left_is_dropped_without_outcome_and_without_memory() {
    let rig = Rig::new();
    rig.factory.push(Build::Hang);
    let calls: Vec<_> = (0..3)
        .map(|i| {
            let cache = rig.cache.clone();
            tokio::spawn(async move { cache.get::<i32>(&i.to_string()).await })
        })
        .collect();
    while rig.factory.running() == 0 {
        tokio::task::yield_now().await;
    }
    for call in calls {
        call.abort();
        let _ = call.await;
    }
    assert_eq!((rig.factory.running(), rig.failures()), (0, 0));
    assert_eq!(rig.cache.health().l2.unwrap().status, "not_built");
    assert_eq!(rig.cache.get_or_compute("k", || Runs::new().give_owned(7)).await.unwrap(), 7);
    assert!(rig.in_l2("k"));
}

#[tokio::test]
async fn u070_a_new_process_asks_the_l2() {
    let rig = Rig::new();
    let _ = rig.cache.set("k", 7).await.unwrap();
    let second = rig.second();
    let runs = Runs::new();
    for source in ["l2", "l1"] {
        let fetched = second.cache.fetch("k", || runs.give(0)).await.unwrap();
        assert_eq!((fetched.value, fetched.source.as_str()), (7, source));
    }
    assert_eq!((runs.count(), second.reads()), (0, 1));
}

#[tokio::test]
async fn after_close_l1_is_read_functions_run_uncached_and_writes_say_closed() {
    let rig = Rig::new();
    let _ = rig.cache.set("hit", 1).await.unwrap();
    rig.cache.close(Duration::from_secs(1)).await.unwrap();
    rig.cache.close(Duration::from_secs(1)).await.unwrap();
    let runs = Runs::new();
    assert_eq!(rig.cache.get::<i32>("hit").await.unwrap(), Some(1));
    for _ in 0..2 {
        let fetched = rig.cache.fetch("k", || runs.give(7)).await.unwrap();
        assert_eq!((fetched.value, fetched.degraded), (7, Some(Reason::Closed)));
    }
    assert_eq!(runs.count(), 2);
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
    for error in [
        rig.cache.set("k", 1).await.unwrap_err(),
        rig.cache.delete("hit").await.unwrap_err(),
        rig.cache.clear().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    assert_eq!(rig.failures(), 0);
    assert!(rig.cache.health().closed);
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_calls_under_way_but_not_past_its_deadline() {
    let rig = Rig::new();
    rig.faults.delay(cachekit::testing::Op::Set, Duration::from_millis(100));
    let cache = rig.cache.clone();
    let set = tokio::spawn(async move { cache.set("k", 1).await.unwrap() });
    while rig.writes() == 0 {
        tokio::task::yield_now().await;
    }
    rig.cache.close(Duration::from_secs(10)).await.unwrap();
    assert_eq!(set.await.unwrap(), cachekit::Stored::Stored);

    let rig = Rig::new();
    rig.faults.hang(cachekit::testing::Op::Close);
    let _ = rig.cache.get::<i32>("k").await.unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(rig.cache.close(Duration::from_secs(2)).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let none = || Cache::builder("n");
    for (builder, setting) in [
        (none().without_l1(), "without_l1"),
        (none().max_entries(0), "max_entries"),
        (none().max_bytes(0), "max_bytes"),
        (none().max_value_bytes(0), "max_value_bytes"),
        (none().build_timeout(Duration::ZERO), "build_timeout"),
        (none().operation_timeout(Duration::ZERO), "operation_timeout"),
        (none().flight_wait(Duration::ZERO), "flight_wait"),
        (none().l1_max_ttl(Duration::ZERO), "l1_max_ttl"),
        (none().default_ttl(cachekit::Ttl::Default), "default_ttl"),
        (Cache::builder("a:b"), "namespace"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
        assert!(error.to_string().contains(setting), "{error}");
    }
    assert_eq!(none().default_ttl(Duration::ZERO).build().unwrap_err().kind(), ErrorKind::TtlInvalid);
    assert_eq!(none().negative_ttl(Duration::ZERO).build().unwrap_err().kind(), ErrorKind::TtlInvalid);
}
