//! Many callers of one key: one run of the function, whoever leaves, fails or panics.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::{Build, Gate, Op};
use cachekit::{Cache, CallError, ErrorKind, Reason, Source, Stored};
use futures_util::future::join_all;
use std::convert::Infallible;
use std::time::Duration;
use support::{Rig, Runs, function_error};

fn l1_only() -> Cache {
    Cache::builder("n").build().unwrap()
}

/// A function that counts its run, waits at the gate and gives the value.
async fn gated(runs: Runs, gate: Gate, value: i32) -> Result<i32, Infallible> {
    runs.give(()).await?;
    gate.pass().await;
    Ok(value)
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn u047_ten_thousand_concurrent_misses_of_one_key_run_the_function_once() {
    for cache in [l1_only(), Rig::new().cache, Rig::with(|builder| builder.without_l1()).cache] {
        let runs = Runs::new();
        let gate = Gate::new();
        let calls: Vec<_> = (0..10_000)
            .map(|_| {
                let (cache, runs, gate) = (cache.clone(), runs.clone(), gate.clone());
                tokio::spawn(async move { cache.get_or_compute("k", || gated(runs, gate, 7)).await.unwrap() })
            })
            .collect();
        until(|| runs.count() > 0 && cache.health().in_progress == 10_000).await;
        gate.open();
        for call in calls {
            assert_eq!(call.await.unwrap(), 7);
        }
        assert_eq!(runs.count(), 1);
        let health = cache.health();
        assert_eq!((health.in_progress, health.requests.misses, health.requests.shared), (0, 10_000, 9_999));
    }
}

#[tokio::test]
async fn u109_also_while_the_backend_is_down_or_the_circuit_open() {
    let down = Rig::new().unbuildable();
    let open = Rig::new();
    open.cache.breaker().force_open();
    for rig in [down, open] {
        let runs = Runs::new();
        let calls = (0..50).map(|_| {
            let (cache, runs) = (rig.cache.clone(), runs.clone());
            async move {
                let function = || async {
                    tokio::task::yield_now().await;
                    runs.give(7).await
                };
                cache.fetch("k", function).await.unwrap()
            }
        });
        let fetched = join_all(calls).await;
        assert!(fetched.iter().all(|fetched| fetched.value == 7 && fetched.source == Source::Computed));
        assert_eq!(runs.count(), 1, "shared");
        assert_eq!(rig.cache.get_or_compute("k", || runs.give(7)).await.unwrap(), 7);
        assert_eq!(runs.count(), 2, "but not stored");
    }
}

#[tokio::test]
async fn u026_u167_when_the_leader_leaves_a_waiter_takes_over() {
    for rig in [Rig::new(), Rig::with(|builder| builder.without_l1())] {
        for round in 0..300 {
            let key = round.to_string();
            let runs = Runs::new();
            let (shut, open) = (Gate::new(), Gate::new());
            open.open();
            let spawn = |gate: &Gate| {
                let (cache, runs, gate, key) = (rig.cache.clone(), runs.clone(), gate.clone(), key.clone());
                tokio::spawn(async move { cache.get_or_compute(&key, || gated(runs, gate, 7)).await.unwrap() })
            };
            let leader = spawn(&shut);
            until(|| runs.count() == 1).await;
            let waiters: Vec<_> = (0..3).map(|_| spawn(&open)).collect();
            until(|| rig.cache.health().in_progress == 4).await;
            leader.abort();
            for waiter in waiters {
                assert_eq!(waiter.await.unwrap(), 7);
            }
            assert!(leader.await.unwrap_err().is_cancelled());
            assert_eq!(runs.count(), 2);
        }
        assert_eq!(rig.cache.health().in_progress, 0);
    }
}

#[tokio::test]
async fn u028_when_the_leader_panics_a_waiter_takes_over() {
    let cache = l1_only();
    let runs = Runs::new();
    let gate = Gate::new();
    let panicking = {
        let (cache, runs, gate) = (cache.clone(), runs.clone(), gate.clone());
        tokio::spawn(async move {
            let function = || async {
                gated(runs, gate, 0).await?;
                if true { panic!("the function") } else { Ok::<i32, Infallible>(0) }
            };
            cache.get_or_compute("k", function).await.unwrap()
        })
    };
    until(|| runs.count() == 1).await;
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let (cache, runs) = (cache.clone(), runs.clone());
            tokio::spawn(async move { cache.get_or_compute("k", || runs.give(7)).await.unwrap() })
        })
        .collect();
    until(|| cache.health().in_progress == 4).await;
    gate.open();
    assert!(panicking.await.unwrap_err().is_panic());
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), 7);
    }
    assert_eq!(runs.count(), 2);
}

