//! A history of random work over random faults. Every value carries its key and its version, and whatever happens, no
//! read returns another key's value, a value that nobody wrote, or one that is older than the last set or delete of its
//! key that had returned when the read began.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/workload.rs"]
mod workload;

use cachekit::testing::{Faults, ManualClock, MemoryBackend, Rates};
use cachekit::{
    Backend, BackendError, BackendFactory, BackendHealth, Bytes, Cache, CacheBuilder, Capabilities, ErrorKind,
    SetOptions, async_trait,
};
use futures_util::future::FutureExt;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use workload::{Choices, Workload};

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
    let pass = move |millis| {
        clock.advance(Duration::from_millis(millis));
        std::future::ready(()).boxed()
    };
    let workload = Workload { writes: 400, callers_leave: true, pass: Arc::new(pass) };
    workload.run(&cache, seed, &format!("{faults:?}")).await;
    assert!(cache.health().requests.l2_hits > 10, "{:?}", cache.health());
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

/// A store that fails, applies and fails, and lets others run in the middle, all at random.
#[derive(Clone, Debug)]
struct Restless {
    store: MemoryBackend,
    state: Arc<AtomicU64>,
}

impl Restless {
    async fn sometimes(&self, fail_one_in: u64) -> Result<(), BackendError> {
        let choice = Choices(self.state.fetch_add(1, SeqCst)).below(u64::MAX);
        if choice.is_multiple_of(4) {
            tokio::task::yield_now().await;
        }
        if (choice / 4).is_multiple_of(fail_one_in) {
            return Err(BackendError::new(ErrorKind::Unavailable, "at random"));
        }
        Ok(())
    }
}

#[async_trait]
impl BackendFactory for Restless {
    fn name(&self) -> &'static str {
        "restless"
    }
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Backend for Restless {
    fn name(&self) -> &'static str {
        "restless"
    }
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        self.sometimes(31).await?;
        let value = self.store.get(key).await?;
        self.sometimes(1_000).await?;
        Ok(value)
    }
    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        self.sometimes(7).await?;
        self.store.set(key, value, options).await?;
        self.sometimes(11).await
    }
    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        self.sometimes(5).await?;
        let there = self.store.delete(key).await?;
        self.sometimes(11).await?;
        Ok(there)
    }
    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        self.sometimes(3).await?;
        self.store.clear(prefix).await?;
        self.sometimes(11).await
    }
    async fn health(&self) -> Result<BackendHealth, BackendError> {
        self.store.health().await
    }
}

/// One writer, six readers, one key, and no time in which nothing happens.
async fn contended(seed: u64, clears: bool, set_up: impl FnOnce(CacheBuilder) -> CacheBuilder) {
    let backend = Restless { store: MemoryBackend::new(), state: Arc::new(AtomicU64::new(seed)) };
    let cache = set_up(Cache::builder("contended").backend(backend)).build().unwrap();
    let (newest, settled) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let done = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (cache, newest, settled, done) = (cache.clone(), newest.clone(), settled.clone(), done.clone());
        async move {
            let mut choices = Choices(seed);
            for _ in 0..20_000 {
                let version = newest.fetch_add(1, SeqCst) + 1;
                match choices.below(6) {
                    0 | 1 => drop(cache.delete("k").await),
                    2 if clears => drop(cache.clear().await),
                    3 => {
                        // A caller that goes away half-way; what it was about is not settled.
                        let mut call = Box::pin(cache.set("k", version));
                        for _ in 0..choices.below(4) {
                            if futures_util::future::poll_immediate(&mut call).await.is_some() {
                                break;
                            }
                            tokio::task::yield_now().await;
                        }
                        continue;
                    }
                    _ => drop(cache.set("k", version).await),
                }
                settled.store(version, SeqCst);
                if choices.below(3) == 0 {
                    tokio::task::yield_now().await;
                }
            }
            done.store(true, SeqCst);
        }
    });
    let readers: Vec<_> = (0..6)
        .map(|reader| {
            let (cache, newest, settled, done) = (cache.clone(), newest.clone(), settled.clone(), done.clone());
            tokio::spawn(async move {
                let mut choices = Choices(seed + reader);
                while !done.load(SeqCst) {
                    let at_least = settled.load(SeqCst);
                    let found = if reader % 2 == 0 {
                        cache.get::<u64>("k").await.unwrap()
                    } else {
                        let function = || async {
                            let version = newest.load(SeqCst);
                            if version.is_multiple_of(3) {
                                tokio::task::yield_now().await;
                            }
                            Ok::<_, Infallible>(version)
                        };
                        Some(cache.get_or_compute("k", function).await.unwrap())
                    };
                    assert!(found.is_none_or(|version| version >= at_least), "{found:?} after {at_least}, seed {seed}");
                    if choices.below(16) == 0 {
                        let _ = cache.set("another", 1).await;
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    writer.await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn nothing_older_than_settled_is_read_under_contention() {
    for (seed, clears) in [(1, false), (2, true)] {
        contended(seed, clears, |builder| builder).await;
        contended(seed, clears, |builder| builder.without_l1()).await;
        contended(seed, clears, |builder| builder.max_entries(1)).await;
    }
}
