//! The server is gone, comes back, or hangs.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::{Memcached, Mode, Proxy};
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn a_server_that_is_down_at_the_start_fails_the_build_at_once() {
    let server = Memcached::start();
    server.kill();
    let (outcome, took) = timed(try_build(&server.url())).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_temporary() && error.context().contains(&server.address()), "{error}");
    assert!(took < GRACE / 2, "nothing is retried: {took:?}");
    server.restart();
    recovers(&*build(&server.url()).await, RECOVERY).await;
}

#[tokio::test]
async fn a_server_that_hangs_at_the_start_fails_the_build_in_time() {
    let server = Memcached::start();
    server.pause();
    let (outcome, took) = timed(try_build(&server.url())).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(took < OPERATION + GRACE, "{took:?}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_unavailable() {
    let (outcome, took) = timed(try_build("memcache://nowhere.invalid")).await;
    let error = outcome.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.context().contains("nowhere.invalid"), "{error}");
    assert!(took < OPERATION + GRACE, "{took:?}");
}

/// `localhost` is two addresses, and only one of them listens.
#[tokio::test]
async fn of_several_addresses_of_a_name_the_one_that_answers_is_used() {
    let server = Memcached::start();
    let url = server.url().replace("127.0.0.1", "localhost");
    recovers(&*build(&url).await, RECOVERY).await;
}

