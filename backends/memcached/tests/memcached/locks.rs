//! Locks on a server that forgets and restarts.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::Memcached;

const LONG: Duration = Duration::from_secs(60);

/// A restarted server counts its versions anew: the first lock gets the version of another first lock.
#[tokio::test]
async fn a_token_from_before_a_restart_releases_nobody_elses_lock() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    let old = backend.try_lock("k", LONG).await.unwrap().unwrap();
    server.restart();
    recovers(&*backend, RECOVERY).await;
    server.restart();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let taken = backend.try_lock("k", LONG).await.unwrap().unwrap();
    assert!(!backend.unlock(&old).await.unwrap() && !backend.extend(&old, LONG).await.unwrap());
    assert!(backend.try_lock("k", LONG).await.unwrap().is_none(), "still taken");
    assert!(backend.unlock(&taken).await.unwrap());
}

#[tokio::test]
async fn an_extended_lock_is_still_its_owners() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    let token = backend.try_lock("k", Duration::from_secs(2)).await.unwrap().unwrap();
    assert_eq!(token.fence(), None);
    for _ in 0..3 {
        assert!(backend.extend(&token, LONG).await.unwrap());
    }
    assert!(backend.unlock(&token).await.unwrap());
    assert!(!backend.unlock(&token).await.unwrap() && !backend.extend(&token, LONG).await.unwrap());
    let short = Duration::from_millis(1_999);
    assert_eq!(backend.extend(&token, short).await.unwrap_err().kind(), ErrorKind::TtlInvalid);
}

#[tokio::test]
async fn one_of_two_releases_at_once_is_the_one() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    for _ in 0..20 {
        let token = backend.try_lock("k", LONG).await.unwrap().unwrap();
        let (a, b, _) = tokio::join!(backend.unlock(&token), backend.unlock(&token), backend.extend(&token, LONG));
        assert!(a.unwrap() != b.unwrap());
    }
}

#[tokio::test]
async fn a_lock_that_timed_out_is_released_when_the_server_goes_on() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    server.pause();
    let error = bounded(backend.try_lock("k", LONG)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && error.may_be_applied(), "{error}");
    server.resume();
    let end = Instant::now() + RECOVERY;
    while backend.try_lock("k", LONG).await.unwrap().is_none() {
        assert!(Instant::now() < end, "the lock is held by nobody");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
