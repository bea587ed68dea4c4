//! Damaged files: the cache computes anew, and never returns other bytes than were stored.

use crate::{cache, close, fetch};
use cachekit::{BackendFactory, ErrorKind, Source};
use cachekit_redb::RedbFactory;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const KEYS: usize = 60;
const SEEDS: u64 = 40;
/// Of redb.
const PAGE_BYTES: usize = 4_096;

fn value_of(key: usize) -> String {
    format!("<the value of {key}>").repeat([1, 40, 700][key % 3])
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }
}

/// A file that was closed well, with the values of all keys in it.
async fn pristine(directory: &Path) -> PathBuf {
    let path = directory.join("pristine.redb");
    let cache = cache(&path);
    for key in 0..KEYS {
        fetch(&cache, &key.to_string(), &value_of(key)).await;
    }
    close(cache).await;
    path
}

/// What the backend by itself returns for a key of the cache.
async fn raw(path: &Path, key: usize) -> Option<Vec<u8>> {
    let backend = RedbFactory::new(path).build().await.ok()?;
    backend.get(&format!("n:{key}")).await.ok()?.map(|bytes| bytes.to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_a_miss_and_never_another_value() {
    let directory = tempfile::tempdir().unwrap();
    let pristine = pristine(directory.path()).await;
    let bytes = std::fs::read(&pristine).unwrap();
    let whole = raw(&pristine, 2).await.unwrap();
    // The middle of the value of key 2.
    let needle = &whole[whole.len() / 2..][..64];
    let at = bytes.windows(64).position(|window| window == needle).expect("the value lies in the file as it is");
    let mut flipped = bytes;
    flipped[at] ^= 4;
    let path = directory.path().join("flipped.redb");
    std::fs::write(&path, &flipped).unwrap();

    let served = raw(&path, 2).await.expect("redb does not look at the checksums of its pages when it reads");
    assert!(served != whole && served.len() == whole.len(), "this is what the cache has to notice");
    let fetched = fetch(&cache(&path), "2", "computed anew").await;
    assert_eq!((fetched.value.as_str(), fetched.source), ("computed anew", Source::Computed));
    // The new entry overwrote it.
    assert_eq!(fetch(&cache(&path), "2", "never").await.value, "computed anew");
    assert_eq!(fetch(&cache(&path), "5", "never").await.value, value_of(5), "the others are still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_gone_makes_room_for_a_fresh_file() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(pristine(directory.path()).await).unwrap();
    let mut met = 0;
    // Any page may be one that redb has freed, or needs for opening the file; some are only met by an operation.
    for page in (0..bytes.len() / PAGE_BYTES).filter(|page| bytes[page * PAGE_BYTES..][..PAGE_BYTES] != [0; PAGE_BYTES])
    {
        let path = directory.path().join(format!("{page}.redb"));
        let aside = directory.path().join(format!("{page}.redb.damaged"));
        let mut damaged = bytes.clone();
        damaged[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
        std::fs::write(&path, damaged).unwrap();
        let Ok(backend) = RedbFactory::new(&path).build().await else { continue };
        if aside.exists() {
            continue;
        }
        let Err(error) = backend.get("n:0").await else { continue };
        met += 1;
        assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
        assert_eq!(backend.get("n:2").await.unwrap_err().kind(), ErrorKind::Closed);
        assert!(aside.exists());
        assert_eq!(RedbFactory::new(&path).build().await.unwrap().get("n:2").await.unwrap(), None);
    }
    assert!(met > 0, "no page that was zeroed was met by a `get`");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_anywhere_costs_entries_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let pristine = pristine(directory.path()).await;
    let bytes = std::fs::read(&pristine).unwrap();
    // Most of a small file is empty, and damage there proves nothing.
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let mut outcomes = BTreeMap::<&str, usize>::new();
    for seed in 0..SEEDS {
        let random = &mut Random(seed);
        let mut damaged = bytes.clone();
        match seed % 4 {
            0 => damaged.truncate(random.below(bytes.len())),
            1 => {
                let at = used[random.below(used.len())];
                let end = damaged.len().min(at + 4_096);
                damaged[at..end].fill(0);
            }
            _ => (0..=random.below(20)).for_each(|_| damaged[used[random.below(used.len())]] ^= 1 << random.below(8)),
        }
        let path = directory.path().join(format!("{seed}.redb"));
        std::fs::write(&path, damaged).unwrap();

        // Three times: what cannot be read has to fail first, and then the file is opened anew.
        for round in 0..3 {
            let cache = cache(&path);
            for key in 0..KEYS {
                let fetched = fetch(&cache, &key.to_string(), &format!("anew {key}")).await;
                let known = [value_of(key), format!("anew {key}")].contains(&fetched.value);
                assert!(known, "seed {seed}: key {key} is {:?}", fetched.value);
                let outcome = match (fetched.source, fetched.degraded) {
                    (Source::L2, _) => "hit",
                    (_, None) => "miss",
                    (_, Some(reason)) => reason.as_str(),
                };
                *outcomes.entry(outcome).or_default() += 1;
                // A file whose first bytes are not redb's is not touched, so that one stays without a backend.
                let healed = round < 2 || ["build_failed", "circuit_open", "hit"].contains(&outcome);
                assert!(healed, "seed {seed}: key {key} is still {outcome}");
            }
            // After some of the damage there is nothing left that could be flushed.
            let _ = cache.close(Duration::from_secs(20)).await;
        }
    }
    println!("{outcomes:?}");
    let count = |outcome| outcomes.get(outcome).copied().unwrap_or_default();
    assert!(count("decode") > 0 && count("miss") > 0 && count("hit") > KEYS, "{outcomes:?}");
}
