//! What the directory grows to.

use crate::{get, open, set};
use std::path::Path;

const KEYS: usize = 20;
const BYTES: usize = 300 * 1024;
const ROUNDS: usize = 100;

#[tokio::test]
async fn overwriting_large_values_does_not_fill_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let backend = open(directory.path()).await;
    for round in 0..ROUNDS {
        for key in 0..KEYS {
            let value = vec![u8::try_from((round + key) % 256).unwrap(); BYTES];
            set(&*backend, &format!("k{key}"), &value).await;
        }
        let disk = size_of(directory.path());
        assert!(disk < 3 * (KEYS * BYTES) as u64, "round {round}: {disk} bytes on disk");
    }
    for key in 0..KEYS {
        let value = get(&*backend, &format!("k{key}")).await.unwrap();
        assert!(value.len() == BYTES && usize::from(value[0]) == (ROUNDS - 1 + key) % 256);
    }
    backend.close().await.unwrap();
    let live = KEYS * BYTES;
    let disk = size_of(directory.path());
    println!("live {} KiB, written {} KiB, on disk {} KiB", live >> 10, (live * ROUNDS) >> 10, disk >> 10);
    assert!(disk < 3 * live as u64, "{disk} bytes on disk for {live} live ones");
}

#[tokio::test]
async fn u083_one_key_overwritten_a_hundred_times_takes_little_meanwhile_and_after() {
    let directory = tempfile::tempdir().unwrap();
    let backend = open(directory.path()).await;
    for round in 0..100_u8 {
        set(&*backend, "k", &vec![round; 1 << 20]).await;
        assert!(size_of(directory.path()) < 20 << 20, "round {round}");
    }
    drop(backend);
    assert!(get(&*open(directory.path()).await, "k").await.is_some_and(|value| value[0] == 99));
    assert!(size_of(directory.path()) < 20 << 20);
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
