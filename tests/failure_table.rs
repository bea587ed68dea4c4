//! The README's table "what happens when the backend fails", row by row.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::{Build, Corruption, Fault, Op};
use cachekit::{Cache, ErrorKind, Reason, Source, Stored};
use std::time::Duration;
use support::{Rig, Runs, function_error};

#[tokio::test]
async fn without_a_factory_everything_is_normal_and_the_breaker_is_never_asked() {
    let cache = Cache::builder("n").build().unwrap();
    let runs = Runs::new();
    for _ in 0..10 {
        assert_eq!(cache.get_or_compute("k", || runs.give(1)).await.unwrap(), 1);
    }
    assert_eq!(runs.count(), 1);
    assert_eq!(cache.set("k", 2).await.unwrap(), Stored::Stored);
    assert_eq!(cache.get::<i32>("k").await.unwrap(), Some(2));
    assert!(cache.delete("k").await.unwrap());
    cache.clear().await.unwrap();
    let snapshot = cache.breaker().snapshot();
    assert_eq!((snapshot.failure_count, snapshot.cycle, snapshot.rejected_total.open), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn when_the_build_fails_the_caller_gets_the_functions_result_and_nothing_is_stored() {
    for build in
        [Build::Fail(ErrorKind::Unavailable), Build::Fail(ErrorKind::AuthenticationFailed), Build::Panic, Build::Hang]
    {
        let rig = Rig::new();
        rig.factory.by_default(build.clone());
        let runs = Runs::new();
        let fetched = rig.cache.fetch("k", || runs.give(7)).await.unwrap();
        assert_eq!((fetched.value, fetched.source), (7, Source::Computed), "{build:?}");
        assert_eq!(fetched.degraded, Some(Reason::BuildFailed));
        assert_eq!(fetched.stored, Some(Stored::Skipped(Reason::BuildFailed)));
        assert!(!rig.in_l1("k").await && !rig.in_l2("k"));
        assert_eq!((runs.count(), rig.faults.total_calls()), (1, 0));
        // `in_l1` asked once more.
        assert_eq!((rig.factory.attempts(), rig.failures()), (2, 2), "one failure per attempt, whatever its kind");
    }
}

#[tokio::test]
async fn when_the_build_fails_a_get_is_a_miss_and_a_set_drops_the_older_copy() {
    let rig = Rig::with(|builder| builder.l1_during_outage(false));
    rig.cache.set("k", 1).await.unwrap();
    rig.faults.fail_all(Op::Get, ErrorKind::Closed);
    let _ = rig.cache.get::<i32>("other").await.unwrap();
    let rig = rig.unbuildable();
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), Some(1), "L1 is read");
    assert_eq!(rig.cache.get::<i32>("absent").await.unwrap(), None);
    assert_eq!(rig.cache.set("k", 2).await.unwrap(), Stored::Skipped(Reason::BuildFailed));
    assert!(!rig.in_l1("k").await, "the older copy is gone");
    rig.faults.heal();
    rig.factory.by_default(Build::Succeed);
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None, "and the L2's older copy is not served either");
}

#[tokio::test]
async fn while_the_circuit_is_open_hits_are_served_and_nothing_is_written() {
    let rig = Rig::new();
    rig.cache.set("hit", 1).await.unwrap();
    rig.cache.breaker().force_open();
    let (reads, writes) = (rig.reads(), rig.writes());
    let runs = Runs::new();

    assert_eq!(rig.cache.get_or_compute("hit", || runs.give(9)).await.unwrap(), 1);
    for _ in 0..2 {
        let fetched = rig.cache.fetch("k", || runs.give(7)).await.unwrap();
        assert_eq!(fetched.stored, Some(Stored::Skipped(Reason::CircuitOpen)));
        assert_eq!(fetched.degraded, Some(Reason::CircuitOpen));
    }
    assert_eq!(runs.count(), 2, "not stored, so computed again");
    assert_eq!(rig.cache.set("hit", 2).await.unwrap(), Stored::Skipped(Reason::CircuitOpen));
    assert!(!rig.in_l1("hit").await);
    assert_eq!(rig.cache.delete("hit").await.unwrap_err().kind(), ErrorKind::CircuitOpen);
    assert_eq!(rig.cache.clear().await.unwrap_err().kind(), ErrorKind::CircuitOpen);
    assert_eq!((rig.reads(), rig.writes(), rig.factory.attempts()), (reads, writes, 1), "the L2 was not contacted");
    assert_eq!(rig.failures(), 0, "a rejection is no failure");
}

