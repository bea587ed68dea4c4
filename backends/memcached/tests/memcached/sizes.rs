//! Values that are too large: for the backend, and for a server that takes less than the backend was told.

use super::*;
use cachekit_core::{Cache, ErrorKind, Reason, Stored};
use cachekit_servers::Memcached;

fn value(bytes: usize) -> Bytes {
    Bytes::from(vec![b'x'; bytes])
}

/// 512k is the least that memcached takes.
fn for_items_of(size: &str) -> Memcached {
    Memcached::builder().arg("-I").arg(size).start()
}

#[tokio::test]
async fn what_is_too_large_for_the_backend_removes_the_older_value() {
    let server = Memcached::start();
    let backend = build(&format!("{}?max_value_bytes=4", server.url())).await;
    set(&*backend, "k", "old").await.unwrap();
    let error = backend.set("k", value(5), SetOptions::default()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::TooLarge && !error.may_be_applied() && !error.is_temporary(), "{error}");
    assert_eq!(get(&*backend, "k").await.unwrap(), None);
    assert!(server.ask("stats").contains("STAT cmd_set 1\r\n"), "nothing was sent");
}

#[tokio::test]
async fn what_is_too_large_for_the_server_removes_the_older_value() {
    let server = for_items_of("512k");
    let backend = build(&server.url()).await;
    set(&*backend, "k", "old").await.unwrap();
    let error = backend.set("k", value(600_000), SetOptions::default()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::TooLarge && !error.may_be_applied() && !error.is_temporary(), "{error}");
    assert_eq!(get(&*backend, "k").await.unwrap(), None);
    set(&*backend, "k", "new").await.unwrap();
    assert_eq!(get(&*backend, "k").await.unwrap().as_deref(), Some("new"));
}

/// Neither limit has anything to do with the server's health.
#[tokio::test]
async fn refusals_of_large_values_open_nothing() {
    let server = for_items_of("512k");
    let backend = build(&format!("{}?max_value_bytes=800000", server.url())).await;
    for bytes in [600_000, 900_000].repeat(10) {
        let error = backend.set("k", value(bytes), SetOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
    set(&*backend, "k", "v").await.unwrap();
}

#[tokio::test]
async fn one_entry_of_a_batch_that_is_refused_is_refused_alone() {
    let server = for_items_of("512k");
    let backend = build(&format!("{}?max_value_bytes=800000", server.url())).await;
    set(&*backend, "guarded", "old").await.unwrap();
    set(&*backend, "refused", "old").await.unwrap();
    let small = Bytes::from_static;
    let mut entries = vec![
        ("a", small(b"1")),
        ("", small(b"2")),
        ("refused", value(600_000)),
        ("guarded", value(900_000)),
        ("a", small(b"3")),
    ];
    let keys: Vec<String> = (0..40).map(|number| format!("k{number}")).collect();
    entries.extend(
        keys.iter()
            .enumerate()
            .map(|(number, key)| (key.as_str(), if number % 2 == 0 { value(600_000) } else { small(b"v") })),
    );
    let results = bounded(backend.set_many(&entries, SetOptions::default())).await;
    let kinds: Vec<_> = results.iter().map(|result| result.as_ref().err().map(|error| error.kind())).collect();
    let too_large = Some(ErrorKind::TooLarge);
    assert_eq!(kinds[..5], [None, Some(ErrorKind::KeyInvalid), too_large, too_large, None]);
    assert!(results.iter().flat_map(|result| result.as_ref().err()).all(|error| !error.may_be_applied()));
    for (number, kind) in kinds[5..].iter().enumerate() {
        assert_eq!(*kind, if number % 2 == 0 { too_large } else { None }, "{number}");
    }
    assert_eq!(get(&*backend, "a").await.unwrap().as_deref(), Some("3"), "the later one wins");
    for key in ["guarded", "refused", "k0", "k38"] {
        assert_eq!(get(&*backend, key).await.unwrap(), None, "{key}");
    }
    assert_eq!(get(&*backend, "k39").await.unwrap().as_deref(), Some("v"));
}

#[tokio::test]
async fn a_server_for_larger_items_takes_larger_values() {
    let server = for_items_of("4m");
    let largest = (4 << 20) - 762;
    let backend = build(&format!("{}?max_value_bytes={largest}&operation_timeout_ms=5000", server.url())).await;
    for key in ["k".to_owned(), "k".repeat(200), "k".repeat(1_000)] {
        backend.set(&key, value(largest), SetOptions::default()).await.unwrap();
        assert_eq!(backend.get(&key).await.unwrap().map(|found| found.len()), Some(largest));
    }
}

/// Whoever says that a value is too large, no tier of the cache serves the value before it.
#[tokio::test]
async fn after_a_value_that_is_too_large_no_tier_serves_the_older_one() {
    for (item_size, limit) in [("512k", 800_000), ("1m", 100_000)] {
        let server = for_items_of(item_size);
        let url = format!("{}?max_value_bytes={limit}&operation_timeout_ms=2000", server.url());
        let cache = || Cache::builder("n").backend(factory(&url)).operation_timeout(OPERATION * 4).build().unwrap();
        let (one, other) = (cache(), cache());
        assert_eq!(one.set("k", "old".to_owned()).await.unwrap(), Stored::Stored);
        let large = "x".repeat(600_000);
        assert_eq!(one.set("k", large.clone()).await.unwrap(), Stored::L1Only(Reason::TooLarge), "{item_size}");
        assert_eq!(one.get::<String>("k").await.unwrap(), Some(large), "{item_size}");
        assert_eq!(other.get::<String>("k").await.unwrap(), None, "{item_size}");
        drop(one);
        assert_eq!(cache().get::<String>("k").await.unwrap(), None, "{item_size}");
    }
}