/// Sixteen tasks read and write while the server dies and comes back. Every value names its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_restarted_under_load() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    let (failed, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let (backend, failed, stop) = (backend.clone(), failed.clone(), stop.clone());
            tokio::spawn(async move {
                let mut longest = Duration::ZERO;
                for round in 0.. {
                    if stop.load(Ordering::SeqCst) == 1 {
                        break;
                    }
                    let key = format!("{task}:{}", round % 5);
                    let (outcome, took) = timed(async {
                        set(&*backend, &key, &format!("{key}:{round}")).await?;
                        get(&*backend, &key).await
                    })
                    .await;
                    longest = longest.max(took / 2);
                    match outcome {
                        // `None`: it was acknowledged, and lost with the server's memory.
                        Ok(value) => assert!(value.is_none_or(|value| value == format!("{key}:{round}"))),
                        Err(error) => {
                            failed.fetch_add(1, Ordering::SeqCst);
                            assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error}");
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                longest
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.kill();
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(failed.load(Ordering::SeqCst) > 16);
    server.restart();
    recovers(&*backend, RECOVERY).await;
    stop.store(1, Ordering::SeqCst);
    let mut longest = Duration::ZERO;
    for task in tasks {
        longest = longest.max(task.await.unwrap());
    }
    println!("the longest operation took about {longest:?}");
    assert!(longest < OPERATION + GRACE, "{longest:?}");
}

#[tokio::test]
async fn while_the_server_is_down_operations_fail_at_once_and_say_why() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    server.kill();
    for _ in 0..20 {
        let (outcome, took) = timed(set(&*backend, "k", "v")).await;
        let error = outcome.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && !error.may_be_applied(), "{error}");
        assert!(error.context().contains(&server.address()) && error.context().contains("refused"), "{error}");
        assert!(took < GRACE / 2, "{took:?}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_and_goes_on() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    for key in ["a", "b", "c", "d", "e"] {
        set(&*backend, key, key).await.unwrap();
    }
    server.pause();
    let error = bounded(set(&*backend, "w", "late")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && error.may_be_applied(), "{error}");
    let error = bounded(get(&*backend, "a")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && !error.may_be_applied(), "{error}");
    server.resume();
    // The answers to what timed out come now, on connections that nobody uses any more.
    for _ in 0..20 {
        for key in ["b", "c", "d", "e"] {
            assert_eq!(get(&*backend, key).await.unwrap().as_deref(), Some(key));
        }
    }
    let end = Instant::now() + RECOVERY;
    while get(&*backend, "w").await.unwrap().as_deref() != Some("late") {
        assert!(Instant::now() < end, "a timed-out write is applied");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    server.pause();
    for _ in 0..3 {
        assert_eq!(bounded(get(&*backend, "a")).await.unwrap_err().kind(), ErrorKind::Timeout);
    }
    let error = bounded(get(&*backend, "a")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.context().contains("no connection in time"), "{error}");
    for _ in 0..5 {
        let (outcome, took) = timed(get(&*backend, "a")).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable, "left alone after three and a dial");
        assert!(took < GRACE / 4, "{took:?}");
    }
    server.resume();
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn a_restart_between_two_operations_costs_none() {
    let server = Memcached::start();
    let backend = build(&format!("{}?operation_timeout_ms=5000", server.url())).await;
    for _ in 0..5 {
        let together = futures(&backend, 20).await;
        assert!(together.iter().all(Result::is_ok));
        server.restart();
        // Until the runtime has heard that the connections are closed.
        tokio::time::sleep(Duration::from_millis(50)).await;
        set(&*backend, "k", "v").await.unwrap();
        assert!(futures(&backend, 20).await.iter().all(Result::is_ok));
    }
}

/// A machine that is busy stops a server for half a second now and then: that costs what was under way, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hung_for_a_moment_is_not_left_alone() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    assert!(futures(&backend, 20).await.iter().all(Result::is_ok));
    server.pause();
    assert!(futures(&backend, 20).await.iter().all(Result::is_err));
    server.resume();
    let took = recovers(&*backend, RECOVERY).await;
    assert!(took < GRACE / 2, "{took:?}");
}

/// So many writes at once.
async fn futures(backend: &Arc<dyn Backend>, count: usize) -> Vec<Result<(), BackendError>> {
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let backend = backend.clone();
            tokio::spawn(async move { set(&*backend, &number.to_string(), "v").await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.unwrap());
    }
    outcomes
}

/// While nobody answers, one operation at a time tries the server, and everyone else fails at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_left_alone_gets_one_dial_at_a_time() {
    let server = Memcached::start();
    let proxy = Proxy::start(server.address());
    let backend = build(&format!("memcache://{}?open_for_ms=300", proxy.address())).await;
    proxy.set(Mode::Stall);
    let _ = futures(&backend, 3).await;
    let accepted = proxy.accepted();
    let start = Instant::now();
    let mut slow = 0;
    while start.elapsed() < Duration::from_secs(2) {
        let (outcomes, took) = timed(futures(&backend, 20)).await;
        assert!(outcomes.iter().all(Result::is_err));
        slow += u32::from(took > OPERATION / 2);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let dials = proxy.accepted() - accepted;
    // One in 300 ms and what the dial itself takes.
    assert!((2..=4).contains(&dials) && slow <= 4, "{dials} dials, {slow} slow rounds");
    proxy.set(Mode::Pass);
    recovers(&*backend, RECOVERY).await;
}

/// A caller whose patience is shorter than ours drops every probe; another one has to get its turn.
#[tokio::test]
async fn a_probe_that_is_dropped_leaves_the_next_one_to_others() {
    let server = Memcached::start();
    let proxy = Proxy::start(server.address());
    let backend = build(&format!("memcache://{}?open_for_ms=50", proxy.address())).await;
    proxy.set(Mode::Stall);
    for _ in 0..3 {
        let (_, took) = timed(tokio::time::timeout(OPERATION / 2, get(&*backend, "k"))).await;
        assert!(took >= OPERATION / 2, "late enough to count: {took:?}");
    }
    let (outcome, took) = timed(get(&*backend, "k")).await;
    assert!(outcome.is_err() && took < GRACE / 4, "left alone: {took:?}");
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(tokio::time::timeout(Duration::from_millis(100), get(&*backend, "k")).await.is_err(), "a probe");
    }
    proxy.set(Mode::Pass);
    recovers(&*backend, Duration::from_millis(100)).await;
}
