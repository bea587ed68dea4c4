//! The circuit breaker as the cache uses it. A test's number is that of the rule it holds the cache to; the breaker's
//! own rules are tested in `cachekit-core/tests/breaker_*.rs`.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::breaker::{BreakerConfig, CircuitBreaker};
use cachekit::testing::{Build, Gate, Op};
use cachekit::{Cache, ErrorKind, Reason, Source, Stored};
use std::sync::Arc;
use std::time::Duration;
use support::{Rig, Runs, function_error};

const COOLDOWN: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_nanos(1);

fn rig_with(config: BreakerConfig) -> Rig {
    Rig::with(|builder| builder.breaker(config))
}

/// Five failed builds.
async fn opened() -> Rig {
    let rig = Rig::new().unbuildable();
    for i in 0..5 {
        compute(&rig, &format!("trip {i}")).await;
    }
    assert_eq!(rig.state(), "OPEN");
    rig
}

/// An open circuit whose cooldown is just over, with the backend back or still away.
async fn ready_to_probe(backend: Build) -> Rig {
    let rig = opened().await;
    rig.factory.by_default(backend);
    rig.clock.advance(COOLDOWN + TICK);
    rig
}

async fn compute(rig: &Rig, key: &str) -> cachekit::Fetched<i32> {
    let runs = Runs::new();
    let fetched = rig.cache.fetch(key, || runs.give(7)).await.unwrap();
    assert_eq!((fetched.value, runs.count()), (7, usize::from(fetched.source == Source::Computed)));
    fetched
}

async fn raise(rig: &Rig, key: &str) {
    let error =
        function_error(rig.cache.get_or_compute::<i32, _, _, _>(key, || Runs::new().fail_owned("raised")).await);
    assert_eq!(error, "raised");
}

