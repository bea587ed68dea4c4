//! Opening, sharing, closing, and leaving in the middle of each.

use crate::{block_on_without_runtime, get, open, poll_once, set};
use cachekit_core::{Backend, BackendFactory, Bytes, ErrorKind, Registry, SetOptions};
use cachekit_sled::{Execution, SledConfig, SledFactory, register};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn constructing_a_factory_touches_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    let mut registry = Registry::new();
    register(&mut registry).unwrap();
    assert_eq!(register(&mut registry).unwrap_err().kind(), ErrorKind::ConfigInvalid);
    let factory = registry.factory(&format!("sled://{}?cache_capacity=1000000", path.display())).unwrap();
    assert_eq!(factory.name(), "sled");
    let error = registry.factory("sled:///p?cache_size=1").unwrap_err();
    assert!(error.to_string().contains("`cache_capacity`"), "{error}");
    assert!(!directory.path().join("a").exists());
    tokio::runtime::Runtime::new().unwrap().block_on(async { factory.build().await.unwrap().close().await.unwrap() });
    assert!(path.join("cachekit.lock").exists());
}

#[tokio::test]
async fn u082_what_was_set_is_there_after_a_drop_and_after_a_close() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..6_u8 {
        let backend = open(directory.path()).await;
        if round > 0 {
            assert_eq!(get(&*backend, "k").await.as_deref(), Some(&[round - 1][..]));
        }
        set(&*backend, "k", &[round]).await;
        if round % 2 == 0 {
            backend.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_closed_backend_says_so_and_can_be_closed_again() {
    let directory = tempfile::tempdir().unwrap();
    let backend = open(directory.path()).await;
    set(&*backend, "k", b"v").await;
    let token = backend.try_lock("k", Duration::from_secs(1)).await.unwrap().unwrap();
    backend.close().await.unwrap();
    backend.close().await.unwrap();
    let second = Duration::from_secs(1);
    let kinds = [
        backend.get("k").await.unwrap_err().kind(),
        backend.set("k", Bytes::new(), SetOptions::default()).await.unwrap_err().kind(),
        backend.delete("k").await.unwrap_err().kind(),
        backend.exists("k").await.unwrap_err().kind(),
        backend.health().await.unwrap_err().kind(),
        backend.clear("k").await.unwrap_err().kind(),
        backend.ttl("k").await.unwrap_err().kind(),
        backend.touch("k", None).await.unwrap_err().kind(),
        backend.try_lock("k", second).await.unwrap_err().kind(),
        backend.extend(&token, second).await.unwrap_err().kind(),
        backend.unlock(&token).await.unwrap_err().kind(),
        backend.get_many(&["k"]).await.remove(0).unwrap_err().kind(),
        backend.set_many(&[("k", Bytes::new())], SetOptions::default()).await.remove(0).unwrap_err().kind(),
        backend.delete_many(&["k"]).await.remove(0).unwrap_err().kind(),
    ];
    assert!(kinds.iter().all(|kind| *kind == ErrorKind::Closed), "{kinds:?}");
}

#[tokio::test]
async fn everyone_who_names_the_directory_shares_its_database() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let one = open(&path).await;
    let two = open(&directory.path().join("x/../db")).await;
    set(&*one, "k", b"v").await;
    assert_eq!(get(&*two, "k").await.as_deref(), Some(&b"v"[..]));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&path, directory.path().join("link")).unwrap();
        let three = open(&directory.path().join("link")).await;
        assert_eq!(get(&*three, "k").await.as_deref(), Some(&b"v"[..]));
    }
    one.close().await.unwrap();
    assert_eq!(get(&*two, "k").await.as_deref(), Some(&b"v"[..]), "closing one does not close the other");
    set(&*two, "k", b"w").await;
    drop(two);
    assert_eq!(get(&*open(&path).await, "k").await.as_deref(), Some(&b"w"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn builds_at_the_same_time_meet() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let builds: Vec<_> = (0..8)
            .map(|_| {
                let path = directory.path().to_owned();
                tokio::spawn(async move { open(&path).await })
            })
            .collect();
        let mut backends = Vec::new();
        for build in builds {
            backends.push(build.await.unwrap());
        }
        set(&*backends[0], "k", &[round]).await;
        for backend in &backends {
            assert_eq!(get(&**backend, "k").await.as_deref(), Some(&[round][..]));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_was_left_hinders_no_later_one() {
    let directory = tempfile::tempdir().unwrap();
    let factory = SledFactory::new(SledConfig::new(directory.path()));
    for round in 0..30 {
        for _ in 0..round % 3 {
            poll_once(factory.build());
        }
        let _ = tokio::time::timeout(Duration::from_millis(round), factory.build()).await;
        let backend = factory.build().await.unwrap();
        set(&*backend, "k", b"v").await;
        if round % 2 == 0 {
            poll_once(backend.close());
        }
    }
}

#[test]
fn the_end_of_a_runtime_does_not_hinder_the_next() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..4_u8 {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let backend = runtime.block_on(async {
            let backend = open(directory.path()).await;
            if round > 0 {
                assert_eq!(get(&*backend, "k").await.as_deref(), Some(&[round - 1][..]));
            }
            set(&*backend, "k", &[round]).await;
            backend
        });
        if round % 2 == 0 {
            drop(runtime);
            drop(backend); // Outside of any runtime.
        }
    }
}

#[test]
fn without_a_runtime_there_are_errors_and_no_panics() {
    let directory = tempfile::tempdir().unwrap();
    let factory = SledFactory::new(SledConfig::new(directory.path()));
    let error = block_on_without_runtime(factory.build()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
    assert!(error.context().contains("Tokio runtime"), "{error}");

    let backend = tokio::runtime::Runtime::new().unwrap().block_on(open(directory.path()));
    block_on_without_runtime(async {
        let backend: &dyn Backend = &*backend;
        let kinds = [
            backend.get("k").await.unwrap_err().kind(),
            backend.set("k", Bytes::new(), SetOptions::default()).await.unwrap_err().kind(),
            backend.delete("k").await.unwrap_err().kind(),
            backend.exists("k").await.unwrap_err().kind(),
            backend.health().await.unwrap_err().kind(),
            backend.clear("k").await.unwrap_err().kind(),
            backend.ttl("k").await.unwrap_err().kind(),
            backend.touch("k", None).await.unwrap_err().kind(),
            backend.get_many(&["k"]).await.remove(0).unwrap_err().kind(),
        ];
        assert!(kinds.iter().all(|kind| *kind == ErrorKind::ConfigInvalid), "{kinds:?}");
        backend.close().await.unwrap();
    });
}

#[test]
fn inline_needs_no_runtime() {
    let directory = tempfile::tempdir().unwrap();
    let factory = SledFactory::new(SledConfig::new(directory.path()).with_execution(Execution::Inline));
    block_on_without_runtime(async {
        let backend: Arc<dyn Backend> = factory.build().await.unwrap();
        set(&*backend, "k", b"v").await;
        assert!(get(&*backend, "k").await.is_some());
        backend.close().await.unwrap();
    });
}

#[tokio::test]
async fn what_cannot_be_opened_names_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, b"not a directory").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = SledFactory::new(SledConfig::new(&path)).build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    for config in [SledConfig::new(""), SledConfig::new(&file).with_flush_every(Duration::ZERO)] {
        assert_eq!(SledFactory::new(config).build().await.unwrap_err().kind(), ErrorKind::ConfigInvalid);
    }
}
