//! A history of random work over random faults. Every value carries its key and its version, and whatever happens, no
//! read returns another key's value, a value that nobody wrote, or one that is older than the last set or delete of its
//! key that had returned when the read began.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::{Faults, ManualClock, MemoryBackend, Rates};
use cachekit::{Cache, CacheBuilder, Error};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const KEYS: usize = 5;
const WRITES: u64 = 400;
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
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// The only writer of its key.
async fn write(cache: Cache, clock: ManualClock, origin: Arc<Origin>, key: usize, seed: u64) {
    let mut choices = Choices(seed);
    for version in 1..=WRITES {
        origin.newest[key].store(version, SeqCst);
        let call = async {
            match choices.below(3) {
                0 => drop(cache.delete(&name(key)).await),
                _ => drop(cache.set(&name(key), (name(key), version)).await.unwrap()),
            }
        };
        if version % 7 == 0 {
            // A caller that goes away: nothing is known to have happened.
            let _ = tokio::time::timeout(Duration::from_micros(200), call).await;
            continue;
        }
        call.await;
        origin.settled[key].store(version, SeqCst);
        clock.advance(Duration::from_millis(choices.below(20)));
        if choices.below(100) == 0 {
            let _ = cache.clear().await;
        }
        tokio::task::yield_now().await;
    }
}

async fn read(cache: Cache, origin: Arc<Origin>, seed: u64) {
    let mut choices = Choices(seed);
    while origin.settled.iter().any(|version| version.load(SeqCst) < WRITES - 1) {
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

async fn history(seed: u64, rates: Rates, set_up: impl FnOnce(CacheBuilder) -> CacheBuilder) {
    let clock = ManualClock::new();
    let store = MemoryBackend::new().with_clock(Arc::new(clock.clone()));
    let faults = Faults::seeded(seed, rates);
    let faulty = cachekit::testing::FaultyBackend::with_faults(store, &faults);
    let builder = Cache::builder("history")
        .backend(cachekit::testing::ScriptedFactory::with_backend(faulty))
        .clock(Arc::new(clock.clone()))
        .default_ttl(Duration::from_millis(200))
        .l1_max_ttl(Duration::from_millis(30))
        .operation_timeout(Duration::from_millis(20));
    let cache = set_up(builder).build().unwrap();
    let origin = Arc::new(Origin::default());
    let mut tasks = Vec::new();
    for key in 0..KEYS {
        tasks.push(tokio::spawn(write(cache.clone(), clock.clone(), Arc::clone(&origin), key, seed + key as u64)));
    }
    for reader in 0..READERS {
        tasks.push(tokio::spawn(read(cache.clone(), Arc::clone(&origin), seed + 1_000 + reader as u64)));
    }
    for task in tasks {
        task.await.unwrap_or_else(|error| panic!("seed {seed}: {error} ({faults:?}, {:?})", cache.health()));
    }
    let health = cache.health();
    assert_eq!(health.in_progress, 0);
    assert!(origin.served.load(SeqCst) > 100 && health.requests.l2_hits > 10, "{health:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_older_than_settled_is_read_from_a_sound_backend() {
    for seed in 0..3 {
        history(seed, Rates::default(), |builder| builder).await;
        history(seed, Rates::default(), |builder| builder.without_l1()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_older_than_settled_is_read_from_a_backend_with_faults() {
    let rates = Rates { apply_then_fail: 0.05, corrupt: 0.05, delay: 0.05, fail: 0.1, hang: 0.01, ..Rates::default() };
    for seed in 10..13 {
        history(seed, rates, |builder| builder).await;
        history(seed, rates, |builder| builder.without_l1()).await;
        history(seed, rates, |builder| builder.l1_during_outage(true)).await;
        let counting = cachekit::breaker::BreakerConfig::new()
            .with_count_operation_errors(true)
            .with_recovery_timeout(Duration::from_millis(50));
        history(seed, rates, |builder| builder.breaker(counting).build_timeout(Duration::from_millis(20))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_older_than_settled_is_read_from_a_slow_backend() {
    let rates = Rates { delay: 0.8, ..Rates::default() };
    history(20, rates, |builder| builder).await;
    history(21, rates, |builder| builder.without_l1()).await;
}
