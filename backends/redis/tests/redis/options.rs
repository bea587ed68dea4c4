//! Every option has an effect. `ca`, `client_cert`, `client_key` and `tls` are in `tls`, the two of sentinels in
//! `failover`, `nodelay` and `user_timeout_ms` beside the code that hands them to the driver.

use super::*;
use cachekit_core::{ErrorKind, Registry};
use cachekit_servers::{Mode, Proxy, RedisServer};

#[tokio::test]
async fn client_info() {
    for (option, refused) in [("true", true), ("false", false)] {
        // This server does not know the command, and counts its errors.
        let server = RedisServer::start();
        server.cli(&["CONFIG", "RESETSTAT"]);
        build(&format!("{}?client_info={option}", server.url())).await;
        assert_eq!(server.cli(&["INFO", "errorstats"]).contains("errorstat_ERR"), refused, "{option}");
    }
}

#[tokio::test]
async fn connect_timeout_ms() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    proxy.set(Mode::Stall);
    for limit in [100, 600] {
        let url = format!("redis://{}?connect_timeout_ms={limit}", proxy.address());
        let (outcome, took) = timed(try_build(&url)).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
        let limit = Duration::from_millis(limit);
        assert!(took >= limit && took < limit + GRACE, "{took:?}");
    }
}

#[tokio::test]
async fn db() {
    let server = RedisServer::builder().unix().start();
    set(&*build(&format!("{}?db=5", server.url())).await, "k", "five").await.unwrap();
    assert_eq!(server.cli(&["-n", "5", "GET", "k"]), "five");
}

#[tokio::test]
async fn down_wait_ms() {
    let server = RedisServer::start();
    let (short, long) = (
        build(&format!("{}?down_wait_ms=0", server.url())).await,
        build(&format!("{}?down_wait_ms=300", server.url())).await,
    );
    server.kill();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (_, took) = timed(get(&*short, "k")).await;
    assert!(took < Duration::from_millis(150), "{took:?}");
    let (_, took) = timed(get(&*long, "k")).await;
    assert!(took >= Duration::from_millis(300), "{took:?}");
}

/// What the kernel says about the timers of the client's sockets to a port: `2` is that of keepalive.
fn timers(port: u16) -> Vec<(String, u64)> {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // The third column is the peer, the fourth the state (1: established), the sixth the timer and when it goes off.
    let ours = rows.filter(|row| row.len() > 5 && row[2].ends_with(&remote) && row[3] == "01");
    ours.map(|row| {
        let (kind, when) = row[5].split_once(':').unwrap();
        (kind.to_owned(), u64::from_str_radix(when, 16).unwrap())
    })
    .collect()
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn keepalive_ms() {
    for (milliseconds, ticks) in [("0", None), ("100000", Some(10_000)), ("7000", Some(700))] {
        let server = RedisServer::start();
        let _backend = build(&format!("{}?keepalive_ms={milliseconds}", server.url())).await;
        // Until what was sent is acknowledged, another timer runs.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let timers = timers(server.port());
        assert_eq!(timers.len(), 1, "{timers:?}");
        match ticks {
            None => assert_eq!(timers[0].0, "00", "{timers:?}"),
            Some(ticks) => {
                assert_eq!(timers[0].0, "02", "{timers:?}");
                assert!(timers[0].1 <= ticks && timers[0].1 > ticks - 100, "{timers:?}");
            }
        }
    }
}

#[tokio::test]
async fn max_value_bytes() {
    let server = RedisServer::start();
    let backend = build(&format!("{}?max_value_bytes=4", server.url())).await;
    assert_eq!(backend.capabilities().max_value_bytes(), 4);
    set(&*backend, "k", "1234").await.unwrap();
    assert_eq!(set(&*backend, "k", "12345").await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("1234"));
}

#[tokio::test]
async fn u062_operation_timeout_ms() {
    let server = RedisServer::start();
    for limit in [100, 1_000] {
        let backend = build(&format!("{}?operation_timeout_ms={limit}", server.url())).await;
        server.pause();
        let (outcome, took) = timed(get(&*backend, "k")).await;
        server.resume();
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
        let expected = Duration::from_millis(limit * 8 / 10);
        assert!(took >= expected && took < expected + GRACE / 2, "{took:?}");
    }
}

#[tokio::test]
async fn protocol() {
    let server = RedisServer::start();
    for protocol in ["2", "3"] {
        let _backend = build(&format!("{}?protocol={protocol}", server.url())).await;
        let clients = server.cli(&["CLIENT", "LIST"]);
        let ours = |line: &str| !line.contains("cmd=client|list") && line.contains(&format!(" resp={protocol}"));
        assert!(clients.lines().any(ours), "{clients}");
    }
}

#[test]
fn every_scheme_is_registered_once() {
    let mut registry = Registry::new();
    cachekit_redis::register(&mut registry).unwrap();
    let schemes: Vec<_> = registry.schemes().collect();
    assert_eq!(schemes, ["redis", "redis+cluster", "redis+sentinel", "redis+unix", "rediss"]);
    let error = registry.factory("redis://:canary@h?databse=1").unwrap_err();
    assert!(error.context().contains("no option `databse`") && !format!("{error:?}").contains("canary"), "{error}");
    assert!(cachekit_redis::register(&mut registry).is_err());
    let factory = registry.factory("redis://:canary@h").unwrap();
    assert!(factory.name() == "redis" && !format!("{factory:?}").contains("canary"));
}
