//! Each option has an effect.

use crate::{get, open, rows, set, set_aside};
use cachekit_core::{Backend, BackendFactory, Bytes, ErrorKind, Registry, SetOptions};
use cachekit_sled::register;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn built(path: &Path, options: &str) -> Arc<dyn Backend> {
    factory(path, options).build().await.unwrap()
}

fn factory(path: &Path, options: &str) -> Arc<dyn BackendFactory> {
    let mut registry = Registry::new();
    register(&mut registry).unwrap();
    registry.factory(&format!("sled://{}?{options}", path.display())).unwrap()
}

async fn number(backend: &dyn Backend, name: &str) -> u64 {
    let details = backend.health().await.unwrap().details;
    details.iter().find(|(found, _)| found == name).unwrap().1.parse().unwrap()
}

async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(Instant::now() < deadline, "it never came to be");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn max_bytes_bounds_what_lives() {
    let directory = tempfile::tempdir().unwrap();
    let backend = built(directory.path(), "max_bytes=2000000").await;
    for i in 0..60 {
        let options = SetOptions::default().with_ttl(Some(Duration::from_secs(1_000 - i)));
        backend.set(&format!("k{i}"), vec![7; 100_000].into(), options).await.unwrap();
        assert!(number(&*backend, "live_bytes").await <= 2_000_000);
    }
    assert!(get(&*backend, "k0").await.is_some() && get(&*backend, "k58").await.is_none());
    let error = backend.set("k", vec![7; 2_000_001].into(), SetOptions::default()).await.unwrap_err();
    assert_eq!((error.kind(), backend.capabilities().max_value_bytes()), (ErrorKind::TooLarge, 2_000_000));
    backend.close().await.unwrap();

    // What was there before is counted too, and a smaller budget holds for it.
    let unbounded = built(directory.path(), "max_bytes=0").await;
    eventually(async || number(&*unbounded, "live_bytes").await > 1_000_000).await;
    unbounded.close().await.unwrap();
    let smaller = built(directory.path(), "max_bytes=500000").await;
    eventually(async || {
        let bytes = number(&*smaller, "live_bytes").await;
        (1..=500_000).contains(&bytes) && get(&*smaller, "k10").await.is_none()
    })
    .await;
    assert!(get(&*smaller, "k0").await.is_some());
}

#[tokio::test]
async fn min_free_bytes_refuses_writes() {
    let directory = tempfile::tempdir().unwrap();
    for (reserve, stored) in [("18446744073709551615", false), ("0", true), ("1", true)] {
        let backend = built(directory.path(), &format!("min_free_bytes={reserve}")).await;
        let set = backend.set("k", Bytes::from_static(b"v"), SetOptions::default()).await;
        assert_eq!(set.map_err(|error| error.kind()), if stored { Ok(()) } else { Err(ErrorKind::OutOfSpace) });
        assert_eq!(get(&*backend, "k").await.is_some(), stored);
        backend.close().await.unwrap();
    }
}

#[tokio::test]
async fn max_value_bytes_refuses_larger_ones() {
    let directory = tempfile::tempdir().unwrap();
    let backend = built(directory.path(), "max_value_bytes=3").await;
    set(&*backend, "k", b"123").await;
    let error = backend.set("k", Bytes::from_static(b"1234"), SetOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn sweep_every_ms_removes_what_is_over() {
    for (every, goes) in [("3600000", false), ("10", true)] {
        let directory = tempfile::tempdir().unwrap();
        let backend = built(directory.path(), &format!("sweep_every_ms={every}")).await;
        set(&*backend, "stays", b"v").await;
        // What is there is counted soon after the opening.
        eventually(async || number(&*backend, "live_bytes").await > 0).await;
        let without = number(&*backend, "live_bytes").await;
        let options = SetOptions::default().with_ttl(Some(Duration::from_millis(200)));
        backend.set("k", Bytes::from_static(b"v"), options).await.unwrap();
        eventually(async || get(&*backend, "k").await.is_none()).await;
        if goes {
            eventually(async || number(&*backend, "live_bytes").await == without).await;
        } else {
            tokio::time::sleep(Duration::from_millis(700)).await;
            assert!(number(&*backend, "live_bytes").await > without, "no read returns it, but it is there");
        }
    }
}

#[test]
fn execution_inline_needs_no_runtime() {
    let directory = tempfile::tempdir().unwrap();
    crate::block_on_without_runtime(async {
        let kind = async |execution: &str| {
            let built = factory(directory.path(), &format!("execution={execution}")).build().await;
            built.map(drop).map_err(|error| error.kind())
        };
        assert_eq!(kind("inline").await, Ok(()));
        assert_eq!(kind("spawn_blocking").await, Err(ErrorKind::ConfigInvalid));
    });
}

#[tokio::test]
async fn strict_and_open_timeout_ms_decide_over_a_directory_that_does_not_open() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().canonicalize().unwrap().join("cache");
    open(&path).await.close().await.unwrap();
    std::fs::write(rows(&path).join("conf"), [0xA5; 1_000]).unwrap();
    assert!(factory(&path, "strict=true").build().await.is_err() && set_aside(&path).is_empty());
    built(&path, "strict=false").await.close().await.unwrap();
    assert_eq!(set_aside(&path).len(), 1);

    // Nothing opens within a millisecond, on most machines; whatever did not was set aside.
    let fast = factory(&path, "open_timeout_ms=1&strict=true").build().await;
    assert!(fast.is_ok() || fast.is_err_and(|error| error.kind() == ErrorKind::Timeout));
    eventually(async || factory(&path, "open_timeout_ms=60000&strict=true").build().await.is_ok()).await;
}

#[tokio::test]
async fn flush_every_ms_decides_how_soon_the_file_has_what_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let (fast, slow) = (place("fast"), place("slow"));
    let holds = |path: &Path, needle: &str| {
        let file = std::fs::read(rows(path).join("db")).unwrap();
        file.windows(needle.len()).any(|part| part == needle.as_bytes())
    };
    let backends = [built(&fast, "flush_every_ms=10").await, built(&slow, "flush_every_ms=3600000").await];
    // Sled writes by itself now and then, so once is enough.
    let mut needle = String::new();
    for round in 0..5 {
        needle = format!("{round} in the haystack");
        for backend in [&backends[1], &backends[0]] {
            set(&**backend, "needle", needle.as_bytes()).await;
        }
        eventually(async || holds(&fast, &needle)).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        if !holds(&slow, &needle) {
            break;
        }
        assert!(round < 4, "what is to be written once an hour is there at once");
    }
    backends[1].close().await.unwrap();
    assert!(holds(&slow, &needle));
}

/// How many pages sled keeps shows in the memory of a process only, and roughly, so that this asks for what it refuses.
#[tokio::test]
async fn cache_capacity_reaches_sled() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(factory_error(directory.path(), "cache_capacity=0"), ErrorKind::ConfigInvalid);
    let backend = built(directory.path(), "cache_capacity=300000").await;
    for i in 0..200 {
        set(&*backend, &format!("k{i}"), &[7; 5_000]).await;
    }
    assert!(get(&*backend, "k0").await.is_some_and(|value| value.len() == 5_000), "three times as much as it keeps");
}

fn factory_error(path: &Path, options: &str) -> ErrorKind {
    let mut registry = Registry::new();
    register(&mut registry).unwrap();
    registry.factory(&format!("sled://{}?{options}", path.display())).unwrap_err().kind()
}
