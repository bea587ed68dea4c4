//! A cache over a store in memory, with everything in a test's hands.
#![allow(dead_code, unreachable_pub, reason = "each test file compiles it anew and uses its own part")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use cachekit::testing::{Build, Faults, FaultyBackend, ManualClock, MemoryBackend, Op, ScriptedFactory};
use cachekit::{Cache, CacheBuilder, CallError, ErrorKind};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A cache of the namespace `n`, and handles on all that is behind it.
pub struct Rig {
    pub cache: Cache,
    pub store: MemoryBackend,
    pub faults: Faults,
    pub factory: ScriptedFactory,
    pub clock: ManualClock,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub fn with(set_up: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Self {
        let clock = ManualClock::new();
        let store = MemoryBackend::new().with_clock(Arc::new(clock.clone()));
        Self::over(store, clock, set_up)
    }

    /// What to build another cache over the same backend with.
    pub fn builder(&self) -> CacheBuilder {
        Cache::builder("n").backend(self.factory.clone()).clock(Arc::new(self.clock.clone()))
    }

    /// A second process over the same store.
    pub fn second(&self) -> Self {
        Self::over(self.store.clone(), self.clock.clone(), |builder| builder)
    }

    pub fn over(store: MemoryBackend, clock: ManualClock, set_up: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Self {
        let faulty = FaultyBackend::new(store.clone());
        let faults = faulty.faults();
        let factory = ScriptedFactory::with_backend(faulty);
        let builder = Cache::builder("n").backend(factory.clone()).clock(Arc::new(clock.clone()));
        Self { cache: set_up(builder).build().unwrap(), store, faults, factory, clock }
    }

    /// The backend cannot be built from now on.
    pub fn unbuildable(self) -> Self {
        self.factory.by_default(Build::Fail(ErrorKind::Unavailable));
        self
    }

    pub fn state(&self) -> &'static str {
        self.cache.breaker().state().as_str()
    }

    pub fn failures(&self) -> u32 {
        self.cache.breaker().snapshot().failure_count
    }

    /// Whether this process holds the key: asked behind the back of the L2.
    pub async fn in_l1(&self, key: &str) -> bool {
        let before = self.faults.total_calls() + self.factory.attempts();
        let hit = self.cache.exists(key).await.unwrap();
        hit && before == self.faults.total_calls() + self.factory.attempts()
    }

    pub fn in_l2(&self, key: &str) -> bool {
        self.store.raw(&format!("n:{key}")).is_some()
    }

    pub fn reads(&self) -> u64 {
        self.faults.calls(Op::Get)
    }

    pub fn writes(&self) -> u64 {
        self.faults.calls(Op::Set)
    }

    pub fn degraded(&self, reason: &str) -> u64 {
        self.cache.health().degraded.get(reason).copied().unwrap_or(0)
    }
}

/// Counts how often a function ran.
#[derive(Clone, Debug, Default)]
pub struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A function that counts its run and returns the value.
    pub async fn give<V>(&self, value: V) -> Result<V, Infallible> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(value)
    }

    pub async fn fail<V>(&self, error: &'static str) -> Result<V, &'static str> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(error)
    }
}

pub fn function_error<V: std::fmt::Debug, E>(result: Result<V, CallError<E>>) -> E {
    match result {
        Err(CallError::Function(error)) => error,
        Err(CallError::Cache(error)) => panic!("the cache refused: {error}"),
        Ok(value) => panic!("a value: {value:?}"),
    }
}

impl Runs {
    /// [`give`](Self::give) that keeps the counter alive by itself.
    pub async fn give_owned<V>(self, value: V) -> Result<V, Infallible> {
        self.give(value).await
    }

    pub async fn fail_owned<V>(self, error: &'static str) -> Result<V, &'static str> {
        self.fail(error).await
    }
}
