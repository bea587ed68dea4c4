//! A disk without room: a process that may not make a file larger than so many bytes, until it may again.

use crate::{cache, fetch};
use cachekit::{BackendFactory, Bytes, ErrorKind, SetOptions, Source, Stored};
use cachekit_redb::RedbFactory;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATH: &str = "CACHEKIT_REDB_TEST_FULL_PATH";
const ROOM: &str = "--fsize=4194304:";
const VALUE_BYTES: usize = 100_000;

/// How a backend by itself meets the end of the room: it says so once, and then that it has to be built anew.
async fn fill_a_backend(path: &Path) {
    let backend = RedbFactory::new(path).build().await.unwrap();
    let error = loop {
        let key = format!("{:?}", Instant::now());
        if let Err(error) = backend.set(&key, Bytes::from(vec![7; VALUE_BYTES]), SetOptions::default()).await {
            break error;
        }
    };
    assert!(error.kind() == ErrorKind::OutOfSpace && error.may_be_applied(), "{error}");
    assert_eq!(backend.get("any").await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(backend.health().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(RedbFactory::new(path).build().await.unwrap().get("any").await.unwrap(), None);
}

#[tokio::test]
async fn child() {
    let Some(path) = std::env::var_os(PATH).map(PathBuf::from) else { return };
    fill_a_backend(&path.with_extension("alone")).await;

    let cache = cache(&path);
    let _ = fetch(&cache, "early", "stored while there was room").await;
    // Until the sweep has written it to the disk, twice.
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    let value = "x".repeat(VALUE_BYTES);
    let mut refused = 0;
    for i in 0..200 {
        refused += usize::from(cache.set(&format!("set {i}"), value.clone()).await.unwrap() != Stored::Stored);
        let computed = i.to_string();
        assert_eq!(fetch(&cache, &format!("computed {i}"), &computed).await.value, computed);
    }
    assert!(refused > 0, "the room was to come to its end");

    let this = std::process::id().to_string();
    assert!(Command::new("prlimit").args(["--fsize=unlimited:", "--pid", &this]).status().unwrap().success());
    let start = Instant::now();
    while cache.set("late", value.clone()).await.unwrap() != Stored::Stored {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", cache.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for i in 0..200 {
        assert_eq!(cache.set(&format!("later {i}"), value.clone()).await.unwrap(), Stored::Stored);
    }
    for key in ["early", "late", "later 0", "later 199"] {
        assert_eq!(fetch(&crate::cache(&path), key, "anew").await.source, Source::L2, "{key}");
    }
}

#[test]
fn a_full_disk_costs_no_value_and_is_used_again_once_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // Without the trap the signal would end the process at the first byte too many.
    command.args(["-c", r#"trap "" XFSZ; exec prlimit "$@""#, "sh", ROOM]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "full_disk::child", "--nocapture"]).env(PATH, directory.path().join("cache.redb"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