#[test]
fn s07_an_invalid_breaker_fails_the_build_of_the_cache_and_names_the_field() {
    for (config, field) in [
        (BreakerConfig::new().with_failure_threshold(0), "failure_threshold"),
        (BreakerConfig::new().with_success_threshold(0), "success_threshold"),
        (BreakerConfig::new().with_success_threshold(4), "half_open_requests"),
        (BreakerConfig::new().with_recovery_timeout(Duration::ZERO), "recovery_timeout"),
        (BreakerConfig::new().with_enabled(false).with_failure_threshold(0), "failure_threshold"),
    ] {
        let error = Cache::builder("n").breaker(config).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[tokio::test]
async fn s09_a_disabled_breaker_is_never_consulted() {
    let rig = rig_with(BreakerConfig::new().with_enabled(false)).unbuildable();
    for i in 0..20 {
        compute(&rig, &i.to_string()).await;
    }
    assert_eq!(rig.factory.attempts(), 20);
    assert!(rig.cache.health().circuit_breaker.is_none());
}

#[tokio::test]
async fn s10_an_l1_only_cache_validates_and_reports_its_breaker_and_never_consults_it() {
    let cache = Cache::builder("n").breaker(BreakerConfig::new().with_failure_threshold(3)).build().unwrap();
    cache.breaker().force_open();
    assert_eq!(cache.get_or_compute("k", || Runs::new().give_owned(1)).await.unwrap(), 1);
    assert_eq!(cache.get::<i32>("k").await.unwrap(), Some(1));
    let _ = cache.set("k", 2).await.unwrap();
    assert_eq!(cache.breaker().snapshot().rejected_total.open, 0);
    assert_eq!(cache.health().circuit_breaker.unwrap().config.failure_threshold, 3);
}

#[test]
fn s11_health_reports_the_settings_exactly() {
    let seconds = Duration::from_secs_f64;
    for (threshold, cooldown) in [(Some(3), Some(10.0)), (Some(10), Some(60.0)), (Some(1), None), (None, Some(1.0))] {
        let mut config = BreakerConfig::new();
        if let Some(threshold) = threshold {
            config = config.with_failure_threshold(threshold);
        }
        if let Some(cooldown) = cooldown {
            config = config.with_recovery_timeout(seconds(cooldown));
        }
        let health = serde_json::to_value(Cache::builder("n").breaker(config).build().unwrap().health()).unwrap();
        let reported = &health["circuit_breaker"]["config"];
        assert_eq!(reported["failure_threshold"], threshold.unwrap_or(5));
        assert_eq!(reported["timeout_seconds"], cooldown.unwrap_or(30.0));
    }
}

#[tokio::test]
async fn s13_an_l1_hit_does_not_touch_the_breaker() {
    let rig = ready_to_probe(Build::Succeed).await;
    compute(&rig, "probe").await;
    let before = rig.cache.breaker().snapshot();
    for _ in 0..10 {
        assert_eq!(compute(&rig, "probe").await.source, Source::L1);
    }
    assert_eq!(rig.cache.breaker().snapshot(), before);
}

#[tokio::test]
async fn s14_a_miss_with_a_backend_asks_it_then_computes_and_fills_both_tiers() {
    let rig = Rig::new();
    assert_eq!(compute(&rig, "k").await.stored, Some(Stored::Stored));
    assert_eq!((rig.reads(), rig.writes()), (1, 1));
    assert!(rig.in_l1("k").await && rig.in_l2("k"));
}

#[tokio::test]
async fn s15_a_failed_build_counts_once_and_the_function_runs_uncached() {
    let rig = Rig::new().unbuildable();
    compute(&rig, "k").await;
    assert_eq!((rig.factory.attempts(), rig.failures()), (1, 1));
    assert_eq!(compute(&rig, "k").await.source, Source::Computed, "nothing was stored");
}

#[tokio::test]
async fn s17_the_call_that_opens_the_circuit_returns_its_value_too() {
    let rig = Rig::new().unbuildable();
    for i in 1..=5 {
        assert_eq!(compute(&rig, &i.to_string()).await.value, 7);
        assert_eq!(rig.state(), if i == 5 { "OPEN" } else { "CLOSED" });
    }
}

#[tokio::test]
async fn s18_with_a_threshold_of_one_the_first_failed_build_opens() {
    let rig = rig_with(BreakerConfig::new().with_failure_threshold(1)).unbuildable();
    compute(&rig, "k").await;
    assert_eq!(rig.state(), "OPEN");
}

#[tokio::test]
async fn s21_four_failures_a_pause_and_four_more_leave_it_closed() {
    let rig = Rig::new().unbuildable();
    for i in 0..4 {
        compute(&rig, &i.to_string()).await;
    }
    rig.clock.advance(Duration::from_secs(61));
    assert_eq!(rig.failures(), 0, "u103: the window is part of the reading");
    for i in 0..4 {
        compute(&rig, &i.to_string()).await;
    }
    assert_eq!((rig.state(), rig.failures()), ("CLOSED", 4));
}

#[tokio::test]
async fn s22_a_function_that_raises_never_counts() {
    let rig = Rig::new();
    for i in 0..50 {
        raise(&rig, &i.to_string()).await;
    }
    assert_eq!((rig.state(), rig.failures()), ("CLOSED", 0));
}

#[tokio::test]
async fn s23_s24_s25_a_backend_lost_after_the_first_build_leaves_it_closed() {
    let rig = Rig::new();
    compute(&rig, "first").await;
    for op in Op::ALL {
        rig.faults.fail_all(op, ErrorKind::Unavailable);
    }
    for i in 0..50 {
        let fetched = compute(&rig, &i.to_string()).await;
        assert_eq!(fetched.stored, Some(Stored::L1Only(Reason::WriteError)));
        assert!(rig.in_l1(&i.to_string()).await);
    }
    assert_eq!((rig.state(), rig.failures()), ("CLOSED", 0));
}

#[tokio::test]
async fn s26_q22_a_value_that_does_not_serialize_never_counts() {
    use serde::{Deserialize, Serialize, Serializer};
    #[derive(Clone, Debug, PartialEq, Deserialize)]
    struct Unserializable;
    impl Serialize for Unserializable {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("never"))
        }
    }
    let rig = Rig::new();
    for i in 0..20 {
        let fetched = rig.cache.fetch(&i.to_string(), || Runs::new().give_owned(Unserializable)).await.unwrap();
        assert_eq!(fetched.value, Unserializable);
        assert_eq!(fetched.stored, Some(Stored::Skipped(Reason::Serialize)));
    }
    assert_eq!((rig.state(), rig.failures(), rig.writes()), ("CLOSED", 0, 0));
}

#[tokio::test]
async fn s28_with_the_l2_failing_each_process_computes_for_itself_and_keeps_the_result() {
    let one = Rig::new();
    let two = one.second();
    for rig in [&one, &two] {
        rig.faults.down(ErrorKind::Unavailable);
        for i in 0..20 {
            assert_eq!(compute(rig, &i.to_string()).await.source, Source::Computed);
            assert!(rig.in_l1(&i.to_string()).await);
        }
        assert_eq!((rig.state(), rig.failures()), ("CLOSED", 0));
    }
}

