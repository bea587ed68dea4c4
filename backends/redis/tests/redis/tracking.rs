//! Reports of what others change.

use crate::{OPERATION, build, factory, get, set};
use cachekit_core::{Backend, BackendFactory, Change, Changes, ErrorKind};
use cachekit_servers::{Mode, Proxy, RedisCluster, RedisServer, SentinelTrio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// In which a change has to be reported on one machine.
const SOON: Duration = Duration::from_millis(100);

async fn next(changes: &mut Changes, within: Duration) -> Change {
    tokio::time::timeout(within, changes.next()).await.expect("a report in time").unwrap()
}

/// The reports up to this key's.
async fn until_key(changes: &mut Changes, key: &str) -> Vec<Change> {
    let mut all = Vec::new();
    loop {
        all.push(next(changes, Duration::from_secs(5)).await);
        if all.last() == Some(&Change::Key(key.to_owned())) {
            return all;
        }
    }
}

fn key(key: &str) -> Change {
    Change::Key(key.to_owned())
}

async fn two(server: &RedisServer) -> (Arc<dyn Backend>, Arc<dyn Backend>) {
    (build(&server.url()).await, build(&server.url()).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_change_is_reported_and_what_this_backend_does_is_not() {
    let server = RedisServer::start();
    let (one, two) = two(&server).await;
    let mut changes = one.track(&["users:", "users@"]).await.unwrap();
    set(&*one, "users:mine", "v").await.unwrap();
    set(&*two, "other:1", "v").await.unwrap();
    let mut slowest = Duration::ZERO;
    for round in 0..20 {
        let start = Instant::now();
        set(&*two, &format!("users:{round}"), "v").await.unwrap();
        assert_eq!(next(&mut changes, OPERATION).await, key(&format!("users:{round}")));
        slowest = slowest.max(start.elapsed());
    }
    println!("the slowest report took {slowest:?}");
    assert!(slowest < SOON, "{slowest:?}");
    two.delete("users:0").await.unwrap();
    assert_eq!(next(&mut changes, OPERATION).await, key("users:0"));
    set(&*two, "users@t:1", "v").await.unwrap();
    assert_eq!(next(&mut changes, OPERATION).await, key("users@t:1"));
    server.cli(&["FLUSHALL"]);
    assert_eq!(next(&mut changes, OPERATION).await, Change::Resumed, "any key may have changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_ends_is_reported() {
    let server = RedisServer::start();
    let (one, two) = two(&server).await;
    let mut changes = one.track(&["k"]).await.unwrap();
    let options = cachekit_core::SetOptions::default().with_ttl(Some(Duration::from_millis(30)));
    two.set("k", "v".into(), options).await.unwrap();
    assert_eq!(next(&mut changes, OPERATION).await, key("k"));
    assert_eq!(next(&mut changes, Duration::from_secs(3)).await, key("k"), "its end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_is_told_and_tracking_comes_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let one = build(&format!("redis://{}", proxy.address())).await;
    let two = build(&server.url()).await;
    let mut changes = one.track(&["k"]).await.unwrap();
    for _ in 0..3 {
        proxy.set(Mode::Refuse);
        proxy.reset_all();
        assert_eq!(next(&mut changes, OPERATION).await, Change::Lost);
        set(&*two, "k:unseen", "v").await.unwrap();
        proxy.set(Mode::Pass);
        assert_eq!(next(&mut changes, Duration::from_secs(3)).await, Change::Resumed);
        set(&*two, "k:seen", "v").await.unwrap();
        assert_eq!(next(&mut changes, OPERATION).await, key("k:seen"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_reports_again() {
    let server = RedisServer::start();
    let (one, two) = two(&server).await;
    let mut changes = one.track(&["k"]).await.unwrap();
    server.restart();
    let start = Instant::now();
    while set(&*two, "k:after", "v").await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut all = vec![next(&mut changes, Duration::from_secs(3)).await];
    while all.last() != Some(&Change::Resumed) {
        all.push(next(&mut changes, Duration::from_secs(3)).await);
    }
    set(&*two, "k:later", "v").await.unwrap();
    until_key(&mut changes, "k:later").await;
}

/// Nothing is sent over the connection, so only a question finds out that it is dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wire_that_freezes_without_traffic_is_noticed() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.address());
    let one = build(&format!("redis://{}", proxy.address())).await;
    let mut changes = one.track(&["k"]).await.unwrap();
    proxy.set(Mode::Freeze);
    let start = Instant::now();
    assert_eq!(next(&mut changes, Duration::from_secs(6)).await, Change::Lost);
    println!("noticed after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(next(&mut changes, Duration::from_secs(3)).await, Change::Resumed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_the_reports() {
    let server = RedisServer::start();
    let (one, _) = two(&server).await;
    let mut changes = one.track(&["k"]).await.unwrap();
    one.close().await.unwrap();
    let ended = async {
        loop {
            if let Err(error) = changes.next().await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(Duration::from_secs(3), ended).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_may_track_and_prefixes_do_not_overlap() {
    let server = RedisServer::start();
    let (one, two) = two(&server).await;
    let mut first = one.track(&["a:", "b:"]).await.unwrap();
    let mut second = one.track(&["a:", "c:"]).await.unwrap();
    for name in ["a:1", "c:1", "b:1"] {
        set(&*two, name, "v").await.unwrap();
    }
    assert_eq!(until_key(&mut first, "b:1").await, [key("a:1"), key("b:1")]);
    assert_eq!(until_key(&mut second, "c:1").await, [key("a:1"), key("c:1")]);
    assert_eq!(one.track(&["a"]).await.unwrap_err().kind(), ErrorKind::ConfigInvalid);
    assert_eq!(one.track(&["d", "d:"]).await.unwrap_err().kind(), ErrorKind::ConfigInvalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_longer_prefix_that_nobody_tracks_any_more_is_in_nobodys_way() {
    let server = RedisServer::start();
    let (one, two) = two(&server).await;
    drop(one.track(&["ab"]).await.unwrap());
    let start = Instant::now();
    let mut changes = loop {
        match one.track(&["a"]).await {
            Ok(changes) => break changes,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
        assert!(start.elapsed() < Duration::from_secs(3));
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    set(&*two, "a1", "v").await.unwrap();
    until_key(&mut changes, "a1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_report_says_so() {
    let server = RedisServer::start();
    let old = build(&format!("{}?protocol=2", server.url())).await;
    assert!(!old.capabilities().track());
    assert_eq!(old.track(&["k"]).await.unwrap_err().kind(), ErrorKind::Unsupported);

    // A server that knows RESP2 only: the driver falls back to it.
    let fallback = RedisServer::builder().arg("--rename-command").arg("HELLO").arg("").start();
    let fallback = build(&fallback.url()).await;
    let error = fallback.track(&["k"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
    assert!(error.context().contains("RESP3"), "{error}");

    let cluster = RedisCluster::start();
    let cluster = build(&cluster.url()).await;
    assert!(!cluster.capabilities().track());
    assert_eq!(cluster.track(&["k"]).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failover_the_new_master_reports() {
    let trio = SentinelTrio::start();
    let one = factory(&trio.url()).build().await.unwrap();
    let mut changes = one.track(&["k"]).await.unwrap();
    trio.master().kill();
    assert_eq!(next(&mut changes, Duration::from_secs(5)).await, Change::Lost);
    assert_eq!(next(&mut changes, Duration::from_secs(15)).await, Change::Resumed);
    let two = factory(&trio.url()).build().await.unwrap();
    set(&*two, "k", "v").await.unwrap();
    until_key(&mut changes, "k").await;
    assert_eq!(get(&*one, "k").await.unwrap().as_deref(), Some("v"));
}
