//! The wire is cut, frozen or noisy, and the server is well.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::{Mode, Proxy, RedisServer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

async fn behind_a_proxy(options: &str) -> (RedisServer, Proxy, Arc<dyn Backend>) {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let backend = build(&format!("redis://{}?{options}", proxy.address())).await;
    (server, proxy, backend)
}

#[tokio::test]
async fn a_frozen_connection_is_replaced_after_three_timeouts() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    set(&*backend, "k", "v").await.unwrap();
    proxy.set(Mode::Freeze);
    let start = Instant::now();
    for _ in 0..3 {
        assert_eq!(bounded(get(&*backend, "k")).await.unwrap_err().kind(), ErrorKind::Timeout);
    }
    recovers(&*backend, RECOVERY).await;
    println!("a frozen connection was replaced after {:?}", start.elapsed());
    assert_eq!(proxy.accepted(), 2, "by one");
    assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("v"));
}

/// A cache whose own timeout is shorter than the driver's drops every call before the driver notices.
#[tokio::test]
async fn operations_that_are_dropped_late_count_as_timeouts() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    proxy.set(Mode::Freeze);
    for _ in 0..3 {
        assert!(tokio::time::timeout(OPERATION / 2, get(&*backend, "k")).await.is_err());
    }
    recovers(&*backend, RECOVERY).await;
}

/// However soon its callers give up, a connection that answers nothing at all is found out.
#[tokio::test]
async fn operations_that_are_dropped_early_count_once_nothing_was_answered_for_long() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    proxy.set(Mode::Freeze);
    let start = Instant::now();
    while tokio::time::timeout(Duration::from_millis(100), set(&*backend, "k", "v")).await.is_err() {
        assert!(start.elapsed() < RECOVERY + GRACE, "the frozen connection is not replaced");
    }
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn operations_that_are_dropped_early_replace_nothing() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    proxy.set(Mode::Delay(Duration::from_millis(100)));
    for _ in 0..10 {
        assert!(tokio::time::timeout(Duration::from_millis(20), get(&*backend, "k")).await.is_err());
    }
    proxy.set(Mode::Pass);
    recovers(&*backend, RECOVERY).await;
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn a_reply_that_is_cut_is_an_error_and_never_a_part_of_a_value() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    let value = "0123456789".repeat(20);
    set(&*backend, "k", &value).await.unwrap();
    // In the head of the reply, in the value, before its line end; and within a handshake.
    for bytes in [1, 3, 6, 50, 150, 206, 207, 400] {
        proxy.set(Mode::CutAfter(bytes));
        for _ in 0..4 {
            match bounded(get(&*backend, "k")).await {
                Ok(found) => assert_eq!(found.as_deref(), Some(&*value)),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Protocol), "{error}");
                }
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
    assert!(server.cli(&["INFO", "commandstats"]).contains("cmdstat_set:calls=1,"));
}

#[tokio::test]
async fn u064_a_read_whose_connection_ends_is_sent_once_more() {
    for options in ["protocol=3", "protocol=2"] {
        let (_server, proxy, backend) = behind_a_proxy(options).await;
        set(&*backend, "k", "v").await.unwrap();
        for _ in 0..4 {
            // A connection that ends young is replaced more slowly.
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            proxy.reset_all();
            assert_eq!(bounded(get(&*backend, "k")).await.unwrap().as_deref(), Some("v"));
        }
    }
}

#[tokio::test]
async fn noise_is_a_protocol_error() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    set(&*backend, "k", "v").await.unwrap();
    proxy.set(Mode::Garbage);
    let error = bounded(set(&*backend, "k", "w")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Protocol && error.may_be_applied(), "{error}");
    let kind = bounded(get(&*backend, "k")).await.unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::Protocol | ErrorKind::Unavailable), "{kind}");
    let kind = try_build(&format!("redis://{}", proxy.address())).await.unwrap_err().kind();
    assert_eq!(kind, ErrorKind::Protocol, "at the start");
    proxy.set(Mode::Pass);
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn a_wire_that_is_refused_and_opened_again() {
    let (_server, proxy, backend) = behind_a_proxy("").await;
    proxy.set(Mode::Refuse);
    proxy.reset_all();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..5 {
        assert_eq!(bounded(get(&*backend, "k")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    proxy.set(Mode::Pass);
    recovers(&*backend, RECOVERY).await;
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

/// Eight tasks read and write while the wire does anything, in an order that the seed decides. A value names its key and
/// its version: none is another key's, and none is one that nobody wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_the_wire_gives_a_wrong_value() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = now.subsec_nanos() ^ std::process::id();
    println!("seed {seed}");
    let (_server, proxy, backend) = behind_a_proxy("operation_timeout_ms=100").await;
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
                    let asked = format!("{task}:{}", version % 2);
                    match bounded(backend.get(&asked)).await {
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
