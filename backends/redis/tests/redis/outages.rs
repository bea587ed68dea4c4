//! The server is gone, comes back, or hangs.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::{Proxy, RedisServer};
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn a_server_that_is_down_at_the_start_fails_the_build_at_once() {
    let server = RedisServer::start();
    server.kill();
    let (outcome, took) = timed(try_build(&server.url())).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_temporary() && error.context().contains(&server.address()), "{error}");
    assert!(took < GRACE, "nothing is retried: {took:?}");
    server.restart();
    recovers(&*build(&server.url()).await, RECOVERY).await;
}

#[tokio::test]
async fn a_server_that_hangs_at_the_start_fails_the_build_in_time() {
    let server = RedisServer::start();
    server.pause();
    let (outcome, took) = timed(try_build(&server.url())).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(took < Duration::from_secs(1) + GRACE, "{took:?}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_unavailable() {
    let (outcome, took) = timed(try_build("redis://nowhere.invalid")).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(took < Duration::from_secs(1) + GRACE, "{took:?}");
}

/// Sixteen tasks read and write while the server dies and comes back. Every value names its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u065_u067_a_server_that_is_killed_and_restarted_under_load() {
    let server = RedisServer::start();
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
async fn while_the_server_is_down_operations_fail_quickly_and_say_why() {
    let server = RedisServer::start();
    let backend = build(&server.url()).await;
    server.kill();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for _ in 0..10 {
        let (outcome, took) = timed(set(&*backend, "k", "v")).await;
        let error = outcome.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && !error.may_be_applied(), "{error}");
        assert!(error.context().contains(&server.address()), "{error}");
        assert!(took < Duration::from_millis(50) + GRACE / 2, "{took:?}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_and_goes_on() {
    let server = RedisServer::start();
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
    // The answers to what timed out come now, and belong to nobody.
    for _ in 0..20 {
        for key in ["b", "c", "d", "e"] {
            assert_eq!(get(&*backend, key).await.unwrap().as_deref(), Some(key));
        }
    }
    assert_eq!(get(&*backend, "w").await.unwrap().as_deref(), Some("late"), "a timed-out write was applied");

    server.pause();
    for _ in 0..3 {
        assert_eq!(bounded(get(&*backend, "a")).await.unwrap_err().kind(), ErrorKind::Timeout);
    }
    let (outcome, took) = timed(get(&*backend, "a")).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable, "given up after three");
    assert!(took < Duration::from_millis(50) + GRACE / 2, "{took:?}");
    server.resume();
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn a_restart_between_two_operations_costs_none() {
    let server = RedisServer::start();
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    server.restart();
    // The driver hears of it at once; the dialer has to find the server.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(get(&*backend, "k").await.unwrap(), None);
}

#[tokio::test]
async fn a_backend_that_is_dropped_or_closed_dials_no_more() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let url = format!("redis://{}", proxy.address());
    for close in [true, false] {
        let backend = build(&url).await;
        let accepted = proxy.accepted();
        if close {
            backend.close().await.unwrap();
            let error = get(&*backend, "k").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Closed);
        } else {
            drop(backend);
        }
        for _ in 0..100 {
            if proxy.open() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(proxy.open(), 0, "the connection is closed (close: {close})");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(proxy.accepted(), accepted, "nobody dials (close: {close})");
    }
}

#[test]
fn a_backend_whose_runtime_has_ended_asks_to_be_built_anew() {
    let server = RedisServer::start();
    let first = tokio::runtime::Runtime::new().unwrap();
    let backend = first.block_on(build(&server.url()));
    drop(first);
    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(async {
        let _ = get(&*backend, "k").await;
        assert_eq!(get(&*backend, "k").await.unwrap_err().kind(), ErrorKind::Closed);
    });
}
