//! Random work on a cache, and what a read may never return: every value carries its key and its version.
#![allow(unreachable_pub, reason = "each test file compiles it anew")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use cachekit::{Cache, Error};
use futures_util::future::BoxFuture;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const KEYS: usize = 5;
const READERS: usize = 3;

type Value = (String, u64);

/// What the cache stands in front of.
#[derive(Default)]
struct Origin {
    /// The newest version there is.
    newest: [AtomicU64; KEYS],
    /// The version of the last write that had returned.
    settled: [AtomicU64; KEYS],
    served: AtomicU64,
}

fn name(key: usize) -> String {
    format!("key {key}")
}

/// A small generator, so that a seed reproduces the choices (the scheduling it cannot).
pub struct Choices(pub u64);

impl Choices {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// Writers, one per key, and readers.
#[derive(Clone)]
pub struct Workload {
    /// How often each key is written.
    pub writes: u64,
    /// Whether some callers go away in the middle of their call.
    pub callers_leave: bool,
    /// Lets so many milliseconds go by between two writes, on whatever clock.
    pub pass: Arc<dyn Fn(u64) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Workload {
    /// Runs it to its end; `context` says more when it fails.
    pub async fn run(&self, cache: &Cache, seed: u64, context: &str) {
        let origin = Arc::new(Origin::default());
        let mut tasks = Vec::new();
        for key in 0..KEYS {
            let (this, cache, origin) = (self.clone(), cache.clone(), Arc::clone(&origin));
            tasks.push(tokio::spawn(async move { this.write(cache, origin, key, seed + key as u64).await }));
        }
        for reader in 0..READERS {
            let (this, cache, origin) = (self.clone(), cache.clone(), Arc::clone(&origin));
            tasks.push(tokio::spawn(async move { this.read(cache, origin, seed + 1_000 + reader as u64).await }));
        }
        for task in tasks {
            task.await.unwrap_or_else(|error| panic!("seed {seed}: {error} ({context}, {:?})", cache.health()));
        }
        assert_eq!(cache.health().in_progress, 0);
        assert!(origin.served.load(SeqCst) > 100, "{:?}", cache.health());
    }

    /// The only writer of its key.
    async fn write(&self, cache: Cache, origin: Arc<Origin>, key: usize, seed: u64) {
        let mut choices = Choices(seed);
        for version in 1..=self.writes {
            origin.newest[key].store(version, SeqCst);
            let call = async {
                match choices.below(3) {
                    0 => drop(cache.delete(&name(key)).await),
                    _ => drop(cache.set(&name(key), (name(key), version)).await.unwrap()),
                }
            };
            if self.callers_leave && version % 7 == 0 {
                // Nothing is known to have happened.
                let _ = tokio::time::timeout(Duration::from_micros(200), call).await;
                continue;
            }
            call.await;
            origin.settled[key].store(version, SeqCst);
            (self.pass)(choices.below(20)).await;
            if choices.below(100) == 0 {
                let _ = cache.clear().await;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn read(&self, cache: Cache, origin: Arc<Origin>, seed: u64) {
        let mut choices = Choices(seed);
        while origin.settled.iter().any(|version| version.load(SeqCst) < self.writes - 1) {
            let key = usize::try_from(choices.below(KEYS as u64)).unwrap();
            let at_least = origin.settled[key].load(SeqCst);
            let found: Result<Option<Value>, Error> = match choices.below(3) {
                0 => cache.get(&name(key)).await,
                _ => {
                    let origin = Arc::clone(&origin);
                    let function = || async move {
                        tokio::task::yield_now().await;
                        let value = (name(key), origin.newest[key].load(SeqCst));
                        tokio::task::yield_now().await;
                        Ok::<_, Infallible>(value)
                    };
                    Ok(Some(cache.get_or_compute(&name(key), function).await.unwrap()))
                }
            };
            if let Some((of, version)) = found.unwrap() {
                origin.served.fetch_add(1, SeqCst);
                assert_eq!(of, name(key), "another key's value");
                assert!(version >= at_least, "{of}: version {version} after {at_least} had settled");
                assert!(version <= origin.newest[key].load(SeqCst), "{of}: version {version} was never written");
            }
            tokio::task::yield_now().await;
        }
    }
}