#[tokio::test]
async fn after_a_read_error_the_function_runs_and_the_write_is_still_tried() {
    let rig = Rig::new();
    rig.faults.fail_all(Op::Get, ErrorKind::Unavailable);
    let runs = Runs::new();
    let fetched = rig.cache.fetch("k", || runs.give(7)).await.unwrap();
    assert_eq!(fetched.degraded, Some(Reason::ReadError));
    assert_eq!(fetched.stored, Some(Stored::Stored));
    assert!(rig.in_l1("k").await && rig.in_l2("k"));
    assert_eq!(rig.cache.get::<i32>("other").await.unwrap(), None);
    assert_eq!(rig.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn u053_after_a_read_timeout_the_write_is_skipped_and_l1_has_the_result() {
    let rig = Rig::with(|builder| builder.operation_timeout(Duration::from_millis(200)));
    rig.faults.hang(Op::Get);
    let runs = Runs::new();
    let start = tokio::time::Instant::now();
    let fetched = rig.cache.fetch("k", || runs.give(7)).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(200), "one operation timeout, not two");
    assert_eq!(fetched.degraded, Some(Reason::ReadTimeout));
    assert_eq!(fetched.stored, Some(Stored::L1Only(Reason::ReadTimeout)));
    assert!(rig.in_l1("k").await && !rig.in_l2("k"));
    assert_eq!((rig.writes(), rig.failures()), (0, 0));
}

#[tokio::test]
async fn u056_whatever_the_backend_does_the_caller_gets_the_value() {
    use ErrorKind::*;
    let kinds = [
        AuthenticationFailed,
        CircuitOpen,
        Closed,
        ConfigInvalid,
        Decode,
        DecryptionAuthentication,
        Internal,
        KeyInvalid,
        Locked,
        OutOfSpace,
        Overloaded,
        PermissionDenied,
        Protocol,
        ReadOnly,
        Timeout,
        TooLarge,
        TtlInvalid,
        Unavailable,
        Unsupported,
    ];
    let faults = kinds.map(Fault::Fail).into_iter().chain([
        Fault::Panic,
        Fault::Corrupt(Corruption::FlipBit),
        Fault::Corrupt(Corruption::Truncate),
        Fault::WrongValue("n:other".to_owned()),
    ]);
    for fault in faults {
        let rig = Rig::new();
        rig.second().cache.set("k", 1).await.unwrap();
        rig.second().cache.set("other", 3).await.unwrap();
        for op in Op::ALL {
            rig.faults.always(op, fault.clone());
        }
        let runs = Runs::new();
        assert_eq!(rig.cache.get_or_compute("k", || runs.give(2)).await.unwrap(), 2, "{fault:?}");
        assert_eq!(runs.count(), 1);
        assert!(rig.in_l1("k").await, "{fault:?}: written with the result");
        assert_eq!(rig.failures(), 0, "{fault:?}: not counted by default");
    }
}

#[tokio::test]
async fn a_backend_that_panics_or_says_closed_is_built_anew_by_the_next_call() {
    for fault in [Fault::Panic, Fault::Fail(ErrorKind::Closed)] {
        let rig = Rig::new();
        rig.faults.next(Op::Get, 1, fault);
        assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
        assert_eq!(rig.factory.attempts(), 1);
        assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
        assert_eq!(rig.factory.attempts(), 2);
    }
    let rig = Rig::new();
    rig.faults.fail_next(Op::Get, 1, ErrorKind::Unavailable);
    let _ = rig.cache.get::<i32>("k").await.unwrap();
    let _ = rig.cache.get::<i32>("k").await.unwrap();
    assert_eq!(rig.factory.attempts(), 1, "any other error leaves the backend where it is");
}

#[tokio::test]
async fn a_write_error_leaves_an_l1_only_write_and_an_unsynced_key() {
    let rig = Rig::new();
    rig.second().cache.set("k", 1).await.unwrap();
    rig.faults.fail_all(Op::Set, ErrorKind::OutOfSpace);
    assert_eq!(rig.cache.set("k", 2).await.unwrap(), Stored::L1Only(Reason::WriteError));
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), Some(2));
    assert_eq!((rig.failures(), rig.cache.health().unsynced), (0, 1));
    // L1 loses the newer value: the L2's older one is not served all the same.
    let short = rig.cache.with_ttl(Duration::from_millis(1)).unwrap();
    assert_eq!(short.set("k", 3).await.unwrap(), Stored::L1Only(Reason::WriteError));
    rig.clock.advance(Duration::from_millis(1));
    rig.faults.heal();
    let reads = rig.reads();
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
    assert_eq!(rig.reads(), reads, "the L2 was not asked");
    assert_eq!(rig.cache.set("k", 4).await.unwrap(), Stored::Stored);
    assert_eq!(rig.cache.health().unsynced, 0, "a write that reached the L2 ends it");
}