#[tokio::test(start_paused = true)]
async fn s29_a_build_that_does_not_answer_is_bounded_and_counts() {
    let rig = Rig::new();
    rig.factory.by_default(Build::Hang);
    let start = tokio::time::Instant::now();
    compute(&rig, "k").await;
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert_eq!((rig.failures(), rig.factory.running()), (1, 0));
}

#[tokio::test]
async fn s30_s31_s32_s33_s34_u107_while_open() {
    let rig = Rig::new();
    compute(&rig, "hit").await;
    rig.cache.breaker().force_open();
    let (calls, attempts) = (rig.faults.total_calls(), rig.factory.attempts());
    for _ in 0..100 {
        assert_eq!(compute(&rig, "hit").await.source, Source::L1);
        assert_eq!(compute(&rig, "k").await.source, Source::Computed);
        assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
    }
    assert_eq!((rig.faults.total_calls(), rig.factory.attempts()), (calls, attempts));
    assert_eq!(rig.failures(), 0);
    // The cooldown has not moved.
    rig.clock.advance(COOLDOWN + TICK);
    compute(&rig, "k").await;
    assert_eq!(rig.state(), "HALF_OPEN");
}

#[tokio::test]
async fn s37_s39_the_cooldown_ends_one_tick_after_it_and_only_a_call_notices() {
    let rig = opened().await;
    rig.factory.by_default(Build::Succeed);
    rig.clock.advance(COOLDOWN);
    compute(&rig, "k").await;
    assert_eq!((rig.state(), rig.factory.attempts()), ("OPEN", 5), "at equality still rejected");
    rig.clock.advance(TICK);
    assert_eq!(rig.cache.health().circuit_breaker.unwrap().state, "OPEN", "reading moves nothing");
    compute(&rig, "k").await;
    assert_eq!((rig.state(), rig.factory.attempts()), ("HALF_OPEN", 6));
}

#[tokio::test]
async fn s40_s43_s46_the_first_miss_is_probe_one_and_three_successes_close() {
    let rig = ready_to_probe(Build::Succeed).await;
    for (key, probes) in [("a", 1), ("b", 2)] {
        compute(&rig, key).await;
        assert_eq!((rig.state(), rig.cache.health().circuit_breaker.unwrap().probes_in_use), ("HALF_OPEN", probes));
    }
    compute(&rig, "c").await;
    assert_eq!((rig.state(), rig.failures()), ("CLOSED", 0));
}

#[tokio::test]
async fn s41_u104_of_a_hundred_misses_at_once_three_reach_the_backend() {
    let rig = ready_to_probe(Build::Succeed).await;
    let gate = Gate::new();
    rig.factory.push(Build::Wait(gate.clone()));
    let runs = Runs::new();
    let calls: Vec<_> = (0..100)
        .map(|i| {
            let (cache, runs) = (rig.cache.clone(), runs.clone());
            tokio::spawn(async move { cache.get_or_compute(&i.to_string(), || runs.give(i)).await.unwrap() })
        })
        .collect();
    while runs.count() < 97 {
        tokio::task::yield_now().await;
    }
    gate.open();
    for (i, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), i);
    }
    assert_eq!((rig.reads(), runs.count(), rig.factory.attempts()), (3, 100, 6));
    assert_eq!(rig.cache.breaker().snapshot().cycle, 1);
    assert_eq!(rig.state(), "CLOSED");
}

#[tokio::test]
async fn s44_hits_take_no_slot_and_give_no_success() {
    let rig = ready_to_probe(Build::Succeed).await;
    compute(&rig, "probe").await;
    for _ in 0..10 {
        compute(&rig, "probe").await;
    }
    let breaker = rig.cache.breaker().snapshot();
    assert_eq!((breaker.probes_in_use, breaker.successes), (1, 1));
}

#[tokio::test]
async fn s47_a_failed_probe_reopens_with_a_fresh_cooldown() {
    let rig = ready_to_probe(Build::Fail(ErrorKind::Unavailable)).await;
    compute(&rig, "probe").await;
    assert_eq!(rig.state(), "OPEN");
    rig.clock.advance(COOLDOWN);
    compute(&rig, "k").await;
    assert_eq!((rig.state(), rig.factory.attempts()), ("OPEN", 6));
}

