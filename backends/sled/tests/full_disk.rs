//! A full disk under a cache: a real file system of 64 MiB, mounted for each test. Needs the right to mount: root, or
//! a user for whom `unshare -rm` works, in which case each test runs again as a process in there.
#![cfg(target_os = "linux")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use cachekit_core::{BackendFactory, Bytes, Cache, CacheBuilder, ErrorKind, Reason, SetOptions, Stored};
use cachekit_sled::{SledConfig, SledFactory};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SIZE: u64 = 64 << 20;
const RESERVE: u64 = 16 << 20;
const AGAIN: &str = "CACHEKIT_SLED_TEST_MOUNTS";

/// A directory, on which a file system is mounted until it is dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn free(&self) -> u64 {
        let output = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(self.path()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().map(|number| number.parse::<u64>().unwrap()).product()
    }

    /// Somebody else's file, which leaves so much.
    fn fill(&self, left: u64) {
        let file = fs::File::create(self.path().join("somebody else's")).unwrap();
        let bytes = self.free().saturating_sub(left);
        std::io::copy(&mut std::io::Read::take(std::io::repeat(7), bytes), &mut &file).unwrap();
    }

    fn empty(&self) {
        fs::remove_file(self.path().join("somebody else's")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, since sled's threads may still be closing their files.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Runs the test with a disk of its own; for who may not mount, in a process that may.
fn with_disk(name: &str, test: impl AsyncFnOnce(&Disk)) {
    let directory = tempfile::tempdir().unwrap();
    let size = format!("size={SIZE}");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).output();
    if mounted.as_ref().is_ok_and(|output| output.status.success()) {
        let disk = Disk(directory);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(test(&disk));
        return;
    }
    assert!(std::env::var_os(AGAIN).is_none(), "this test needs the right to mount a file system: {mounted:?}");
    let mut again = Command::new("unshare");
    again.arg("-rm").arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture"]).env(AGAIN, "");
    let status = again.status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "as root, or where `unshare -rm` works, this test can mount a file system; here neither goes, or it failed \
         there: {mounted:?}, {status:?}"
    );
}

fn config(disk: &Disk) -> SledConfig {
    SledConfig::new(disk.path().join("cache")).with_min_free_bytes(Some(RESERVE)).with_cache_capacity(8 << 20)
}

fn cache(config: &SledConfig) -> CacheBuilder {
    // The time is for a busy machine.
    let factory = SledFactory::new(config.clone());
    Cache::builder("n").backend(factory).max_bytes(256 << 20).operation_timeout(Duration::from_secs(5))
}

fn value(key: usize, version: usize, bytes: usize) -> String {
    format!("<{key} {version}>").chars().cycle().take(bytes).collect()
}

/// Sets until one is not stored any more, and how many were.
async fn set_until_full(cache: &Cache, version: usize, bytes: usize) -> usize {
    for key in 0..100_000 {
        match cache.set(&format!("k{key}"), value(key, version, bytes)).await.unwrap() {
            Stored::Stored => {}
            other => {
                assert_eq!(other, Stored::L1Only(Reason::WriteError));
                return key;
            }
        }
    }
    panic!("the disk is not getting full");
}

