//! Two processes and one file. The other process is this test binary again, running the one test that then does
//! something.

use crate::{cache, close, fetch};
use cachekit::{BackendFactory, ErrorKind, Source};
use cachekit_redb::RedbFactory;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATH: &str = "CACHEKIT_REDB_TEST_PATH";

/// A process that writes an entry and then has the file open until it is killed.
struct Holder(Child);

impl Holder {
    fn start(path: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::child", "--nocapture"]).env(PATH, path).stdout(Stdio::piped());
        let mut child = Self(command.spawn().unwrap());
        let lines = BufReader::new(child.0.stdout.as_mut().unwrap()).lines();
        assert!(lines.map(Result::unwrap).any(|line| line.contains("child: open")), "the child ended");
        child
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn child() {
    let Some(path) = std::env::var_os(PATH).map(PathBuf::from) else { return };
    let cache = cache(&path);
    fetch(&cache, "k", "of the child").await;
    // Until the sweep has written it to the disk, twice.
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    println!("child: open");
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_second_process_is_told_that_the_file_is_taken_and_computes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cache.redb");
    let holder = Holder::start(&path);

    let error = RedbFactory::new(&path).build().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Locked && error.is_temporary(), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    let second = cache(&path);
    let fetched = fetch(&second, "k", "of the second").await;
    assert_eq!((fetched.value.as_str(), fetched.source), ("of the second", Source::Computed));
    assert_eq!(second.health().l2.and_then(|l2| l2.last_error), Some("locked"));

    // Killed, it loses nothing that was written to the disk; and whoever waited for the file gets it.
    drop(holder);
    let fetched = fetch(&second, "k", "of nobody").await;
    assert_eq!((fetched.value.as_str(), fetched.source), ("of the child", Source::L2));
    close(second).await;
}
