//! Large values that are overwritten again and again: unchunked, sled keeps every old one on the disk for ever.

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
