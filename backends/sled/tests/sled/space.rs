//! What the directory grows to, and that sled makes no file below `blobs`: it keeps those for ever once it is killed.

use crate::{get, open, set};
use cachekit_core::{BackendFactory, Bytes, SetOptions};
use cachekit_sled::{SledConfig, SledFactory};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const KEYS: usize = 20;
const BYTES: usize = 300 * 1024;
const ROUNDS: usize = 100;

#[tokio::test]
async fn overwriting_large_values_does_not_fill_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let backend = open(directory.path()).await;
    let before = blobs(directory.path()).await;
    for round in 0..ROUNDS {
        for key in 0..KEYS {
            let value = vec![u8::try_from((round + key) % 256).unwrap(); BYTES];
            set(&*backend, &format!("k{key}"), &value).await;
        }
    }
    for key in 0..KEYS {
        let value = get(&*backend, &format!("k{key}")).await.unwrap();
        assert!(value.len() == BYTES && usize::from(value[0]) == (ROUNDS - 1 + key) % 256);
    }
    backend.close().await.unwrap();
    let live = KEYS * BYTES;
    let disk = size_of(directory.path());
    println!("live {} KiB, written {} KiB, on disk {} KiB", live >> 10, (live * ROUNDS) >> 10, disk >> 10);
    assert!(disk < 16 * live as u64, "{disk} bytes on disk for {live} live ones");
    assert_eq!(blobs(directory.path()).await, before);
}

/// The largest pages there can be: rows as large as they get, keys as long as they get and alike up to their end, and
/// removals, which make pages merge, in many threads at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_page_gets_so_large_that_sled_makes_a_file_of_it() {
    const TASKS: u64 = 16;
    const MOST: usize = 2 << 20;
    let directory = tempfile::tempdir().unwrap();
    let config = SledConfig::new(directory.path()).with_max_value_bytes(MOST);
    let backend = SledFactory::new(config).build().await.unwrap();
    let before = blobs(directory.path()).await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let backend = Arc::clone(&backend);
            tokio::spawn(async move {
                // So many that an inner page of theirs is full.
                for i in 0..250 {
                    let key = format!("{:0>1020}{:04}", "", i * TASKS + task);
                    backend.set(&key, Bytes::from_static(b"v"), SetOptions::default()).await.unwrap();
                }
                let mut random = task;
                let mut below = |bound: u64| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    usize::try_from((random >> 33) % bound).unwrap()
                };
                for i in 0..300 {
                    let width = if below(4) == 0 { 1_024 } else { 4 };
                    let key = format!("{:0>width$}", below(200));
                    // A time in which most are written, and one in which most are removed.
                    if below(10) < if i / 60 % 2 == 0 { 1 } else { 8 } {
                        backend.delete(&key).await.unwrap();
                        continue;
                    }
                    // 16 KiB are the largest row, of which the key and 26 bytes are not the value.
                    let row = 16 * 1024 - 26 - key.len();
                    let bytes = [40, row - 1, row, row + 1, 16 * 1024, 5 * 16 * 1024, BYTES][below(7)];
                    let options = SetOptions::default().with_ttl(Some(Duration::from_secs(3_600)));
                    backend.set(&key, vec![1; bytes].into(), options).await.unwrap();
                }
                backend.set(&format!("largest {task}"), vec![2; MOST].into(), SetOptions::default()).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for prefix in ["0", "1", "largest"] {
        backend.clear(prefix).await.unwrap();
    }
    backend.close().await.unwrap();
    println!("on disk {} KiB", size_of(directory.path()) >> 10);
    assert_eq!(blobs(directory.path()).await, before);
}

/// When a file below `blobs` was last made or removed. There is none.
async fn blobs(directory: &Path) -> SystemTime {
    let blobs = directory.join("blobs");
    assert_eq!(std::fs::read_dir(&blobs).unwrap().count(), 0);
    // The next change gets another time.
    tokio::time::sleep(Duration::from_millis(20)).await;
    blobs.metadata().unwrap().modified().unwrap()
}

fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.metadata().unwrap() {
            metadata if metadata.is_dir() => size_of(&entry.path()),
            metadata => metadata.len(),
        })
        .sum()
}