#[tokio::test]
async fn s48_u115_a_cancelled_probe_holds_its_slot_until_the_cycle_is_over() {
    let config = BreakerConfig::new().with_success_threshold(1).with_half_open_requests(1);
    let rig = rig_with(config);
    rig.cache.breaker().force_open();
    rig.clock.advance(COOLDOWN + TICK);
    rig.factory.by_default(Build::Hang);
    let cache = rig.cache.clone();
    let probe = tokio::spawn(async move { cache.get::<i32>("probe").await });
    while rig.factory.running() == 0 {
        tokio::task::yield_now().await;
    }
    probe.abort();
    assert!(probe.await.unwrap_err().is_cancelled());
    assert_eq!(rig.factory.running(), 0, "an attempt that nobody waits for is dropped");
    rig.factory.by_default(Build::Succeed);

    rig.clock.advance(COOLDOWN);
    assert_eq!(compute(&rig, "k").await.degraded, Some(Reason::CircuitOpen));
    rig.clock.advance(TICK);
    assert_eq!(compute(&rig, "k").await.degraded, None);
    assert_eq!((rig.state(), rig.cache.breaker().snapshot().cycle), ("CLOSED", 2));
}

#[tokio::test]
async fn s49_s50_s51_a_probe_whose_function_raises_returns_its_slot() {
    let rig = ready_to_probe(Build::Succeed).await;
    for i in 0..20 {
        raise(&rig, &format!("raise {i}")).await;
        assert_eq!((rig.state(), rig.cache.breaker().snapshot().probes_in_use), ("HALF_OPEN", 0));
    }
    compute(&rig, "a").await;
    raise(&rig, "raise").await;
    compute(&rig, "b").await;
    compute(&rig, "c").await;
    assert_eq!(rig.state(), "CLOSED");
}

