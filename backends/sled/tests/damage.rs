//! A directory with flipped, zeroed, cut or missing bytes: it can be built on, each read is a hit with the right bytes, a
//! miss or an error, and there is always an answer. About once in a thousand times sled itself has none: the damage left
//! a page as it was while another was being merged into its neighbour, and it tries to finish that for ever.
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
use std::path::{Path, PathBuf};
use std::time::Duration;

const SEEDS: std::ops::Range<u64> = 0..150;
const KEYS: usize = 120;
const NEW_KEYS: usize = 40;
/// A call that hangs is found out after 12 s.
const PATIENCE: Duration = Duration::from_secs(60);

fn value_of(key: usize) -> Vec<u8> {
    let bytes = [40, 3_000, 15_000, 40_000][key % 4];
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
    for file in files(from) {
        let copied = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(copied.parent().unwrap()).unwrap();
        fs::copy(&file, copied).unwrap();
    }
}

fn at(random: &mut Random, bytes: &[u8]) -> usize {
    usize::try_from(random.below(bytes.len().max(1) as u64)).unwrap()
}

fn damage(directory: &Path, random: &mut Random) -> String {
    // Not the file that says whose the directory is: without it nothing there is touched.
    let all: Vec<_> = files(directory).into_iter().filter(|file| !file.ends_with("cachekit.lock")).collect();
    // Mostly the log itself.
    let file = match random.below(4) {
        0 => &all[usize::try_from(random.below(all.len() as u64)).unwrap()],
        _ => all.iter().find(|file| file.ends_with("db")).unwrap(),
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
async fn outcome(path: &Path, did: &str) -> &'static str {
    let factory = SledFactory::new(SledConfig::new(path).with_cache_capacity(1 << 20));
    let backend = factory.build().await.unwrap_or_else(|error| panic!("{did}: {error}"));
    let aside = set_aside(path);
    let mut worst = if aside.is_some() { "set aside" } else { "all there" };
    for key in 0..KEYS {
        match backend.get(&format!("key{key}")).await {
            Ok(Some(value)) => assert!(value == value_of(key) && aside.is_none(), "{did}: key{key} has wrong bytes"),
            Ok(None) if worst == "all there" => worst = "misses",
            Ok(None) => {}
            Err(error) => {
                assert_ne!(error.kind(), cachekit_core::ErrorKind::ConfigInvalid);
                worst = "errors";
            }
        }
    }
    write_more(&*backend, did).await;
    // Whatever was the matter, whoever asks again gets a backend that works.
    let after = factory.build().await.unwrap_or_else(|error| panic!("{did}: {error}"));
    write_more(&*after, did).await;
    let _ = (backend.close().await, after.close().await);
    worst
}

fn set_aside(path: &Path) -> Option<PathBuf> {
    let prefix = format!("{}.corrupt-", path.file_name().unwrap().to_str().unwrap());
    let mut siblings = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    siblings.find(|entry| entry.file_name().to_str().unwrap().starts_with(&prefix)).map(|entry| entry.path())
}

/// New keys only: removals merge pages, and next to a damaged one sled may not come to the end of that.
async fn write_more(backend: &dyn Backend, did: &str) {
    for key in 0..NEW_KEYS {
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
fn damage_is_set_aside_or_a_miss_or_an_error_and_never_other_bytes_or_no_answer() {
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

        let mut outcomes = BTreeMap::<&str, u32>::new();
        for seed in SEEDS {
            let path = directory.path().join(format!("seed{seed}"));
            copy(&pristine, &path);
            let did = format!("seed {seed}: {}", damage(&path, &mut Random(seed)));
            let limited = tokio::time::timeout(PATIENCE, outcome(&path, &did)).await;
            let outcome = limited.unwrap_or_else(|_| panic!("{did}: no answer"));
            *outcomes.entry(outcome).or_default() += 1;
            for path in [Some(path.clone()), set_aside(&path)].into_iter().flatten() {
                let _ = fs::remove_dir_all(path);
            }
        }
        println!("{outcomes:?}");
        assert!(
            outcomes.contains_key("misses") && outcomes.contains_key("set aside"),
            "the damage has to do something: {outcomes:?}"
        );
    });
    // A job that never ends is sled's; it must not keep the test.
    runtime.shutdown_background();
}