/// Drops the future after each possible number of polls; whatever was half done must not hinder the next caller.
#[tokio::test]
async fn a_caller_dropped_at_every_await_leaves_nothing_behind() {
    for build in [Build::Succeed, Build::Delay(Duration::from_millis(1)), Build::Fail(ErrorKind::Unavailable)] {
        let mut polls = 0;
        loop {
            let rig = Rig::new();
            rig.factory.push(build.clone());
            for op in Op::ALL {
                rig.faults.delay(op, Duration::from_millis(1));
            }
            let runs = Runs::new();
            let function = || async {
                tokio::task::yield_now().await;
                runs.give(7).await
            };
            let mut call = Box::pin(rig.cache.get_or_compute("k", function));
            let mut finished = false;
            for _ in 0..polls {
                // One poll, then as long as it takes for the next one to be worth it.
                if futures_util::future::poll_immediate(&mut call).await.is_some() {
                    finished = true;
                    break;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            drop(call);
            let health = rig.cache.health();
            assert_eq!((health.in_progress, health.unsynced, rig.failures() > 1), (0, 0, false), "{polls} polls");
            assert_eq!(rig.factory.running(), 0);
            let fresh = Runs::new();
            let again = rig.cache.get_or_compute("k", || fresh.give(7)).await.unwrap();
            assert_eq!(again, 7);
            assert!(rig.in_l1("k").await || matches!(build, Build::Fail(_)), "{polls} polls");
            if finished {
                break;
            }
            polls += 1;
        }
        assert!(polls >= 2, "{build:?} took {polls} polls");
    }
}

#[tokio::test]
async fn a_set_or_delete_dropped_at_every_await_leaves_the_key_consistent() {
    for delete in [false, true] {
        for polls in 0..6 {
            let rig = Rig::new();
            let _ = rig.cache.set("k", 1).await.unwrap();
            for op in Op::ALL {
                rig.faults.delay(op, Duration::from_millis(1));
            }
            let mut write = Box::pin(async {
                if delete {
                    rig.cache.delete("k").await.unwrap();
                } else {
                    let _ = rig.cache.set("k", 2).await.unwrap();
                }
            });
            for _ in 0..polls {
                if futures_util::future::poll_immediate(&mut write).await.is_some() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            drop(write);
            rig.faults.heal();
            assert_eq!(rig.cache.health().in_progress, 0);
            let seen = rig.cache.get::<i32>("k").await.unwrap();
            let allowed: &[Option<i32>] = match (polls, delete) {
                (0, _) => &[Some(1)],
                (_, true) => &[None],
                (_, false) => &[Some(2)],
            };
            assert!(allowed.contains(&seen), "{polls} polls, delete {delete}: {seen:?}");
            // What L1 says stays what this process says, whatever the L2 was left with.
            let _ = rig.cache.set("k", 3).await.unwrap();
            assert_eq!(rig.second().cache.get::<i32>("k").await.unwrap(), Some(3));
        }
    }
}

#[tokio::test]
async fn a_function_that_asks_for_its_own_key_is_told_so() {
    for cache in [l1_only(), Rig::new().cache] {
        let inner = cache.clone();
        let result = cache
            .get_or_compute("k", || async move {
                match inner.get_or_compute("k", || Runs::new().give_owned(1)).await {
                    Err(CallError::Cache(error)) => Err(error.kind()),
                    other => panic!("{other:?}"),
                }
            })
            .await;
        assert_eq!(function_error::<i32, _>(result), ErrorKind::Locked);
        assert_eq!(cache.get_or_compute("k", || Runs::new().give_owned(1)).await.unwrap(), 1, "and nothing is stuck");
    }
}

#[tokio::test]
async fn a_chain_of_functions_that_comes_back_to_its_first_key_is_told_so() {
    let cache = l1_only();
    let (outer, inner) = (cache.clone(), cache.clone());
    let result = cache
        .get_or_compute("a", || async move {
            outer
                .get_or_compute("b", || async move {
                    match inner.get_or_compute("a", || Runs::new().give_owned(1)).await {
                        Err(CallError::Cache(error)) => Err(error.kind()),
                        other => panic!("{other:?}"),
                    }
                })
                .await
                .map_err(|error| error.into_function().unwrap())
        })
        .await;
    assert_eq!(function_error::<i32, _>(result), ErrorKind::Locked);
}

#[tokio::test]
async fn a_function_may_ask_for_other_keys() {
    let cache = l1_only();
    let inner = cache.clone();
    let sum = cache.get_or_compute("a", || async move {
        inner.get_or_compute("b", || Runs::new().give_owned(2)).await.map(|b| b + 1)
    });
    assert_eq!(sum.await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_asks_for_its_own_key_from_another_task_waits_no_longer_than_flight_wait() {
    let cache = Cache::builder("n").flight_wait(Duration::from_secs(2)).build().unwrap();
    let inner = cache.clone();
    let start = tokio::time::Instant::now();
    let value = cache.get_or_compute("k", || async move {
        let task = tokio::spawn(async move { inner.get_or_compute("k", || Runs::new().give_owned(1)).await.unwrap() });
        Ok::<_, Infallible>(task.await.unwrap() + 1)
    });
    assert_eq!(value.await.unwrap(), 2);
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn u032_when_the_leader_fails_the_waiters_run_their_own_functions_at_once() {
    let cache = l1_only();
    let runs = Runs::new();
    let start = tokio::time::Instant::now();
    let calls = (0..50).map(|_| {
        let (cache, runs) = (cache.clone(), runs.clone());
        async move {
            let function = || async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                runs.fail::<i32>("boom").await
            };
            function_error(cache.get_or_compute("k", function).await)
        }
    });
    assert!(join_all(calls).await.into_iter().all(|error| error == "boom"));
    assert_eq!(start.elapsed(), Duration::from_millis(200), "two functions, not fifty");
    assert_eq!(runs.count(), 50);
}

#[tokio::test]
async fn the_same_key_asked_as_two_types_is_two_flights_and_a_counted_miss() {
    let rig = Rig::new();
    let (number, text) = (Runs::new(), Runs::new());
    for _ in 0..2 {
        assert_eq!(rig.cache.get_or_compute("k", || number.give(7_u64)).await.unwrap(), 7);
        assert_eq!(rig.cache.get_or_compute("k", || text.give("seven".to_owned())).await.unwrap(), "seven");
    }
    assert_eq!((number.count(), text.count()), (2, 2), "each overwrites the other");
    assert!(rig.degraded("decode") > 0);
    assert_eq!(rig.cache.get::<u64>("k").await.unwrap(), None);
    assert_eq!(rig.cache.get::<String>("k").await.unwrap().as_deref(), Some("seven"));
}

#[tokio::test]
async fn u029_a_hit_never_calls_the_function() {
    let cache = l1_only();
    let _ = cache.set("k", 1).await.unwrap();
    let runs = Runs::new();
    assert_eq!(cache.get_or_compute("k", || runs.give(2)).await.unwrap(), 1);
    assert_eq!(cache.fetch("k", || runs.give(2)).await.unwrap().source, Source::L1);
    assert_eq!(runs.count(), 0);
}

#[tokio::test]
async fn u170_different_keys_do_not_wait_for_each_other() {
    let cache = l1_only();
    let gate = Gate::new();
    let blocked = {
        let (cache, gate) = (cache.clone(), gate.clone());
        tokio::spawn(async move { cache.get_or_compute("blocked", || gated(Runs::new(), gate, 1)).await.unwrap() })
    };
    tokio::task::yield_now().await;
    for i in 0..64 {
        assert_eq!(cache.get_or_compute(&i.to_string(), || Runs::new().give_owned(i)).await.unwrap(), i);
    }
    gate.open();
    assert_eq!(blocked.await.unwrap(), 1);
}

#[tokio::test]
async fn waiters_wake_before_the_write_to_the_l2() {
    let rig = Rig::new();
    let gate = Gate::new();
    let runs = Runs::new();
    rig.faults.hang(Op::Set);
    let leader = {
        let (cache, runs, gate) = (rig.cache.clone(), runs.clone(), gate.clone());
        tokio::spawn(async move { cache.get_or_compute("k", || gated(runs, gate, 7)).await })
    };
    until(|| runs.count() == 1).await;
    let waiter = {
        let (cache, runs) = (rig.cache.clone(), runs.clone());
        tokio::spawn(async move { cache.get_or_compute("k", || runs.give(0)).await.unwrap() })
    };
    until(|| rig.cache.health().in_progress == 2).await;
    gate.open();
    assert_eq!(waiter.await.unwrap(), 7);
    assert!(!leader.is_finished(), "the leader still waits for the L2");
    leader.abort();
}

#[tokio::test]
async fn u043_what_a_function_began_to_compute_before_a_delete_is_returned_but_not_stored() {
    enum Change {
        Delete,
        Set,
        Clear,
    }
    for change in [Change::Delete, Change::Set, Change::Clear] {
        for rig in [Rig::new(), Rig::with(|builder| builder.without_l1())] {
            let (runs, gate) = (Runs::new(), Gate::new());
            let call = {
                let (cache, runs, gate) = (rig.cache.clone(), runs.clone(), gate.clone());
                tokio::spawn(async move { cache.fetch("k", || gated(runs, gate, 1)).await.unwrap() })
            };
            until(|| runs.count() == 1).await;
            let expected = match change {
                Change::Delete => rig.cache.delete("k").await.map(|_| None).unwrap(),
                Change::Clear => rig.cache.clear().await.map(|()| None).unwrap(),
                Change::Set => rig.cache.set("k", 9).await.map(|_| Some(9)).unwrap(),
            };
            // A caller that comes now does not join what began before.
            if expected.is_none() {
                let fresh = rig.cache.with_ttl(Duration::from_millis(1)).unwrap();
                assert_eq!(fresh.get_or_compute("k", || Runs::new().give_owned(2)).await.unwrap(), 2);
                rig.cache.delete("k").await.unwrap();
            }
            gate.open();
            let fetched = call.await.unwrap();
            assert_eq!((fetched.value, fetched.stored), (1, Some(Stored::Skipped(Reason::Superseded))));
            assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), expected, "u040: the set wins");
            assert_eq!(rig.second().cache.get::<i32>("k").await.unwrap(), expected);
        }
    }
}

#[tokio::test]
async fn a_read_that_began_before_a_delete_does_not_bring_the_value_back_into_l1() {
    let rig = Rig::new();
    rig.second().cache.set("k", 1).await.map(drop).unwrap();
    rig.faults.delay(Op::Get, Duration::from_millis(20));
    let read = {
        let cache = rig.cache.clone();
        tokio::spawn(async move { cache.get::<i32>("k").await.unwrap() })
    };
    until(|| rig.reads() == 1).await;
    rig.cache.delete("k").await.unwrap();
    let _ = read.await.unwrap();
    assert!(!rig.in_l1("k").await);
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
}

#[tokio::test]
async fn a_fill_whose_l2_write_was_overtaken_is_deleted_there() {
    for delete_fails in [false, true] {
        let rig = Rig::new();
        rig.faults.delay(Op::Set, Duration::from_millis(20));
        let fill = {
            let cache = rig.cache.clone();
            tokio::spawn(async move { cache.fetch("k", || Runs::new().give_owned(1)).await.unwrap() })
        };
        until(|| rig.writes() == 1).await;
        rig.cache.delete("k").await.unwrap();
        if delete_fails {
            rig.faults.fail_next(Op::Delete, 1, ErrorKind::Unavailable);
        }
        assert_eq!(fill.await.unwrap().stored, Some(Stored::Skipped(Reason::Superseded)));
        assert_eq!(rig.in_l2("k"), delete_fails);
        assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None, "unsynced when the delete failed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_sets_leave_both_tiers_of_one_mind() {
    let rig = Rig::with(|builder| builder.default_ttl(Duration::from_secs(60)));
    for round in 0..200 {
        let sets = (0..4).map(|i| {
            let cache = rig.cache.clone();
            tokio::spawn(async move { cache.set("k", round * 10 + i).await.unwrap() })
        });
        for set in join_all(sets).await {
            assert_eq!(set.unwrap(), Stored::Stored);
        }
        let here = rig.cache.get::<i32>("k").await.unwrap();
        let there = rig.second().cache.get::<i32>("k").await.unwrap();
        assert_eq!(here, there);
        assert!(here.is_some_and(|value| value / 10 == round));
    }
}

#[tokio::test]
async fn u031_nothing_is_remembered_only_with_a_negative_ttl() {
    let runs = Runs::new();
    let rig = Rig::new();
    for _ in 0..2 {
        assert_eq!(rig.cache.get_or_compute_opt("k", || runs.give(None::<i32>)).await.unwrap(), None);
    }
    assert_eq!((runs.count(), rig.writes()), (2, 0));

    let rig = Rig::with(|builder| builder.negative_ttl(Duration::from_secs(5)));
    let runs = Runs::new();
    assert_eq!(rig.cache.get_or_compute_opt("k", || runs.give(None::<i32>)).await.unwrap(), None);
    assert_eq!(rig.cache.get_or_compute_opt("k", || runs.give(Some(1))).await.unwrap(), None);
    assert_eq!(rig.second().cache.get_or_compute_opt("k", || runs.give(Some(1))).await.unwrap(), None);
    assert_eq!(runs.count(), 1);
    assert!(!rig.cache.exists("k").await.unwrap() && !rig.second().cache.exists("k").await.unwrap());
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
    rig.clock.advance(Duration::from_secs(5));
    assert_eq!(rig.cache.get_or_compute_opt("k", || runs.give(Some(1))).await.unwrap(), Some(1));
    // A caller that wants a value computes one over a remembered nothing.
    assert_eq!(rig.cache.get_or_compute_opt("other", || runs.give(None::<i32>)).await.unwrap(), None);
    assert_eq!(rig.cache.get_or_compute("other", || runs.give(2)).await.unwrap(), 2);
    assert_eq!(rig.second().cache.get::<i32>("other").await.unwrap(), Some(2));
}

#[test]
fn the_future_of_a_call_is_small() {
    let rig = Rig::new();
    let call = rig.cache.get_or_compute("k", || async { Ok::<[u64; 8], Infallible>([0; 8]) });
    assert!(size_of_val(&call) <= 128, "{} bytes", size_of_val(&call));
    fn is_send<T: Send>(_: &T) {}
    let cache = rig.cache.clone();
    is_send(&async move { cache.get_or_compute("k", || async { Ok::<i32, Infallible>(1) }).await.unwrap() });
}