/// One call, and then at most two seconds until writes are stored again; the rest is for a busy machine.
async fn stored_again(cache: &Cache) {
    let _ = cache.set("one call", value(0, 0, 10)).await;
    let started = Instant::now();
    while cache.set("again", value(1, 1, 20_000)).await.unwrap() != Stored::Stored {
        assert!(started.elapsed() < Duration::from_secs(4), "writes are not stored again: {:?}", cache.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("stored again after {:?}", started.elapsed());
}

#[test]
fn writes_go_to_l1_only_while_the_disk_is_full_and_are_stored_again_when_it_is_not() {
    with_disk("writes_go_to_l1_only_while_the_disk_is_full_and_are_stored_again_when_it_is_not", async |disk| {
        let config = config(disk);
        let (both, l2) = (cache(&config).build().unwrap(), cache(&config).without_l1().build().unwrap());
        let full = set_until_full(&both, 0, 100_000).await;
        assert!(full > 100 && disk.free() >= RESERVE, "{full} were stored, {} bytes are left", disk.free());
        for key in [0, full, full + 1] {
            let name = format!("k{key}");
            assert_eq!(both.set(&name, value(key, 1, 100_000)).await.unwrap(), Stored::L1Only(Reason::WriteError));
            assert_eq!(both.get::<String>(&name).await.unwrap(), Some(value(key, 1, 100_000)), "L1 goes on");
        }
        assert_eq!(l2.get::<String>("k3").await.unwrap(), Some(value(3, 0, 100_000)), "and so do reads");
        for key in 0..100 {
            both.delete(&format!("k{key}")).await.unwrap();
        }
        stored_again(&both).await;
        for key in 0..100 {
            assert_eq!(l2.get::<String>(&format!("k{key}")).await.unwrap(), None);
        }
        assert_eq!(l2.get::<String>("k100").await.unwrap(), Some(value(100, 0, 100_000)));
        both.close(Duration::from_secs(5)).await.unwrap();
    });
}

#[test]
fn what_somebody_else_takes_of_the_disk_counts_as_well() {
    with_disk("what_somebody_else_takes_of_the_disk_counts_as_well", async |disk| {
        let cache = cache(&config(disk)).build().unwrap();
        assert_eq!(cache.set("k", value(0, 0, 100)).await.unwrap(), Stored::Stored);
        disk.fill(RESERVE / 2);
        assert_eq!(cache.set("k", value(0, 1, 100)).await.unwrap(), Stored::L1Only(Reason::WriteError));
        assert_eq!(cache.get::<String>("k").await.unwrap(), Some(value(0, 1, 100)));
        disk.empty();
        stored_again(&cache).await;
    });
}

/// Without a reserve, sled itself meets the end of the disk, after which it does nothing more until it is opened anew.
#[test]
fn sled_that_met_the_end_of_the_disk_is_opened_anew_when_there_is_room() {
    with_disk("sled_that_met_the_end_of_the_disk_is_opened_anew_when_there_is_room", async |disk| {
        for round in 0..5 {
            let config = config(disk).with_min_free_bytes(Some(0));
            let (both, l2) = (cache(&config).build().unwrap(), cache(&config).without_l1().build().unwrap());
            assert_eq!(both.set("flushed", value(0, round, 100)).await.unwrap(), Stored::Stored);
            // Everything is flushed after half a second at most.
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            disk.fill(u64::try_from(round).unwrap() * 700_000);
            // Rows, for which sled has to grow.
            let full = set_until_full(&both, round, 4_000).await;
            for key in full..full + 200 {
                let (name, value) = (format!("k{key}"), value(key, round, 4_000));
                assert!(matches!(both.set(&name, value.clone()).await.unwrap(), Stored::L1Only(_)), "round {round}");
                assert_eq!(both.get::<String>(&name).await.unwrap(), Some(value), "L1 goes on");
            }
            assert_eq!(l2.get::<String>("flushed").await.unwrap(), Some(value(0, round, 100)), "and so do reads");
            disk.empty();
            stored_again(&both).await;
            // Its call that finds out that the database was closed.
            let _ = l2.get::<String>("flushed").await.unwrap();
            assert_eq!(l2.get::<String>("flushed").await.unwrap(), Some(value(0, round, 100)), "nor is it lost");
            let mut lost = 0;
            for key in 0..full + 200 {
                let found = l2.get::<String>(&format!("k{key}")).await.unwrap();
                // What was stored is there or lost, never what was there before; what was not may be older.
                let oldest = if key < full { round } else { 0 };
                let right = |found: &String| (oldest..=round).any(|round| *found == value(key, round, 4_000));
                assert!(found.as_ref().is_none_or(right), "round {round}: k{key}");
                lost += usize::from(key < full && found.is_none());
            }
            println!("round {round}: {full} were stored, {lost} of them are lost");
            both.close(Duration::from_secs(5)).await.unwrap();
            l2.close(Duration::from_secs(5)).await.unwrap();
        }
    });
}

#[test]
fn a_value_that_did_not_fit_leaves_no_part_and_takes_nothing_down() {
    with_disk("a_value_that_did_not_fit_leaves_no_part_and_takes_nothing_down", async |disk| {
        let backend = SledFactory::new(config(disk).with_min_free_bytes(Some(0))).build().await.unwrap();
        backend.set("k", Bytes::from_static(b"v"), SetOptions::default()).await.unwrap();
        disk.fill(1 << 20);
        let free = disk.free();
        let error = backend.set("large", vec![7; 4 << 20].into(), SetOptions::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.may_be_applied()), (ErrorKind::OutOfSpace, false), "{error}");
        assert!(disk.free() + 65_536 >= free, "{} of {free} bytes are left", disk.free());
        assert_eq!(backend.get("k").await.unwrap().as_deref(), Some(&b"v"[..]));
        disk.empty();
        backend.set("large", vec![7; 4 << 20].into(), SetOptions::default()).await.unwrap();
    });
}
