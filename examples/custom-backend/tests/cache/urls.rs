//! From a URL to entries that outlive the program.

use crate::{cache, close, fetch};
use cachekit::{BackendFactory, BackendUrl, ErrorKind, Source, registry};
use cachekit_redb::RedbFactory;

#[tokio::test]
async fn entries_outlive_the_cache_that_wrote_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deeper").join("cache.redb");
    let first = cache(&path);
    assert!(!path.exists(), "building a cache touches nothing");
    assert_eq!(fetch(&first, "k", "first").await.source, Source::Computed);
    assert_eq!(first.health().l2.map(|l2| (l2.backend, l2.status)), Some(("redb", "ready")));
    close(first).await;

    let fetched = fetch(&cache(&path), "k", "second").await;
    assert_eq!((fetched.value.as_str(), fetched.source), ("first", Source::L2));
}

#[tokio::test]
async fn two_caches_of_a_process_share_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.redb");
    let (one, two) = (cache(&path), cache(&path));
    fetch(&one, "k", "one").await;
    assert_eq!(fetch(&two, "k", "two").await.source, Source::L2);
    close(one).await;
    assert_eq!(fetch(&two, "other", "two").await.degraded, None);
    two.clear().await.unwrap();
    assert_eq!(fetch(&cache(&path), "k", "anew").await.source, Source::Computed);
}

#[test]
fn a_url_says_where_the_file_is_and_how_much_memory_it_takes() {
    let factory = |url| RedbFactory::from_url(&BackendUrl::parse(url).unwrap()).unwrap();
    let expected = RedbFactory::new("/a b.redb").with_cache_bytes(1 << 20);
    assert_eq!(format!("{:?}", factory("redb:///a%20b.redb?cache_bytes=1048576")), format!("{expected:?}"));
    assert_eq!(
        format!("{:?}", factory("redb:///p")),
        format!("{:?}", RedbFactory::new("/p").with_cache_bytes(64 << 20))
    );
}

#[test]
fn a_url_that_is_wrong_says_what_is_wrong() {
    let mut registry = registry();
    cachekit_redb::register(&mut registry).unwrap();
    for (url, says) in [
        ("redb://", "takes the path"),
        ("redb:///p?cache_byte=1", "the nearest is `cache_bytes`"),
        ("redb:///p?cache_bytes=64MiB", "a whole number"),
        ("reb:///p", "`redb`"),
    ] {
        let error = registry.factory(url).unwrap_err();
        assert!(error.kind() == ErrorKind::ConfigInvalid && error.to_string().contains(says), "{error}");
    }
    assert!(cachekit_redb::register(&mut registry).is_err(), "the scheme is taken");
}

#[tokio::test]
async fn a_file_that_is_not_redbs_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("letter.txt");
    std::fs::write(&path, "Dear all, ".repeat(1_000)).unwrap();
    for path in [path.as_path(), directory.path()] {
        let error = RedbFactory::new(path).build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("Dear all"));
}
