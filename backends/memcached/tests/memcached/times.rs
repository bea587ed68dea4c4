//! Times to live, in a server that counts in seconds, takes more than 30 days for a moment, and ends in 2038.

use super::*;
use cachekit_core::{ErrorKind, TtlState};
use cachekit_servers::Memcached;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY: Duration = Duration::from_secs(86_400);

/// What the server says is left, in seconds; -1: no end.
fn left(server: &Memcached, key: &str) -> i64 {
    let answer = server.ask(&format!("mg {key} t"));
    answer.strip_prefix("HD t").unwrap_or_else(|| panic!("{key}: {answer}")).parse().unwrap()
}

#[tokio::test]
async fn times_on_the_wire() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let until_2038 = Duration::from_secs(2_147_385_600).saturating_sub(now);
    for (name, ttl, seconds) in [
        ("a-millisecond", Duration::from_millis(1), 2),
        ("300-ms", Duration::from_millis(300), 2),
        ("a-second", Duration::from_secs(1), 2),
        ("100-s", Duration::from_secs(100), 101),
        ("30-days", DAY * 30, 2_592_001),
        ("31-days", DAY * 31, 2_678_401),
        ("until-2038", until_2038 - DAY, i64::try_from((until_2038 - DAY).as_secs()).unwrap() + 1),
        ("20-years", DAY * 365 * 20, -1),
        ("for-ever", Duration::MAX, -1),
    ] {
        let options = SetOptions::default().with_ttl(Some(ttl));
        backend.set(name, Bytes::from_static(b"v"), options).await.unwrap();
        let found = left(&server, name);
        // A tick may have passed; of a moment this machine's and the server's clock round their fractions of seconds.
        let allowed = match seconds {
            -1 => -1..=-1,
            1..=2_592_000 => seconds - 1..=seconds,
            _ => seconds - 4..=seconds + 4,
        };
        assert!(allowed.contains(&found), "{name}: {found}");
        let told = backend.ttl(name).await.unwrap();
        match told {
            TtlState::NoExpiry => assert_eq!(seconds, -1, "{name}"),
            TtlState::Remaining(time) => {
                assert!(time >= ttl.saturating_sub(Duration::from_secs(2)), "{name}: {time:?}")
            }
            TtlState::Missing => panic!("{name} is gone"),
        }
        assert!(backend.touch(name, Some(ttl)).await.unwrap());
        assert!(allowed.contains(&left(&server, name)), "{name}, touched: {}", left(&server, name));
        assert!(backend.touch(name, None).await.unwrap());
        assert_eq!(left(&server, name), -1, "{name}");
    }
    assert_eq!(backend.ttl("missing").await.unwrap(), TtlState::Missing);
}

/// What ends after 2038 is acknowledged by memcached, and gone at once: that is why it is sent as for ever.
#[tokio::test]
async fn what_ends_after_2038_is_there_a_second_later() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    assert_eq!(server.ask("mg k v"), "EN");
    for (name, ttl) in [("31-days", DAY * 31), ("20-years", DAY * 365 * 20), ("for-ever", Duration::MAX)] {
        backend.set(name, Bytes::from_static(b"v"), SetOptions::default().with_ttl(Some(ttl))).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for result in backend.get_many(&["31-days", "20-years", "for-ever"]).await {
        assert_eq!(result.unwrap().as_deref(), Some(&b"v"[..]));
    }
}

#[tokio::test]
async fn a_time_of_zero_changes_nothing() {
    let server = Memcached::start();
    let backend = build(&server.url()).await;
    set(&*backend, "k", "v").await.unwrap();
    let zero = SetOptions::default().with_ttl(Some(Duration::ZERO));
    assert_eq!(backend.set("k", Bytes::new(), zero).await.unwrap_err().kind(), ErrorKind::TtlInvalid);
    let results = backend.set_many(&[("k", Bytes::new())], zero).await;
    assert_eq!(results[0].as_ref().unwrap_err().kind(), ErrorKind::TtlInvalid);
    assert_eq!(backend.touch("k", Some(Duration::ZERO)).await.unwrap_err().kind(), ErrorKind::TtlInvalid);
    assert_eq!(left(&server, "k"), -1);
    assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("v"));
}
