//! A damaged directory: set aside, and a fresh one in its place. Some of these hang for real: a pipe in the place of a
//! file keeps its reader waiting until somebody writes to it.

use crate::{get, open, rows, set, set_aside, ttl};
use cachekit_core::{Backend, BackendFactory, Bytes, ErrorKind, SetOptions};
use cachekit_sled::{Execution, SledConfig, SledFactory};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(300);
const LARGE: usize = 100_000;

struct Place {
    _parent: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().canonicalize().unwrap().join("cache");
    Place { _parent: parent, path }
}

/// A directory with an entry, closed.
async fn filled() -> Place {
    let place = place();
    let backend = open(&place.path).await;
    set(&*backend, "k", b"v").await;
    backend.close().await.unwrap();
    place
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// In the place of a file, so that its reader hangs.
fn make_pipe(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Lets those who wait for it go on: sled reads it, and then writes it. Opened for both, since a writer alone would wait
/// for a reader.
async fn end_pipe(path: &Path) {
    for _ in 0..100 {
        drop(File::options().read(true).write(true).open(path).unwrap());
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

async fn works(backend: &dyn Backend) {
    set(backend, "new", b"value").await;
    assert_eq!(get(backend, "new").await.as_deref(), Some(&b"value"[..]));
}

async fn detail(backend: &dyn Backend, name: &str) -> Option<String> {
    let details = backend.health().await.unwrap().details;
    details.into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
}

/// A path that was mistyped costs nobody anything.
#[tokio::test]
async fn a_directory_of_somebody_elses_is_refused_and_left_alone() {
    let place = place();
    fs::create_dir_all(place.path.join("values/prod")).unwrap();
    let precious = place.path.join("values/prod/secrets.yaml");
    fs::write(&precious, b"precious").unwrap();
    for strict in [false, true] {
        let factory = SledFactory::new(SledConfig::new(&place.path).with_strict(strict));
        let error = factory.build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
        assert!(error.context().contains("no cache, and not empty"), "{error}");
    }
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    assert!(set_aside(&place.path).is_empty());
}

#[tokio::test]
async fn u080_junk_is_set_aside_and_an_empty_cache_opens() {
    let junk = |path: &Path| fs::write(path, [0xA5; 10_000]).unwrap();
    for spoil in [
        Box::new(|path: &Path| files(path).iter().for_each(|file| junk(file))) as Box<dyn Fn(&Path)>,
        Box::new(|path: &Path| junk(&rows(path).join("conf"))),
        Box::new(|path: &Path| {
            fs::remove_file(rows(path).join("db")).unwrap();
            fs::create_dir(rows(path).join("db")).unwrap();
        }),
        Box::new(|path: &Path| {
            let rows = rows(path);
            fs::remove_dir_all(&rows).unwrap();
            junk(&rows);
        }),
    ] {
        let place = filled().await;
        spoil(&place.path);
        let backend = open(&place.path).await;
        assert_eq!(get(&*backend, "k").await, None);
        works(&*backend).await;
        let aside = set_aside(&place.path);
        assert_eq!(aside.len(), 1, "{aside:?}");
        assert!(aside[0].is_dir() && !files(&aside[0]).is_empty());
        assert_eq!(detail(&*backend, "set_aside").await.as_deref(), aside[0].to_str());
        backend.close().await.unwrap();
        let again = open(&place.path).await;
        assert!(get(&*again, "new").await.is_some(), "the fresh one stays");
    }
}

#[tokio::test]
async fn one_damaged_directory_is_kept_and_strict_keeps_its_hands_off() {
    let place = filled().await;
    let strict = SledFactory::new(SledConfig::new(&place.path).with_strict(true));
    for round in 0..2 {
        fs::write(rows(&place.path).join("conf"), [0xA5; 10_000]).unwrap();
        let error = strict.build().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ConfigInvalid | ErrorKind::Decode), "{error}");
        assert!(error.to_string().contains(place.path.to_str().unwrap()), "{error}");
        assert_eq!(set_aside(&place.path).len(), round, "strict renames nothing");
        open(&place.path).await.close().await.unwrap();
        assert_eq!(set_aside(&place.path).len(), 1);
    }
    strict.build().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opening_that_never_ends_is_left_behind() {
    let place = filled().await;
    let pipe = rows(&place.path).join("conf");
    make_pipe(&pipe);
    let config = SledConfig::new(&place.path).with_open_timeout(SHORT);

    let backend = SledFactory::new(config).build().await.unwrap();
    let aside = set_aside(&place.path);
    works(&*backend).await;
    assert!(detail(&*backend, "hung_threads").await.is_some());
    // It comes back after all, and must do no harm to what stands in its place.
    end_pipe(&aside[0].join(pipe.strip_prefix(&place.path).unwrap())).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while detail(&*backend, "hung_threads").await.is_some() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    works(&*backend).await;
    backend.close().await.unwrap();
    assert!(get(&*open(&place.path).await, "new").await.is_some());
}

#[tokio::test]
async fn strict_waits_for_an_opening_as_long_and_then_fails() {
    let place = filled().await;
    let pipe = rows(&place.path).join("conf");
    make_pipe(&pipe);
    let config = SledConfig::new(&place.path).with_open_timeout(SHORT).with_strict(true);
    let started = Instant::now();
    let error = SledFactory::new(config.clone()).build().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(started.elapsed() >= SHORT && set_aside(&place.path).is_empty());
    // Nobody opens beside a thread that may still write there.
    assert_eq!(SledFactory::new(config).build().await.unwrap_err().kind(), ErrorKind::Locked);
    end_pipe(&pipe).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_never_ends_closes_the_backend_and_the_next_one_works() {
    let place = place();
    let factory = SledFactory::new(SledConfig::new(&place.path));
    let backend = factory.build().await.unwrap();
    set(&*backend, "large", &[7; LARGE]).await;
    let file = files(&place.path.join("values")).remove(0);
    make_pipe(&file);

    let waiting: Vec<_> = (0..40)
        .map(|_| {
            let backend = backend.clone();
            tokio::spawn(async move { backend.get("large").await.unwrap_err().kind() })
        })
        .collect();
    for one in waiting {
        // Those who have a job, and those who wait for one of the 32 to be free.
        assert_eq!(one.await.unwrap(), ErrorKind::Closed);
    }
    assert_eq!(backend.get("k").await.unwrap_err().kind(), ErrorKind::Closed);
    works(&*factory.build().await.unwrap()).await;
    let aside = set_aside(&place.path);
    assert_eq!(aside.len(), 1);
    // The threads that hang would keep the runtime from ending.
    let file = aside[0].join(file.strip_prefix(&place.path).unwrap());
    end_pipe(&file).await;
}

#[tokio::test]
async fn a_build_that_nobody_waits_for_any_more_hinders_none() {
    let place = filled().await;
    make_pipe(&rows(&place.path).join("conf"));
    let config = SledConfig::new(&place.path).with_open_timeout(SHORT).with_execution(Execution::Inline);
    let factory = SledFactory::new(config);
    crate::poll_once(factory.build());
    // On the only thread of this runtime, which the hanging opening does not block.
    let backend = factory.build().await.unwrap();
    works(&*backend).await;
    let pipe = rows(&set_aside(&place.path)[0]).join("conf");
    end_pipe(&pipe).await;
}

#[tokio::test]
async fn a_relative_symlink_is_followed_and_what_it_names_is_set_aside() {
    let place = filled().await;
    let link = place.path.with_file_name("link");
    std::os::unix::fs::symlink("cache", &link).unwrap();
    fs::write(rows(&place.path).join("conf"), [0xA5; 10_000]).unwrap();
    let backend = open(&link).await;
    works(&*backend).await;
    backend.set("k", Bytes::from_static(b"v"), ttl(Duration::from_secs(60))).await.unwrap();
    backend.set("k", Bytes::from_static(b"v"), SetOptions::default()).await.unwrap();
    assert_eq!(set_aside(&place.path).len(), 1);
    assert!(link.is_symlink() && place.path.join("cachekit.lock").exists());
}
