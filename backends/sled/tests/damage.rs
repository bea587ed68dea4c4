//! A directory with flipped, zeroed, cut or missing bytes: an error or a miss, never other bytes, never a panic. Once in
//! about a thousand times no answer: the damage left a page as it was while another was being merged into its neighbour,
//! and sled tries to finish that for ever.
//!
//! A binary of its own, since it silences the messages of sled's panics.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use cachekit_core::{Backend, BackendFactory, Bytes, SetOptions};
use cachekit_sled::{SledConfig, SledFactory};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SEEDS: u64 = 150;
const MOST_WITHOUT_ANSWER: u32 = 5;
const KEYS: usize = 40;
const NO_ANSWER: &str = "no answer";

fn value_of(key: usize) -> Vec<u8> {
    let bytes = [40, 3_000, 50_000, 150_000][key % 4];
    format!("<value of key {key}>").bytes().cycle().take(bytes).collect()
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect();
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("blobs")).unwrap();
    for file in files(from) {
        match fs::copy(&file, to.join(file.strip_prefix(from).unwrap())) {
            // A thread of sled's removes blobs that nothing refers to any more, even after the close.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
}

fn at(random: &mut Random, bytes: &[u8]) -> usize {
    usize::try_from(random.below(bytes.len().max(1) as u64)).unwrap()
}

fn damage(directory: &Path, random: &mut Random) -> String {
    let all = files(directory);
    // Mostly the log itself.
    let file = match random.below(4) {
        0 => &all[usize::try_from(random.below(all.len() as u64)).unwrap()],
        _ => &directory.join("db"),
    };
    let mut bytes = fs::read(file).unwrap();
    let what = match random.below(5) {
        0 => {
            let length = at(random, &bytes);
            bytes.truncate(length);
            "cut"
        }
        1 => {
            let start = at(random, &bytes);
            let end = bytes.len().min(start + 4_096);
            bytes[start..end].fill(0);
            "zeroed"
        }
        2 => {
            fs::remove_file(file).unwrap();
            return format!("removed {}", file.display());
        }
        _ => {
            for _ in 0..=random.below(20) {
                let position = at(random, &bytes);
                if let Some(byte) = bytes.get_mut(position) {
                    *byte ^= 1 << random.below(8);
                }
            }
            "flipped"
        }
    };
    fs::write(file, bytes).unwrap();
    format!("{what} {}", file.display())
}

/// How a damaged directory turned out, and what was read from it.
async fn outcome(path: &Path, did: &str) -> String {
    let factory = SledFactory::new(SledConfig::new(path).with_cache_capacity(1 << 20));
    let backend = match factory.build().await {
        Ok(backend) => backend,
        Err(error) => {
            assert!(error.to_string().contains(path.to_str().unwrap()), "{did}: {error}");
            return format!("build {}", error.kind());
        }
    };
    let mut worst = "all there";
    for key in 0..KEYS {
        match backend.get(&format!("key{key}")).await {
            Ok(Some(value)) => assert!(value == value_of(key), "{did}: key{key} has wrong bytes"),
            Ok(None) if worst == "all there" => worst = "misses",
            Ok(None) => {}
            Err(error) => {
                assert_ne!(error.kind(), cachekit_core::ErrorKind::ConfigInvalid);
                worst = "errors";
            }
        }
    }
    write_more(&*backend, did).await;
    let _ = backend.close().await;
    worst.to_owned()
}

/// New keys only: removals merge pages, and next to a damaged one sled may not come to the end of that.
async fn write_more(backend: &dyn Backend, did: &str) {
    for key in 0..KEYS {
        let key = format!("new key{key}");
        let value = Bytes::from(format!("new value of {key}"));
        if backend.set(&key, value.clone(), SetOptions::default()).await.is_ok()
            && let Ok(found) = backend.get(&key).await
        {
            assert!(found == Some(value), "{did}: {key} is not what was just set");
        }
    }
}

#[test]
fn damage_is_an_error_or_a_miss_and_never_a_panic_or_other_bytes() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Only the test's own thread is expected not to panic; everything else is sled, and caught.
        if std::thread::current().name().is_some_and(|name| name.starts_with("damage_")) {
            default(info);
        }
    }));
    // In memory where that is possible: sled syncs on every close, which can take seconds on a busy disk.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let pristine = directory.path().join("pristine");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let backend = SledFactory::new(SledConfig::new(&pristine)).build().await.unwrap();
        for round in 0..3 {
            for key in 0..KEYS {
                let ttl = (key % 3 == round).then_some(Duration::from_secs(3_600));
                let options = SetOptions::default().with_ttl(ttl);
                backend.set(&format!("key{key}"), value_of(key).into(), options).await.unwrap();
            }
        }
        backend.close().await.unwrap();

        let mut outcomes = BTreeMap::<String, u32>::new();
        for seed in 0..SEEDS {
            let path = directory.path().join(format!("seed{seed}"));
            copy(&pristine, &path);
            let did = format!("seed {seed}: {}", damage(&path, &mut Random(seed)));
            let limited = tokio::time::timeout(Duration::from_secs(20), outcome(&path, &did)).await;
            let outcome = limited.unwrap_or_else(|_| {
                println!("{did}: no answer");
                NO_ANSWER.to_owned()
            });
            *outcomes.entry(outcome).or_default() += 1;
            let _ = fs::remove_dir_all(&path);
        }
        println!("{outcomes:?}");
        assert!(outcomes.get(NO_ANSWER).is_none_or(|count| *count <= MOST_WITHOUT_ANSWER), "{outcomes:?}");
        assert!(outcomes.len() > 2, "the damage has to do something: {outcomes:?}");
    });
    // A job that never ends is sled's; it must not keep the test.
    runtime.shutdown_background();
}
