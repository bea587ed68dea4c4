//! The wire is cut, frozen or noisy, and the server is well.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::{Memcached, Mode, Proxy};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

async fn behind_a_proxy(options: &str) -> (Memcached, Proxy, Arc<dyn Backend>) {
    let server = Memcached::start();
    let proxy = Proxy::start(server.address());
    let backend = build(&format!("memcache://{}?{options}", proxy.address())).await;
    (server, proxy, backend)
}

#[tokio::test]
async fn a_frozen_connection_is_not_used_again() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    set(&*backend, "k", "v").await.unwrap();
    proxy.set(Mode::Freeze);
    assert_eq!(bounded(get(&*backend, "k")).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(bounded(get(&*backend, "k")).await.unwrap().as_deref(), Some("v"), "by another connection");
}

#[tokio::test]
async fn when_all_connections_freeze_they_are_replaced_after_three_timeouts() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    proxy.set(Mode::Delay(Duration::from_millis(30)));
    let tasks: Vec<_> = (0..10)
        .map(|number| {
            let backend = backend.clone();
            tokio::spawn(async move { set(&*backend, &number.to_string(), "v").await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(proxy.open(), 10);
    proxy.set(Mode::Freeze);
    for _ in 0..3 {
        assert_eq!(bounded(get(&*backend, "1")).await.unwrap_err().kind(), ErrorKind::Timeout);
    }
    recovers(&*backend, RECOVERY).await;
    // The proxy hears of it when it goes on.
    proxy.set(Mode::Pass);
    let end = Instant::now() + RECOVERY;
    while proxy.open() > 2 {
        assert!(Instant::now() < end, "the frozen ones are not closed: {}", proxy.open());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Late timeouts concern connections that are gone already.
#[tokio::test]
async fn late_failures_do_no_harm_to_the_connections_that_came_after() {
    let (_server, proxy, backend) = behind_a_proxy("operation_timeout_ms=1000").await;
    let spawn = |count: usize| -> Vec<_> {
        let task = |number: usize| {
            let backend = backend.clone();
            tokio::spawn(async move { set(&*backend, &number.to_string(), "v").await })
        };
        (0..count).map(task).collect()
    };
    proxy.set(Mode::Delay(Duration::from_millis(30)));
    for task in spawn(6) {
        task.await.unwrap().unwrap();
    }
    proxy.set(Mode::Freeze);
    let early = spawn(3);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let late = spawn(3);
    for task in early {
        assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    }
    bounded(set(&*backend, "k", "v")).await.unwrap();
    let accepted = proxy.accepted();
    for task in late {
        assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);
    }
    bounded(set(&*backend, "k", "v")).await.unwrap();
    assert_eq!(proxy.accepted(), accepted, "the same connection");
}

/// A cache whose own timeout is shorter than ours drops every call before we notice.
#[tokio::test]
async fn operations_that_are_dropped_late_count_as_timeouts_and_early_ones_do_not() {
    let (_server, proxy, backend) = behind_a_proxy("operation_timeout_ms=1000").await;
    proxy.set(Mode::Stall);
    for _ in 0..10 {
        assert!(tokio::time::timeout(Duration::from_millis(20), get(&*backend, "k")).await.is_err());
    }
    for _ in 0..3 {
        let (_, took) = timed(tokio::time::timeout(OPERATION, get(&*backend, "k"))).await;
        assert!(took >= OPERATION, "it is tried: {took:?}");
    }
    let (outcome, took) = timed(get(&*backend, "k")).await;
    assert!(outcome.is_err() && took < GRACE / 4, "it is left alone: {took:?}");
    proxy.set(Mode::Pass);
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn a_reply_that_is_cut_is_an_error_and_never_a_part_of_a_value() {
    let (_server, proxy, backend) = behind_a_proxy("open_for_ms=100").await;
    let value = "0123456789".repeat(20);
    set(&*backend, "k", &value).await.unwrap();
    // In the head of the reply, in the value, before its line end; and in the greeting of another connection.
    for bytes in [1, 3, 6, 50, 150, 209, 210, 211, 300] {
        proxy.set(Mode::CutAfter(bytes));
        for _ in 0..4 {
            match bounded(get(&*backend, "k")).await {
                Ok(found) => assert_eq!(found.as_deref(), Some(&*value)),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Protocol), "{error}");
                }
            }
            let many = bounded(backend.get_many(&["k", "missing", "k"])).await;
            for (result, expected) in many.into_iter().zip([Some(&value), None, Some(&value)]) {
                assert!(result.is_err() || result.unwrap().as_deref() == expected.map(String::as_bytes));
            }
        }
        proxy.set(Mode::Pass);
        recovers(&*backend, RECOVERY).await;
    }
    assert_eq!(get(&*backend, "k").await.unwrap(), Some(value));
}

#[tokio::test]
async fn a_write_that_is_cut_may_be_applied_and_is_not_sent_again() {
    let (server, proxy, backend) = behind_a_proxy("").await;
    proxy.set(Mode::CutAfter(0));
    let error = bounded(set(&*backend, "k", "v")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.may_be_applied(), "{error}");
    let results = bounded(backend.set_many(&[("a", Bytes::new()), ("b", Bytes::new())], SetOptions::default())).await;
    assert!(results.iter().all(|result| result.as_ref().is_err_and(BackendError::may_be_applied)));
    assert!(server.ask("stats").contains("STAT cmd_set 3\r\n"), "{}", server.ask("stats"));
}

#[tokio::test]
async fn a_read_whose_connection_ends_is_sent_once_more() {
    let (server, proxy, backend) = behind_a_proxy("").await;
    set(&*backend, "k", "v").await.unwrap();
    for _ in 0..10 {
        proxy.reset_all();
        assert_eq!(bounded(get(&*backend, "k")).await.unwrap().as_deref(), Some("v"));
    }
    // The reply to the first try is cut, and so is that to the second.
    proxy.set(Mode::CutAfter(0));
    let before = gets(&server);
    assert!(bounded(get(&*backend, "k")).await.is_err());
    assert_eq!(gets(&server) - before, 2);
}

fn gets(server: &Memcached) -> u32 {
    let stats = server.ask("stats");
    let line = stats.lines().find_map(|line| line.strip_prefix("STAT get_hits ")).unwrap();
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn noise_is_an_error() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    set(&*backend, "k", "v").await.unwrap();
    proxy.set(Mode::Garbage);
    // A line without an end: there may be more of it.
    let error = bounded(set(&*backend, "k", "w")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && error.may_be_applied(), "{error}");
    let error = bounded(get(&*backend, "k")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && !error.may_be_applied(), "{error}");
    let error = try_build(&format!("memcache://{}", proxy.address())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "at the start: {error}");
    proxy.set(Mode::Pass);
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn a_wire_that_is_refused_and_opened_again() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    proxy.set(Mode::Refuse);
    proxy.reset_all();
    tokio::time::sleep(Duration::from_millis(50)).await;
    for _ in 0..10 {
        let error = bounded(get(&*backend, "k")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
    proxy.set(Mode::Pass);
    recovers(&*backend, RECOVERY).await;
}

/// A black hole: 192.0.2.0/24 is for documentation, and nobody is there. Where the machine has no route to it, it is
/// refused at once instead.
#[tokio::test]
async fn an_address_that_nobody_answers_from_is_unavailable_in_time() {
    let (outcome, took) = timed(try_build("memcache://192.0.2.1")).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(took < OPERATION + GRACE, "{took:?}");
}

#[tokio::test]
async fn a_slow_wire_works_and_a_too_slow_one_times_out() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    proxy.set(Mode::Delay(Duration::from_millis(30)));
    let ((), took) = timed(async { set(&*backend, "k", "v").await.unwrap() }).await;
    assert!(took >= Duration::from_millis(60), "{took:?}");
    proxy.set(Mode::Drip(Duration::from_millis(100)));
    assert_eq!(bounded(get(&*backend, "k")).await.unwrap_err().kind(), ErrorKind::Timeout);
    proxy.set(Mode::Pass);
    recovers(&*backend, RECOVERY).await;
}

/// A large value gets the time that its size takes, and a small one does not get it.
#[tokio::test]
async fn a_large_value_has_more_time() {
    let (_server, proxy, backend) = behind_a_proxy("operation_timeout_ms=50&max_value_bytes=1000000").await;
    // 20 ms for a million bytes, and 16 pieces of 64 KiB or more that wait for a moment each.
    proxy.set(Mode::Stall);
    let small = timed(backend.set("k", Bytes::from_static(b"v"), SetOptions::default())).await.1;
    let large = timed(backend.set("k", vec![0; 1_000_000].into(), SetOptions::default())).await.1;
    assert!(small >= Duration::from_millis(40) && large >= Duration::from_millis(56), "{small:?} {large:?}");
}

/// Eight tasks read and write while the wire does anything, in an order that the seed decides. A value names its key and
/// its version: none is another key's, and none is one that nobody wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_the_wire_gives_a_wrong_value() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = now.subsec_nanos() ^ std::process::id();
    println!("seed {seed}");
    let (_server, proxy, backend) = behind_a_proxy("operation_timeout_ms=100&open_for_ms=20").await;
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (backend, stop) = (backend.clone(), stop.clone());
            tokio::spawn(async move {
                let (mut read, mut failed) = (0, 0);
                for version in 0_u32.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let key = format!("{task}:{}", version % 3);
                    let padding = "x".repeat(version as usize % 700);
                    failed += u32::from(set(&*backend, &key, &format!("{key}/{version}/{padding}")).await.is_err());
                    let asked = [format!("{task}:{}", version % 2), format!("{task}:2")];
                    let mut found = vec![bounded(backend.get(&asked[0])).await];
                    found.extend(bounded(backend.get_many(&[&asked[0], &asked[1]])).await);
                    for (asked, found) in [&asked[0], &asked[0], &asked[1]].into_iter().zip(found) {
                        match found {
                            Ok(None) => {}
                            Ok(Some(value)) => {
                                read += 1;
                                let value = String::from_utf8(value.to_vec()).unwrap();
                                let parts: Vec<_> = value.split('/').collect();
                                let written: u32 = parts[1].parse().unwrap();
                                assert!(parts[0] == asked && written <= version, "{asked}: {value}");
                                assert_eq!(parts[2].len(), written as usize % 700, "{value}");
                            }
                            Err(_) => failed += 1,
                        }
                    }
                    // So that a server that is left alone is no busy loop.
                    tokio::task::yield_now().await;
                }
                (read, failed)
            })
        })
        .collect();
    let mut random = seed;
    for _ in 0..40 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let number = random >> 16;
        match number % 9 {
            0 => proxy.set(Mode::CutAfter(u64::from(number % 3_000))),
            1 => proxy.set(Mode::Delay(Duration::from_millis(u64::from(number % 120)))),
            2 => proxy.set(Mode::Drip(Duration::from_millis(1))),
            3 => proxy.set(Mode::Freeze),
            4 => proxy.set(Mode::Garbage),
            5 => proxy.set(Mode::Stall),
            6 => proxy.reset_all(),
            _ => proxy.set(Mode::Pass),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    proxy.set(Mode::Pass);
    recovers(&*backend, RECOVERY).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.store(true, Ordering::SeqCst);
    let mut sums = (0, 0);
    for task in tasks {
        let (read, failed) = task.await.unwrap();
        sums = (sums.0 + read, sums.1 + failed);
    }
    println!("{} values were right, {} operations failed", sums.0, sums.1);
    assert!(sums.0 > 100 && sums.1 > 10, "{sums:?}");
}