#[tokio::test(start_paused = true)]
async fn a_write_timeout_is_an_l1_only_write() {
    let rig = Rig::new();
    rig.faults.hang(Op::Set);
    let start = tokio::time::Instant::now();
    assert_eq!(rig.cache.set("k", 2).await.unwrap(), Stored::L1Only(Reason::WriteTimeout));
    // And what the entry's few bytes may take, of which a timer makes a whole millisecond.
    assert!((500..=501).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), Some(2));
    let fetched = rig.cache.fetch("other", || Runs::new().give_owned(3)).await.unwrap();
    assert_eq!(fetched.stored, Some(Stored::L1Only(Reason::WriteTimeout)));
    assert_eq!(rig.failures(), 0);
}

#[tokio::test]
async fn u058_a_computed_value_survives_a_failed_write() {
    let rig = Rig::new();
    rig.faults.fail_all(Op::Set, ErrorKind::OutOfSpace);
    let runs = Runs::new();
    assert_eq!(rig.cache.get_or_compute("k", || runs.give(2)).await.unwrap(), 2);
    assert_eq!(rig.cache.get_or_compute("k", || runs.give(2)).await.unwrap(), 2);
    assert_eq!((runs.count(), rig.degraded("write_error")), (1, 1));
    assert_eq!(rig.cache.health().unsynced, 0, "only an explicit write leaves a mark");
}

#[tokio::test]
async fn u088_a_delete_that_failed_says_so_and_no_tier_of_this_process_serves_the_value() {
    for fault in [Fault::Fail(ErrorKind::Unavailable), Fault::Panic, Fault::ApplyThenFail(ErrorKind::Timeout)] {
        let rig = Rig::new();
        rig.cache.set("k", 1).await.unwrap();
        rig.faults.next(Op::Delete, 1, fault);
        let error = rig.cache.delete("k").await.unwrap_err();
        assert!(error.to_string().contains("not applied to the backend"), "{error}");
        assert_eq!(error.may_be_applied(), error.kind() == ErrorKind::Timeout);
        assert!(!rig.in_l1("k").await);
        assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
        assert_eq!(rig.failures(), 0);
        rig.cache.delete("k").await.unwrap();
        assert!(!rig.in_l2("k"));
        assert_eq!(rig.cache.health().unsynced, 0);
    }
}

#[tokio::test]
async fn a_clear_that_failed_hides_everything_written_before_it() {
    let rig = Rig::new();
    rig.cache.set("a", 1).await.unwrap();
    rig.cache.set("b", 1).await.unwrap();
    rig.faults.fail_next(Op::Clear, 1, ErrorKind::Unavailable);
    let error = rig.cache.clear().await.unwrap_err();
    assert!(error.to_string().contains("not applied to the backend"), "{error}");
    assert_eq!(rig.cache.get::<i32>("a").await.unwrap(), None);
    assert!(rig.in_l2("a"), "it is still there");
    assert!(!rig.cache.exists("b").await.unwrap());
    assert_eq!(rig.second().cache.get::<i32>("a").await.unwrap(), Some(1), "another process knows nothing of it");
    rig.cache.clear().await.unwrap();
    assert!(!rig.in_l2("a"));
    assert_eq!(rig.cache.health().unsynced, 0);
}

#[tokio::test]
async fn clear_reaches_both_tiers_and_no_other_namespace() {
    let rig = Rig::new();
    rig.store.insert_raw("nn:k", "foreign");
    rig.store.insert_raw("na:k", "foreign");
    let acme = rig.cache.for_tenant("acme").unwrap();
    rig.cache.set("k", 1).await.unwrap();
    acme.set("k", 2).await.unwrap();
    rig.cache.clear().await.unwrap();
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
    assert_eq!(acme.get::<i32>("k").await.unwrap(), Some(2));
    acme.clear().await.unwrap();
    assert_eq!(acme.get::<i32>("k").await.unwrap(), None);
    assert_eq!(rig.store.keys(), ["na:k", "nn:k"]);
}

#[tokio::test]
async fn u076_stored_bytes_that_are_no_entry_are_a_miss_and_are_overwritten() {
    let rig = Rig::new();
    for bytes in [vec![0xFF; 10], Vec::new(), vec![0xC1, 0x50, 2], vec![0; 100]] {
        rig.store.insert_raw("n:k", bytes);
        let runs = Runs::new();
        let fetched = rig.cache.fetch("k", || runs.give(7)).await.unwrap();
        assert_eq!((fetched.value, fetched.degraded, runs.count()), (7, Some(Reason::Decode), 1));
        assert_eq!(rig.second().cache.get::<i32>("k").await.unwrap(), Some(7), "overwritten");
        rig.cache.delete("k").await.unwrap();
    }
    assert_eq!((rig.degraded("decode"), rig.failures()), (4, 0));
}

