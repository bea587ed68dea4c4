//! A cache over a real Redis, on a day on which it dies and comes back.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::secure::{Keyring, MasterKey, Secure, SecureExt};
use cachekit::{Cache, CacheBuilder, Reason, Source, registry};
use cachekit_servers::RedisServer;
use std::time::{Duration, Instant};
use support::Runs;

fn over(server: &RedisServer, set_up: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Cache {
    let factory = registry().factory(&server.url()).unwrap();
    set_up(Cache::builder("n").backend(factory)).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_it_and_a_dead_server_costs_no_value() {
    let server = RedisServer::builder().start();
    let (one, two) = (over(&server, |b| b), over(&server, |b| b));
    let _ = one.set("k", "value".to_owned()).await.unwrap();
    let fetched = two.fetch("k", || Runs::new().give_owned(String::new())).await.unwrap();
    assert_eq!((fetched.value.as_str(), fetched.source), ("value", Source::L2));
    two.clear().await.unwrap();
    assert_eq!(over(&server, |b| b).get::<String>("k").await.unwrap(), None);

    server.kill();
    let start = Instant::now();
    let fetched = two.fetch("down", || Runs::new().give_owned("computed".to_owned())).await.unwrap();
    assert_eq!((fetched.value.as_str(), fetched.source), ("computed", Source::Computed));
    assert!(matches!(fetched.degraded, Some(Reason::ReadError | Reason::ReadTimeout)), "{:?}", fetched.degraded);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(two.get::<String>("down").await.unwrap().as_deref(), Some("computed"), "from L1");

    server.restart();
    let back = Instant::now();
    while over(&server, |b| b).get::<String>("again").await.unwrap().is_none() {
        assert!(back.elapsed() < Duration::from_secs(10), "no write reached the server: {:?}", two.health());
        let _ = two.set("again", "value".to_owned()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u068_a_server_that_is_down_at_the_start_is_used_once_it_is_there() {
    let server = RedisServer::builder().start();
    let cache = over(&server, |builder| builder);
    server.kill();
    let runs = Runs::new();
    for i in 0..7 {
        assert_eq!(cache.get_or_compute(&i.to_string(), || runs.give(i)).await.unwrap(), i);
    }
    assert_eq!((runs.count(), cache.breaker().state().as_str()), (7, "OPEN"));
    server.restart();
    cache.breaker().force_close();
    assert_eq!(cache.get_or_compute("k", || runs.give(7)).await.unwrap(), 7);
    assert_eq!(over(&server, |builder| builder).get::<i32>("k").await.unwrap(), Some(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_secure_cache_leaves_on_the_server_is_ciphertext() {
    let server = RedisServer::builder().start();
    let secure = || Secure::new(Keyring::new(MasterKey::from_bytes([7; 32])));
    let cache = over(&server, |builder| builder.secure(secure()));
    let _ = cache.set("k", "needle".to_owned()).await.unwrap();
    let dump = server.cli(&["GET", "n:k"]);
    assert!(dump.contains('S') && !dump.contains("needle"), "{dump}");
    let other = over(&server, |builder| builder.secure(secure()));
    assert_eq!(other.get::<String>("k").await.unwrap().as_deref(), Some("needle"));
}
