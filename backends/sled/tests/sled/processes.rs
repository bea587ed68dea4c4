//! Two processes and one directory. The other process is this test binary again, running one test that only then runs.

use crate::{get, open, set, set_aside};
use cachekit_core::{BackendFactory, ErrorKind};
use cachekit_sled::{SledConfig, SledFactory};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PATH: &str = "CACHEKIT_SLED_TEST_PATH";

fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(PATH, path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// What the child says behind this word.
fn said(child: &mut Child, word: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
    lines.filter_map(|line| Some(line.split_once(word)?.1.to_owned())).next().expect("the child said nothing")
}

#[tokio::test]
#[ignore = "a child of other tests: opens the directory, says how it went, and waits"]
async fn child_that_opens() {
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    let built = SledFactory::new(SledConfig::new(path)).build().await;
    match &built {
        Ok(backend) => {
            set(&**backend, "from", b"child").await;
            backend.close().await.unwrap();
            println!("child: closed");
        }
        Err(error) => println!("child: {} {}", error.is_temporary(), error),
    }
}

#[tokio::test]
#[ignore = "a child of other tests: holds the directory open until it is killed"]
async fn child_that_holds() {
    let backend = open(&PathBuf::from(std::env::var_os(PATH).unwrap())).await;
    println!("child: open");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(backend);
}

#[tokio::test]
async fn u085_a_second_process_is_told_which_directory_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let backend = open(&path).await;
    let mut second = child("processes::child_that_opens", &path).spawn().unwrap();
    let answer = said(&mut second, "child: ");
    second.wait().unwrap();
    assert!(answer.starts_with("true locked: another process has the sled database"), "{answer}");
    assert!(answer.contains(path.to_str().unwrap()), "{answer}");

    backend.close().await.unwrap();
    let mut third = child("processes::child_that_opens", &path).spawn().unwrap();
    assert_eq!(said(&mut third, "child: "), "closed", "after close, the directory is free for others");
    third.wait().unwrap();
    assert_eq!(get(&*open(&path).await, "from").await.as_deref(), Some(&b"child"[..]));
}

#[tokio::test]
async fn a_killed_process_leaves_the_directory_free() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let mut holder = child("processes::child_that_holds", &path).spawn().unwrap();
    assert_eq!(said(&mut holder, "child: "), "open");
    let factory = SledFactory::new(SledConfig::new(&path));
    for _ in 0..2 {
        let error = factory.build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    assert!(set_aside(&path).is_empty(), "what somebody else has open is not damaged");
    holder.kill().unwrap();
    holder.wait().unwrap();
    factory.build().await.unwrap();
}

#[tokio::test]
#[ignore = "a child of the next test"]
async fn child_without_rights() {
    let path = PathBuf::from(std::env::var_os(PATH).unwrap());
    let error = SledFactory::new(SledConfig::new(path)).build().await.unwrap_err();
    println!("child: {error}");
}

#[test]
fn a_directory_of_somebody_else_is_permission_denied() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    // Root may do everything, so the child is nobody, who has to reach the directory and the test binary.
    let root = std::fs::metadata(directory.path()).is_ok() && is_root();
    let mode = if root { 0o755 } else { 0o555 };
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    let path = directory.path().join("cache");
    let mut command = child("processes::child_without_rights", &path);
    if root {
        command.uid(65_534).gid(65_534);
    }
    let mut child = command.spawn().unwrap();
    let answer = said(&mut child, "child: ");
    child.wait().unwrap();
    assert!(answer.starts_with("permission_denied: opening the sled database"), "{answer}");
    assert!(answer.contains(path.to_str().unwrap()), "{answer}");
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
