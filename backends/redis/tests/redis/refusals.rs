//! The server is there, and refuses.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::RedisServer;

#[tokio::test]
async fn a_wrong_password_then_the_right_one() {
    let server = RedisServer::builder().password("right-canary").start();
    let wrong = format!("redis://:wrong-canary@{}", server.address());
    for url in [wrong.clone(), format!("{wrong}?protocol=2"), format!("redis://{}", server.address())] {
        let (outcome, took) = timed(try_build(&url)).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthenticationFailed, "{error}");
        assert!(!error.is_temporary() && took < GRACE, "{took:?}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
    recovers(&*build(&server.url()).await, RECOVERY).await;
}

#[tokio::test]
async fn a_password_that_is_rotated_and_rotated_back() {
    let server = RedisServer::builder().password("old").start();
    let backend = build(&server.url()).await;
    assert_eq!(server.cli(&["CONFIG", "SET", "requirepass", "new"]), "OK");
    recovers(&*backend, GRACE).await;
    let as_new = |arguments: &[&str]| {
        let mut all = vec!["--no-auth-warning", "-a", "new"];
        all.extend(arguments);
        server.cli(&all)
    };
    as_new(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..3 {
        let (outcome, took) = timed(set(&*backend, "k", "v")).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthenticationFailed, "{error}");
        assert!(!error.may_be_applied() && took < GRACE, "at once: {took:?}");
    }
    assert_eq!(as_new(&["CONFIG", "SET", "requirepass", "old"]), "OK");
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn a_server_without_memory_refuses_writes_and_answers_reads() {
    let server = RedisServer::start();
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let error = bounded(set(&*backend, "k", "w")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::OutOfSpace && !error.may_be_applied(), "{error}");
    let error = bounded(backend.try_lock("k", Duration::from_secs(1))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    let results = bounded(backend.set_many(&[("a", Bytes::new()), ("b", Bytes::new())], SetOptions::default())).await;
    assert!(results.iter().all(|result| result.as_ref().unwrap_err().kind() == ErrorKind::OutOfSpace));
    assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("v"));
    assert!(backend.delete("k").await.unwrap());
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    recovers(&*backend, GRACE).await;
}

#[tokio::test]
async fn a_read_only_replica_answers_reads_and_becomes_a_master() {
    let (master, server) = (RedisServer::start(), RedisServer::start());
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]), "OK");
    for _ in 0..5 {
        let error = bounded(set(&*backend, "k", "w")).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Unavailable), "{error}");
        assert!(!error.may_be_applied());
    }
    assert_eq!(bounded(set(&*backend, "k", "w")).await.unwrap_err().kind(), ErrorKind::ReadOnly);
    assert!(bounded(get(&*backend, "k")).await.is_ok());
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn a_server_that_loads_its_data() {
    let server = RedisServer::builder()
        .args(["--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"])
        .start();
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    assert_eq!(server.cli(&["DEBUG", "POPULATE", "2500"]), "OK");
    server.save_and_restart_unready();
    assert!(server.cli(&["PING"]).contains("LOADING"), "it has to load for longer");
    let error = try_build(&server.url()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Overloaded && error.is_temporary(), "{error}");
    let mut seen = false;
    while !seen {
        let error = bounded(get(&*backend, "k")).await.unwrap_err();
        seen = error.kind() == ErrorKind::Overloaded;
        assert!(seen || error.kind() == ErrorKind::Unavailable, "{error}");
    }
    server.wait_for(&["PING"], |answer| answer == "PONG");
    recovers(&*backend, RECOVERY).await;
    assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("v"));
}

#[tokio::test]
async fn a_server_that_has_its_most_clients() {
    let server = RedisServer::builder().args(["--maxclients", "2"]).start();
    let backends = [build(&server.url()).await, build(&server.url()).await];
    for _ in 0..20 {
        let error = try_build(&server.url()).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Overloaded && error.is_temporary(), "{error}");
    }
    recovers(&*backends[0], GRACE).await;
    drop(backends);
    tokio::time::sleep(Duration::from_millis(100)).await;
    recovers(&*build(&server.url()).await, GRACE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_with_a_script() {
    let server = Arc::new(RedisServer::builder().args(["--busy-reply-threshold", "50"]).start());
    let backend = build(&server.url()).await;
    let busy = server.clone();
    let script = tokio::task::spawn_blocking(move || busy.cli(&["EVAL", "while true do end", "0"]));
    server.wait_for(&["PING"], |answer| answer.contains("BUSY"));
    let error = bounded(get(&*backend, "k")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Overloaded && error.is_temporary(), "{error}");
    assert_eq!(server.cli(&["SCRIPT", "KILL"]), "OK");
    script.await.unwrap();
    recovers(&*backend, GRACE).await;
}