#[tokio::test]
async fn another_schema_version_is_a_miss() {
    let rig = Rig::new();
    rig.cache.set("k", 1).await.unwrap();
    let next = Rig::over(rig.store.clone(), rig.clock.clone(), |builder| builder.schema_version(1));
    assert_eq!(next.cache.get::<i32>("k").await.unwrap(), None);
    assert_eq!(next.degraded("other_schema"), 1);
    assert_eq!(next.cache.get_or_compute("k", || Runs::new().give_owned(2)).await.unwrap(), 2);
    assert_eq!(rig.second().cache.get::<i32>("k").await.unwrap(), None, "overwritten by the newer version");
}

#[tokio::test]
async fn the_functions_error_reaches_the_caller_unchanged_and_counts_nothing() {
    let rig = Rig::new();
    let runs = Runs::new();
    for _ in 0..20 {
        assert_eq!(function_error(rig.cache.get_or_compute::<i32, _, _, _>("k", || runs.fail("boom")).await), "boom");
    }
    assert_eq!((runs.count(), rig.failures(), rig.writes()), (20, 0, 0));
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None, "an error is never stored");
}

#[tokio::test]
async fn u095_l1_during_outage_fills_l1_when_the_build_fails_or_the_circuit_is_open() {
    let rig = Rig::with(|builder| builder.l1_during_outage(true)).unbuildable();
    let runs = Runs::new();
    for _ in 0..2 {
        assert_eq!(rig.cache.get_or_compute("k", || runs.give(7)).await.unwrap(), 7);
    }
    assert_eq!(runs.count(), 1);
    rig.cache.breaker().force_open();
    assert_eq!(rig.cache.set("k", 8).await.unwrap(), Stored::L1Only(Reason::CircuitOpen));
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), Some(8));
    rig.cache.breaker().force_close();
    rig.factory.by_default(Build::Succeed);
    // One object, no swap: the L2 is filled once it is there.
    assert_eq!(rig.cache.set("k", 9).await.unwrap(), Stored::Stored);
    assert!(rig.in_l2("k"));
}

#[tokio::test]
async fn u100_operation_errors_open_the_circuit_only_where_they_count() {
    for count in [false, true] {
        let config = cachekit::breaker::BreakerConfig::new().with_count_operation_errors(count);
        let rig = Rig::with(|builder| builder.breaker(config));
        rig.faults.fail_all(Op::Get, ErrorKind::Unavailable);
        for i in 0..5 {
            let runs = Runs::new();
            assert_eq!(rig.cache.get_or_compute(&format!("k{i}"), || runs.give(7)).await.unwrap(), 7);
        }
        assert_eq!(rig.state(), if count { "OPEN" } else { "CLOSED" });
    }
}

#[tokio::test]
async fn u101_errors_that_say_nothing_about_the_backends_health_never_count() {
    let config = cachekit::breaker::BreakerConfig::new().with_count_operation_errors(true);
    let rig = Rig::with(|builder| builder.breaker(config));
    rig.store.insert_raw("n:k", "junk");
    for kind in
        [ErrorKind::TooLarge, ErrorKind::KeyInvalid, ErrorKind::Decode, ErrorKind::OutOfSpace, ErrorKind::ReadOnly]
    {
        for _ in 0..20 {
            rig.faults.fail_next(Op::Set, 1, kind);
            let _ = rig.cache.set("k", 1).await.unwrap();
            rig.store.insert_raw("n:junk", "junk");
            assert_eq!(rig.cache.get::<i32>("junk").await.unwrap(), None);
        }
    }
    assert_eq!((rig.state(), rig.failures()), ("CLOSED", 0));
}

#[tokio::test(start_paused = true)]
async fn u113_a_backend_that_hangs_costs_one_timeout_per_call_until_the_circuit_opens() {
    let config = cachekit::breaker::BreakerConfig::new().with_count_operation_errors(true);
    let rig = Rig::with(|builder| builder.breaker(config).operation_timeout(Duration::from_millis(200)));
    for op in [Op::Get, Op::Set, Op::Delete] {
        rig.faults.hang(op);
    }
    let start = tokio::time::Instant::now();
    for i in 0..20 {
        assert_eq!(rig.cache.get_or_compute(&format!("k{i}"), || Runs::new().give_owned(7)).await.unwrap(), 7);
    }
    assert_eq!(start.elapsed(), Duration::from_millis(1_000), "five timeouts, then none");
    assert_eq!(rig.state(), "OPEN");
}
