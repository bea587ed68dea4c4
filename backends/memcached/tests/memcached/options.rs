//! Every option has an effect. `resolve_every_ms` is beside the code that resolves, where names can be made to change.

use super::*;
use cachekit_core::{ErrorKind, Registry};
use cachekit_servers::{Memcached, Mode, Proxy};

#[tokio::test]
async fn connect_timeout_ms() {
    let server = Memcached::start();
    let proxy = Proxy::start(server.address());
    proxy.set(Mode::Stall);
    for limit in [100, 1_200] {
        let url = format!("memcache://{}?connect_timeout_ms={limit}", proxy.address());
        let (outcome, took) = timed(try_build(&url)).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
        let limit = Duration::from_millis(limit);
        assert!(took >= limit && took < limit + GRACE, "{took:?}");
    }
}

#[tokio::test]
async fn max_connections() {
    let server = Memcached::start();
    let proxy = Proxy::start(server.address());
    proxy.set(Mode::Delay(Duration::from_millis(20)));
    for most in [2, 12] {
        let url = format!("memcache://{}?max_connections={most}&operation_timeout_ms=5000", proxy.address());
        let backend = build(&url).await;
        let tasks: Vec<_> = (0..16)
            .map(|number| {
                let backend = backend.clone();
                tokio::spawn(async move { set(&*backend, &number.to_string(), "v").await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(proxy.open(), most, "all are kept");
        drop(backend);
    }
    // Who gets none in most of his time is told so, and it says nothing about the server.
    let backend =
        build(&format!("memcache://{}?max_connections=1&open_after=1&operation_timeout_ms=2000", proxy.address()))
            .await;
    proxy.set(Mode::Delay(Duration::from_millis(650)));
    let first = {
        let backend = backend.clone();
        tokio::spawn(async move { set(&*backend, "k", "v").await })
    };
    tokio::time::sleep(Duration::from_millis(10)).await;
    let (outcome, took) = timed(set(&*backend, "k", "w")).await;
    let error = outcome.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.context().contains("all 1 connections"), "{error}");
    assert!(!error.may_be_applied() && took >= Duration::from_millis(1_190), "{took:?}");
    first.await.unwrap().unwrap();
    proxy.set(Mode::Pass);
    set(&*backend, "k", "x").await.unwrap();
}

#[tokio::test]
async fn max_idle_age_ms() {
    let server = Memcached::start();
    let proxy = Proxy::start(server.address());
    for (age, dials) in [(60_000, 0), (20, 3)] {
        let backend = build(&format!("memcache://{}?max_idle_age_ms={age}", proxy.address())).await;
        set(&*backend, "k", "v").await.unwrap();
        let before = proxy.accepted();
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(40)).await;
            get(&*backend, "k").await.unwrap();
        }
        assert_eq!(proxy.accepted() - before, dials, "{age} ms");
    }
}

#[tokio::test]
async fn max_value_bytes() {
    let server = Memcached::start();
    let backend = build(&format!("{}?max_value_bytes=4", server.url())).await;
    assert_eq!(backend.capabilities().max_value_bytes(), 4);
    set(&*backend, "k", "1234").await.unwrap();
    assert_eq!(set(&*backend, "k", "12345").await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(build(&server.url()).await.capabilities().max_value_bytes(), (1 << 20) - 762);
}

#[tokio::test]
async fn open_after() {
    for limit in [1, 5] {
        let server = Memcached::start();
        let backend = build(&format!("{}?open_after={limit}&open_for_ms=60000", server.url())).await;
        server.kill();
        for number in 1..10 {
            let error = get(&*backend, "k").await.unwrap_err();
            assert_eq!(error.context().contains("left alone"), number > limit, "{number}: {error}");
        }
    }
}

#[tokio::test]
async fn open_for_ms() {
    let server = Memcached::start();
    for limit in [100, 700] {
        let backend = build(&format!("{}?open_after=1&open_for_ms={limit}", server.url())).await;
        server.kill();
        let start = Instant::now();
        get(&*backend, "k").await.unwrap_err();
        server.restart();
        let mut tries = 0;
        while get(&*backend, "k").await.is_err() {
            tries += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (took, limit) = (start.elapsed(), Duration::from_millis(limit));
        assert!(tries > 0 && took >= limit && took < limit + GRACE, "{took:?}");
    }
}

#[tokio::test]
async fn operation_timeout_ms() {
    let server = Memcached::start();
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

#[test]
fn the_scheme_is_registered_once() {
    let mut registry = Registry::new();
    cachekit_memcached::register(&mut registry).unwrap();
    assert_eq!(registry.schemes().collect::<Vec<_>>(), ["memcache"]);
    let error = registry.factory("memcache://h?max_conections=1").unwrap_err();
    assert!(error.context().contains("no option `max_conections`: the nearest is `max_connections`"), "{error}");
    assert!(cachekit_memcached::register(&mut registry).is_err());
    assert_eq!(registry.factory("memcache://a,b:1").unwrap().name(), "memcached");
}
