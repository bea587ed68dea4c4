//! Users, databases, sockets and old or strict servers.

use super::*;
use cachekit_core::{ErrorKind, TtlState};
use cachekit_servers::RedisServer;

#[tokio::test]
async fn a_user_of_an_access_list() {
    let server = RedisServer::start();
    let acl = "ACL SETUSER app on >s3%cr/t ~* &* +@all -set";
    assert_eq!(server.cli(&acl.split(' ').collect::<Vec<_>>()), "OK");
    for protocol in [2, 3] {
        let backend = build(&format!("redis://app:s3%25cr%2Ft@{}?protocol={protocol}", server.address())).await;
        assert_eq!(get(&*backend, "k").await.unwrap(), None);
        let error = set(&*backend, "k", "v").await.unwrap_err();
        assert!(error.kind() == ErrorKind::PermissionDenied && !error.is_temporary(), "{error}");
        assert_eq!(get(&*backend, "k").await.unwrap(), None, "the connection stays");
    }
    assert_eq!(server.cli(&["ACL", "SETUSER", "app", "+set"]), "OK");
    recovers(&*build(&format!("redis://app:s3%25cr%2Ft@{}", server.address())).await, GRACE).await;
}

#[tokio::test]
async fn a_database_by_its_number() {
    let server = RedisServer::start();
    let (third, zero) = (format!("{}/3", server.url()), server.url());
    set(&*build(&third).await, "k", "three").await.unwrap();
    assert_eq!(server.cli(&["-n", "3", "GET", "k"]), "three");
    assert_eq!(get(&*build(&zero).await, "k").await.unwrap(), None);
    let error = try_build(&format!("{}?db=99", server.url())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{error}");
}

#[tokio::test]
async fn a_server_on_a_socket_that_comes_back() {
    let server = RedisServer::builder().unix().password("canary").start();
    let backend = build(&server.url()).await;
    server.restart();
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn a_server_that_knows_no_hello() {
    let server = RedisServer::builder().args(["--rename-command", "HELLO", ""]).password("canary").start();
    let backend = build(&server.url()).await;
    recovers(&*backend, GRACE).await;
    let (pid, error) =
        (server.pid(), try_build(&format!("redis://:wrong-canary@{}", server.address())).await.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed, "{error}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    assert_eq!(server.pid(), pid);
}

/// A provider that forbids what blocks a server or empties it, and a server from before UNLINK.
#[tokio::test]
async fn neither_unlink_nor_keys_nor_flush_is_needed() {
    let mut server = RedisServer::builder();
    for command in ["UNLINK", "KEYS", "FLUSHDB", "FLUSHALL", "CONFIG", "INFO"] {
        server = server.args(["--rename-command", command, ""]);
    }
    let server = server.start();
    let backend = build(&server.url()).await;
    for key in ["a:1", "a:2", "b:1"] {
        set(&*backend, key, "v").await.unwrap();
    }
    let deleted = backend.delete_many(&["a:1", "a:1", "no"]).await;
    assert_eq!(deleted.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [true, false, false]);
    backend.clear("a:").await.unwrap();
    assert!(!backend.exists("a:2").await.unwrap() && backend.delete("b:1").await.unwrap());
}

#[tokio::test]
async fn what_others_stored_as_something_else_is_a_miss_and_is_overwritten() {
    let server = RedisServer::start();
    let backend = build(&server.url()).await;
    server.cli(&["LPUSH", "k", "x"]);
    assert_eq!(get(&*backend, "k").await.unwrap(), None);
    assert_eq!(backend.get_many(&["k"]).await.pop().unwrap().unwrap(), None);
    assert!(!backend.exists("k").await.unwrap());
    set(&*backend, "k", "v").await.unwrap();
    assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("v"));
    assert_eq!(backend.ttl("k").await.unwrap(), TtlState::NoExpiry);
}