#[tokio::test]
async fn s49_a_probe_whose_function_panics_returns_its_slot() {
    let rig = ready_to_probe(Build::Succeed).await;
    let cache = rig.cache.clone();
    let panicked = tokio::spawn(async move {
        cache.get_or_compute("k", || async { if true { panic!("the function") } else { Ok::<i32, ()>(1) } }).await
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!((rig.state(), rig.cache.breaker().snapshot().probes_in_use), ("HALF_OPEN", 0));
}

#[tokio::test]
async fn s61_a_read_error_of_a_probe_is_still_a_success_by_default() {
    let rig = ready_to_probe(Build::Succeed).await;
    rig.faults.fail_all(Op::Get, ErrorKind::Unavailable);
    for key in ["a", "b", "c"] {
        compute(&rig, key).await;
    }
    assert_eq!(rig.state(), "CLOSED");
}

#[tokio::test(start_paused = true)]
async fn s60_a_build_timeout_of_a_probe_is_a_recorded_failure() {
    let rig = ready_to_probe(Build::Hang).await;
    compute(&rig, "probe").await;
    assert_eq!(rig.state(), "OPEN");
}

#[tokio::test(start_paused = true)]
async fn s60_an_operation_timeout_of_a_probe_fails_it_where_operation_errors_count() {
    for count in [false, true] {
        let rig = rig_with(BreakerConfig::new().with_count_operation_errors(count));
        rig.cache.breaker().force_open();
        rig.clock.advance(COOLDOWN + TICK);
        rig.faults.hang(Op::Get);
        compute(&rig, "probe").await;
        assert_eq!(rig.state(), if count { "OPEN" } else { "HALF_OPEN" });
    }
}

#[tokio::test]
async fn s66_s67_after_recovery_it_takes_a_full_count_and_the_next_cycle_has_the_next_number() {
    let rig = ready_to_probe(Build::Succeed).await;
    for key in ["a", "b", "c"] {
        compute(&rig, key).await;
    }
    // Only a lost backend is built again.
    rig.factory.by_default(Build::Fail(ErrorKind::Unavailable));
    rig.faults.fail_next(Op::Get, 1, ErrorKind::Closed);
    compute(&rig, "lost").await;
    for i in 1..=5 {
        assert_eq!(rig.state(), "CLOSED");
        compute(&rig, &format!("again {i}")).await;
    }
    assert_eq!(rig.state(), "OPEN");
    rig.clock.advance(COOLDOWN + TICK);
    compute(&rig, "probe").await;
    assert_eq!(rig.cache.breaker().snapshot().cycle, 2);
}

#[tokio::test]
async fn s69_u112_health_has_the_documented_shape() {
    let rig = opened().await;
    let health = serde_json::to_value(rig.cache.health()).unwrap();
    let breaker = &health["circuit_breaker"];
    assert_eq!(breaker["state"], "OPEN");
    assert_eq!(breaker["failure_count"], 5);
    let config = serde_json::json!({
        "enabled": true, "failure_threshold": 5, "success_threshold": 3, "timeout_seconds": 30.0, "half_open_requests": 3
    });
    assert_eq!(breaker["config"], config);
    assert_eq!(breaker["retry_in_seconds"], 30.0);
    assert_eq!(breaker["opened_total"], 1);
    assert_eq!(
        health["l2"],
        serde_json::json!({ "backend": "memory", "last_error": "unavailable", "status": "failed" })
    );
}

#[tokio::test]
async fn s75_the_documented_timeline() {
    let rig = Rig::new().unbuildable();
    for call in 1..=38 {
        if call == 35 {
            rig.factory.by_default(Build::Succeed);
            rig.clock.advance(COOLDOWN + TICK);
        }
        compute(&rig, &format!("call {call}")).await;
        let (state, attempts) = match call {
            1..=4 => ("CLOSED", call),
            5..=34 => ("OPEN", 5),
            35..=36 => ("HALF_OPEN", 6),
            _ => ("CLOSED", 6),
        };
        assert_eq!((rig.state(), rig.factory.attempts()), (state, attempts), "call {call}");
    }
    assert!(rig.in_l2("call 38"));
}

#[tokio::test]
async fn s76_down_for_two_cooldowns_costs_one_attempt_each() {
    let rig = opened().await;
    for cooldown in 1..=2 {
        rig.clock.advance(COOLDOWN + TICK);
        for i in 0..50 {
            compute(&rig, &i.to_string()).await;
        }
        assert_eq!(rig.factory.attempts(), 5 + cooldown);
    }
}

#[tokio::test]
async fn s77_the_function_runs_once_per_call_in_every_state_and_on_every_path() {
    for state in ["CLOSED", "OPEN", "HALF_OPEN"] {
        for build in [Build::Succeed, Build::Fail(ErrorKind::Unavailable), Build::Panic] {
            for read in [None, Some(ErrorKind::Unavailable), Some(ErrorKind::Timeout), Some(ErrorKind::Closed)] {
                for write in [None, Some(ErrorKind::OutOfSpace)] {
                    for raises in [false, true] {
                        let rig = Rig::new();
                        if state != "CLOSED" {
                            rig.cache.breaker().force_open();
                        }
                        if state == "HALF_OPEN" {
                            rig.clock.advance(COOLDOWN + TICK);
                        }
                        rig.factory.by_default(build.clone());
                        read.into_iter().for_each(|kind| rig.faults.fail_all(Op::Get, kind));
                        write.into_iter().for_each(|kind| rig.faults.fail_all(Op::Set, kind));
                        let runs = Runs::new();
                        if raises {
                            let result = rig.cache.get_or_compute::<i32, _, _, _>("k", || runs.fail("raised")).await;
                            assert_eq!(function_error(result), "raised");
                        } else {
                            assert_eq!(rig.cache.get_or_compute("k", || runs.give(7)).await.unwrap(), 7);
                        }
                        assert_eq!(runs.count(), 1, "{state} {build:?} {read:?} {write:?} {raises}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn u116_a_step_of_the_wall_clock_moves_no_state() {
    for step in [-3_600_000, 3_600_000] {
        let rig = opened().await;
        rig.clock.shift_wall(step);
        compute(&rig, "k").await;
        assert_eq!(rig.state(), "OPEN");
        rig.factory.by_default(Build::Succeed);
        rig.clock.advance(COOLDOWN + TICK);
        compute(&rig, "k").await;
        assert_eq!(rig.state(), "HALF_OPEN");
    }
}

#[tokio::test]
async fn a_delete_can_be_a_probe() {
    let rig = ready_to_probe(Build::Succeed).await;
    rig.cache.delete("a").await.unwrap();
    let _ = rig.cache.set("b", 1).await.unwrap();
    rig.cache.clear().await.unwrap();
    assert_eq!(rig.state(), "CLOSED");
}

#[tokio::test]
async fn q28_caches_may_share_one_breaker() {
    let breaker = Arc::new(CircuitBreaker::new(BreakerConfig::new()).unwrap());
    let one = Rig::with(|builder| builder.shared_breaker(Arc::clone(&breaker))).unbuildable();
    let two = Rig::with(|builder| builder.shared_breaker(Arc::clone(&breaker))).unbuildable();
    for i in 0..3 {
        compute(&one, &i.to_string()).await;
        compute(&two, &i.to_string()).await;
    }
    assert_eq!((one.state(), two.state()), ("OPEN", "OPEN"));
    assert_eq!(one.factory.attempts() + two.factory.attempts(), 5);
}
