//! What the kit cannot ask for on any backend: names of keys, what a look leaves alone, who does what on the server.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::Memcached;

#[tokio::test]
async fn keys_that_memcached_does_not_take_are_stored_under_their_digests() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    set(&*backend, "users:42", "plain").await.unwrap();
    assert_eq!(server.ask("get users:42"), "VALUE users:42 0 5\r\nplain\r\nEND");
    // As `sha256sum` says, pinned: an older version's entries have to be found.
    set(&*backend, " ", "space").await.unwrap();
    let name = "~1Nqnn8clbgv-5l0PgxcTOldg8mkMKrFn4TvPL-rYUUGg";
    assert_eq!(server.ask(&format!("get {name}")), format!("VALUE {name} 0 5\r\nspace\r\nEND"));
    // Who asks for a digest by its text gets his own entry.
    set(&*backend, name, "mine").await.unwrap();
    assert_eq!(get(&*backend, " ").await.unwrap().as_deref(), Some("space"));
    assert_eq!(get(&*backend, name).await.unwrap().as_deref(), Some("mine"));
}

#[tokio::test]
async fn no_key_and_no_value_is_ever_a_command() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    let hostile =
        ["x\r\nflush_all\r\n", "x\nflush_all\n", "x 0 0 1\r\nflush_all", "\0\r\nflush_all", "\r\nflush_all\r\n"];
    for text in hostile {
        set(&*backend, text, text).await.unwrap();
        backend.touch(text, None).await.unwrap();
        backend.try_lock(text, Duration::from_secs(2)).await.unwrap();
        assert_eq!(get(&*backend, text).await.unwrap().as_deref(), Some(text));
        assert!(backend.exists(text).await.unwrap() && backend.delete(text).await.unwrap());
    }
    for result in backend.get_many(&hostile).await {
        assert_eq!(result.unwrap(), None);
    }
    assert!(server.ask("stats").contains("STAT cmd_flush 0\r\n"));
    assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("v"));
}

#[tokio::test]
async fn looking_at_an_entry_is_no_use_of_it() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    assert!(backend.exists("k").await.unwrap());
    backend.ttl("k").await.unwrap();
    assert!(server.ask("me k").contains("fetch=no"), "{}", server.ask("me k"));
    get(&*backend, "k").await.unwrap();
    assert!(server.ask("me k").contains("fetch=yes"), "{}", server.ask("me k"));
}

#[tokio::test]
async fn what_an_operator_marked_as_stale_is_a_miss() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    assert_eq!(server.ask("md k I T60"), "HD");
    assert_eq!(get(&*backend, "k").await.unwrap(), None);
    assert!(!backend.exists("k").await.unwrap());
    set(&*backend, "k", "w").await.unwrap();
    assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("w"));
}

#[tokio::test]
async fn there_is_no_clear_and_no_publishing() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    assert_eq!(backend.clear("k").await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(backend.publish("c", Bytes::new()).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(backend.subscribe("c").await.is_err());
    assert!(!backend.capabilities().clear() && !backend.capabilities().publish());
}

#[tokio::test]
async fn a_backend_that_is_closed_says_so_and_keeps_no_connection() {
    let server = Memcached::start();
    let proxy = cachekit_servers::Proxy::start(server.address());
    for close in [true, false] {
        let backend = build(&format!("memcache://{}", proxy.address())).await;
        set(&*backend, "k", "v").await.unwrap();
        if close {
            backend.close().await.unwrap();
            assert_eq!(get(&*backend, "k").await.unwrap_err().kind(), ErrorKind::Closed);
            assert_eq!(backend.get_many(&["k"]).await.remove(0).unwrap_err().kind(), ErrorKind::Closed);
            assert_eq!(backend.health().await.unwrap_err().kind(), ErrorKind::Closed);
        } else {
            drop(backend);
        }
        for _ in 0..100 {
            if proxy.open() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(proxy.open(), 0, "close: {close}");
    }
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let factory = factory("memcache://127.0.0.1:1");
    let mut build = factory.build();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match build.as_mut().poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{error}"),
        outcome => panic!("{:?}", outcome.is_pending()),
    }
}

#[test]
fn a_backend_outlives_the_runtime_that_built_it() {
    let server = Memcached::start();
    let first = tokio::runtime::Runtime::new().unwrap();
    let backend = first.block_on(build(&server.url()));
    first.block_on(set(&*backend, "k", "v")).unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match backend.get("k").as_mut().poll(&mut context) {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{error}"),
        outcome => panic!("{:?}", outcome.is_pending()),
    }
    drop(first);
    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(async {
        recovers(&*backend, RECOVERY).await;
        assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("v"));
    });
}
