//! Several servers: who has which key, and what the death of one costs.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::Memcached;

fn three() -> [Memcached; 3] {
    [(); 3].map(|()| Memcached::start())
}

fn url(servers: &[&Memcached]) -> String {
    let addresses: Vec<String> = servers.iter().map(|server| server.address()).collect();
    format!("memcache://{}", addresses.join(","))
}

/// A key that this server has, and none of the others.
async fn key_on(backend: &dyn Backend, server: &Memcached) -> String {
    for number in 0.. {
        let key = format!("key:{number}");
        set(backend, &key, "v").await.unwrap();
        if server.ask(&format!("mg {key} s")).starts_with("HD") {
            return key;
        }
    }
    panic!("numbers do not end")
}

fn items(server: &Memcached) -> usize {
    let stats = server.ask("stats");
    let line = stats.lines().find_map(|line| line.strip_prefix("STAT curr_items ")).unwrap();
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn keys_are_spread_and_the_order_of_the_servers_does_not_matter() {
    let servers = three();
    let [a, b, c] = &servers;
    let (one, other) = (build(&url(&[a, b, c])).await, build(&url(&[c, a, b])).await);
    for number in 0..300 {
        set(&*one, &format!("k{number}"), &number.to_string()).await.unwrap();
    }
    for number in 0..300 {
        assert_eq!(get(&*other, &format!("k{number}")).await.unwrap(), Some(number.to_string()));
    }
    assert!(servers.iter().all(|server| items(server) > 30), "{:?}", servers.each_ref().map(items));
}

#[tokio::test]
async fn without_a_server_its_keys_move_and_no_others() {
    let servers = three();
    let [a, b, c] = &servers;
    let all = build(&url(&[a, b, c])).await;
    for number in 0..300 {
        set(&*all, &format!("k{number}"), "v").await.unwrap();
    }
    let gone = items(b);
    let two = build(&url(&[a, c])).await;
    let mut missed = 0;
    for number in 0..300 {
        missed += usize::from(get(&*two, &format!("k{number}")).await.unwrap().is_none());
    }
    assert_eq!(missed, gone);
}

#[tokio::test]
async fn a_dead_server_costs_its_keys_only_and_nothing_moves() {
    let servers = three();
    let backend = build(&url(&servers.each_ref())).await;
    let keys = [
        key_on(&*backend, &servers[0]).await,
        key_on(&*backend, &servers[1]).await,
        key_on(&*backend, &servers[2]).await,
    ];
    servers[1].kill();
    for _ in 0..10 {
        assert_eq!(bounded(get(&*backend, &keys[0])).await.unwrap().as_deref(), Some("v"));
        let (outcome, took) = timed(set(&*backend, &keys[1], "lost")).await;
        let error = outcome.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && error.context().contains(&servers[1].address()), "{error}");
        assert!(took < GRACE / 2, "{took:?}");
        assert_eq!(bounded(get(&*backend, &keys[2])).await.unwrap().as_deref(), Some("v"));
        let found = bounded(backend.get_many(&[&keys[0], &keys[1], &keys[2]])).await;
        assert!(found[0].as_ref().unwrap().is_some() && found[1].is_err() && found[2].as_ref().unwrap().is_some());
    }
    let health = backend.health().await.unwrap();
    for server in &servers {
        let (_, state) = health.details.iter().find(|(name, _)| *name == server.address()).unwrap();
        assert_eq!(state != "up", server.address() == servers[1].address(), "{health:?}");
    }
    servers[1].restart();
    let back = Instant::now();
    while bounded(get(&*backend, &keys[1])).await.is_err() {
        assert!(back.elapsed() < RECOVERY + GRACE, "still down");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(get(&*backend, &keys[1]).await.unwrap(), None, "no other server had it");
}

#[tokio::test]
async fn a_server_that_hangs_costs_its_keys_of_a_batch_only() {
    let servers = three();
    let backend = build(&url(&servers.each_ref())).await;
    let keys: Vec<String> = (0..60).map(|number| format!("k{number}")).collect();
    let entries: Vec<(&str, Bytes)> = keys.iter().map(|key| (key.as_str(), Bytes::from(key.clone()))).collect();
    for result in backend.set_many(&entries, SetOptions::default()).await {
        result.unwrap();
    }
    let lost = items(&servers[2]);
    servers[2].pause();
    let asked: Vec<&str> = keys.iter().map(String::as_str).collect();
    let found = bounded(backend.get_many(&asked)).await;
    let mut failed = 0;
    for (key, result) in keys.iter().zip(found) {
        match result {
            Ok(value) => assert_eq!(value.as_deref(), Some(key.as_bytes())),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
                failed += 1;
            }
        }
    }
    assert_eq!(failed, lost);
    let deleted = bounded(backend.delete_many(&asked)).await;
    assert_eq!(deleted.iter().filter(|result| matches!(result, Ok(true))).count(), keys.len() - lost);
    assert!(deleted.iter().flat_map(|result| result.as_ref().err()).all(|error| error.may_be_applied()));
}

