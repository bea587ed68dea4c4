//! What the kit cannot ask for on any backend: large batches, fences that outlive a restart, who does what on the server.

use super::*;
use cachekit_core::{ErrorKind, TtlState};
use cachekit_servers::RedisServer;

#[tokio::test]
async fn batches_of_any_size() {
    let server = RedisServer::start();
    let backend = build(&format!("{}?operation_timeout_ms=5000", server.url())).await;
    let keys: Vec<String> = (0..2_500).map(|number| format!("k{number}")).collect();
    let entries: Vec<(&str, Bytes)> =
        keys.iter().map(|key| (key.as_str(), Bytes::from(format!("{key}:{}", "x".repeat(2_000))))).collect();
    for result in backend.set_many(&entries, SetOptions::default().with_ttl(Some(Duration::from_secs(60)))).await {
        result.unwrap();
    }
    assert!(matches!(backend.ttl("k2499").await.unwrap(), TtlState::Remaining(left) if left.as_secs() >= 50));
    let mut asked: Vec<&str> = keys.iter().map(String::as_str).collect();
    asked.insert(1_500, "");
    asked.insert(700, "missing");
    let found = backend.get_many(&asked).await;
    for (key, result) in asked.iter().zip(found) {
        match (*key, result) {
            ("", result) => assert_eq!(result.unwrap_err().kind(), ErrorKind::KeyInvalid),
            ("missing", result) => assert_eq!(result.unwrap(), None),
            (key, result) => assert!(result.unwrap().unwrap().starts_with(format!("{key}:").as_bytes())),
        }
    }
    let deleted = backend.delete_many(&asked).await;
    assert_eq!(deleted.iter().filter(|result| matches!(result, Ok(true))).count(), 2_500);
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    let calls = server.cli(&["INFO", "commandstats"]);
    assert!(calls.contains("cmdstat_mget:calls=3,") && !calls.contains("cmdstat_del:"), "{calls}");
}

#[tokio::test]
async fn one_entry_that_is_refused_is_refused_alone() {
    let server = RedisServer::start();
    let backend = build(&format!("{}?max_value_bytes=3", server.url())).await;
    let value = Bytes::from_static;
    let entries = [("a", value(b"1")), ("", value(b"2")), ("b", value(b"1234")), ("a", value(b"3"))];
    let results = backend.set_many(&entries, SetOptions::default()).await;
    let kinds: Vec<_> = results.into_iter().map(|result| result.err().map(|error| error.kind())).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::KeyInvalid), Some(ErrorKind::TooLarge), None]);
    assert_eq!(get(&*backend, "a").await.unwrap().as_deref(), Some("3"));
}

#[tokio::test]
async fn clear_goes_through_many_pages() {
    let server = RedisServer::start();
    let backend = build(&server.url()).await;
    server.cli(&["DEBUG", "POPULATE", "20000", "gone"]);
    server.cli(&["DEBUG", "POPULATE", "100", "gon"]);
    let ((), took) = timed(async { backend.clear("gone:").await.unwrap() }).await;
    println!("20,000 keys were cleared in {took:?}");
    assert_eq!(server.cli(&["DBSIZE"]), "100");
}

#[tokio::test]
async fn fences_grow_over_a_restart_that_forgets_everything() {
    let server = RedisServer::start();
    let backend = build(&server.url()).await;
    let second = Duration::from_secs(1);
    let mut last = 0;
    for _ in 0..3 {
        for _ in 0..50 {
            let token = backend.try_lock("k", second).await.unwrap().unwrap();
            assert!(token.fence().unwrap() > last);
            last = token.fence().unwrap();
            assert!(backend.unlock(&token).await.unwrap());
        }
        server.restart();
        recovers(&*backend, RECOVERY).await;
    }
    // A fence that is ahead of the clock is counted on.
    server.cli(&["SET", "{k}:fence", "9007199254740000"]);
    let token = backend.try_lock("k", second).await.unwrap().unwrap();
    assert_eq!(token.fence(), Some(9_007_199_254_740_001));
    let ttl: i64 = server.cli(&["PTTL", "{k}:fence"]).parse().unwrap();
    assert!(ttl > 29 * 86_400_000, "fences end: {ttl}");
}

#[tokio::test]
async fn a_lock_that_timed_out_is_released_when_the_server_goes_on() {
    let server = RedisServer::start();
    let backend = build(&server.url()).await;
    server.pause();
    let error = bounded(backend.try_lock("k", Duration::from_secs(60))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && error.may_be_applied(), "{error}");
    server.resume();
    let end = Instant::now() + RECOVERY;
    while backend.try_lock("k", Duration::from_secs(60)).await.unwrap().is_none() {
        assert!(Instant::now() < end, "the lock is held by nobody");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_largest_value_of_the_defaults_goes_through() {
    let server = RedisServer::start();
    let backend = build(&server.url()).await;
    let value = Bytes::from(vec![7; 32 << 20]);
    backend.set("k", value.clone(), SetOptions::default()).await.unwrap();
    assert_eq!(server.cli(&["STRLEN", "k"]), (32 << 20).to_string());
    let error = backend.set("k", vec![7; (32 << 20) + 1].into(), SetOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let factory = factory("redis://127.0.0.1:1");
    let mut build = factory.build();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match build.as_mut().poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{error}"),
        outcome => panic!("{:?}", outcome.is_pending()),
    }
}