#[tokio::test]
async fn one_server_that_answers_is_enough_to_build() {
    let servers = three();
    let backend = build(&url(&servers.each_ref())).await;
    let keys = [key_on(&*backend, &servers[0]).await, key_on(&*backend, &servers[1]).await];
    drop(backend);
    servers[0].kill();
    servers[2].pause();
    let (backend, took) = timed(build(&url(&servers.each_ref()))).await;
    assert!(took < OPERATION + GRACE, "{took:?}");
    assert!(bounded(get(&*backend, &keys[0])).await.is_err());
    assert_eq!(bounded(get(&*backend, &keys[1])).await.unwrap().as_deref(), Some("v"));
    servers[0].restart();
    let back = Instant::now();
    while bounded(get(&*backend, &keys[0])).await.is_err() {
        assert!(back.elapsed() < RECOVERY + GRACE, "still down");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(backend);
    servers[0].kill();
    servers[1].kill();
    let (outcome, took) = timed(try_build(&url(&servers.each_ref()))).await;
    let error = outcome.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.is_temporary(), "{error}");
    assert!(took < OPERATION + GRACE, "{took:?}");
}

#[tokio::test]
async fn batches_of_any_size() {
    let servers = three();
    let backend = build(&format!("{}?operation_timeout_ms=5000", url(&servers.each_ref()))).await;
    let keys: Vec<String> = (0..4_000).map(|number| format!("k{number}")).collect();
    let entries: Vec<(&str, Bytes)> =
        keys.iter().map(|key| (key.as_str(), Bytes::from(format!("{key}:{}", "x".repeat(4_000))))).collect();
    for result in backend.set_many(&entries, SetOptions::default().with_ttl(Some(Duration::from_secs(60)))).await {
        result.unwrap();
    }
    let mut asked: Vec<&str> = keys.iter().map(String::as_str).collect();
    asked.insert(1_500, "");
    asked.insert(700, "missing");
    asked.insert(300, "k5");
    let found = backend.get_many(&asked).await;
    assert_eq!(found.len(), asked.len());
    for (key, result) in asked.iter().zip(found) {
        match (*key, result) {
            ("", result) => assert_eq!(result.unwrap_err().kind(), ErrorKind::KeyInvalid),
            ("missing", result) => assert_eq!(result.unwrap(), None),
            (key, result) => assert!(result.unwrap().unwrap().starts_with(format!("{key}:").as_bytes())),
        }
    }
    let deleted = backend.delete_many(&asked).await;
    assert_eq!(deleted.iter().filter(|result| matches!(result, Ok(true))).count(), 4_000);
    assert!(servers.iter().all(|server| items(server) == 0));
    assert!(backend.get_many(&[]).await.is_empty());
}
