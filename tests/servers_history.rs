//! The history of `tests/history.rs` over the backends that people run, while their servers fail.
//!
//! Two things are left out, since only the store could prevent them (the README says so): callers that go away in the middle
//! of a write, and servers that hang with a write in their hands. Both may land behind a later write.
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/workload.rs"]
mod workload;

use cachekit::sled::{SledConfig, SledFactory};
use cachekit::testing::{Faults, FaultyBackend, Op, Rates};
use cachekit::{
    Backend, BackendError, BackendFactory, Cache, CacheBuilder, ErrorKind, async_trait, breaker::BreakerConfig,
    registry,
};
use cachekit_servers::{Memcached, Mode, Proxy, RedisServer};
use futures_util::future::FutureExt;
use std::sync::Arc;
use std::time::Duration;
use workload::{Choices, Workload};

fn workload(writes: u64) -> Workload {
    let pass = |millis| tokio::time::sleep(Duration::from_millis(millis / 8)).boxed();
    Workload { writes, callers_leave: false, pass: Arc::new(pass) }
}

/// Entries end, in both tiers, while the history goes on; and a circuit that opened is soon tried again.
fn cache(factory: impl BackendFactory, set_up: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Cache {
    let builder = Cache::builder("history")
        .backend(factory)
        .breaker(BreakerConfig::new().with_recovery_timeout(Duration::from_millis(20)))
        .default_ttl(Duration::from_millis(400))
        .l1_max_ttl(Duration::from_millis(5));
    set_up(builder).build().unwrap()
}

/// Runs the history, and one fault after the other until it has ended.
async fn with_faults(name: &str, cache: &Cache, writes: u64, seed: u64, fault: impl Fn(u64) + Send + 'static) {
    let (done, ended) = tokio::sync::oneshot::channel::<()>();
    // A thread: some faults wait for a server.
    let faults = std::thread::spawn(move || {
        let (mut choices, mut ended, mut count) = (Choices(seed), ended, 0);
        while ended.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
            std::thread::sleep(Duration::from_millis(60 + choices.below(240)));
            fault(choices.below(u64::MAX));
            count += 1;
        }
        count
    });
    workload(writes).run(cache, seed, name).await;
    let _ = done.send(());
    let count = faults.join().unwrap();
    let health = cache.health();
    println!("{name}: {count} faults, {:?}, {:?}", health.requests, health.degraded);
    assert!(count >= 3, "{name} had only {count} faults");
    assert!(health.requests.l2_hits > 30, "{name}: {health:?}");
    assert!(
        health.degraded.contains_key("read_error") || health.degraded.contains_key("read_timeout"),
        "{name}: {health:?}"
    );
}

/// What the wire and the server can do to an operation that is then over.
fn break_something(choice: u64, proxy: &Proxy, restart: impl Fn()) {
    match choice % 6 {
        0 => restart(),
        1 => proxy.reset_all(),
        2 => {
            proxy.set(Mode::Refuse);
            proxy.reset_all();
            std::thread::sleep(Duration::from_millis(30));
        }
        3 => {
            proxy.set(Mode::CutAfter(choice % 200));
            std::thread::sleep(Duration::from_millis(30));
        }
        4 => {
            proxy.set(Mode::Garbage);
            std::thread::sleep(Duration::from_millis(30));
        }
        _ => {
            proxy.set(Mode::Delay(Duration::from_millis(3)));
            std::thread::sleep(Duration::from_millis(30));
        }
    }
    proxy.set(Mode::Pass);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_under_faults() {
    for (seed, tracked, counted) in [(1, false, false), (2, true, true)] {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.address());
        let factory = registry().factory(&format!("redis://{}", proxy.address())).unwrap();
        let config =
            BreakerConfig::new().with_count_operation_errors(counted).with_recovery_timeout(Duration::from_millis(20));
        let cache = cache(factory, |builder| builder.track_changes(tracked).breaker(config));
        with_faults("redis", &cache, 800, seed, move |choice| {
            break_something(choice, &proxy, || server.restart());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memcached_under_faults() {
    let servers = [Memcached::start(), Memcached::start(), Memcached::start()];
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.address())).collect();
    let addresses: Vec<_> = proxies.iter().map(Proxy::address).collect();
    // Left alone for a moment only, so that there is something to fail again.
    let url = format!("memcache://{}?open_for_ms=50", addresses.join(","));
    let cache = cache(registry().factory(&url).unwrap(), |builder| builder);
    with_faults("memcached", &cache, 1_500, 3, move |choice| {
        let which = usize::try_from(choice / 1_000 % 3).unwrap();
        break_something(choice, &proxies[which], || servers[which].restart());
    })
    .await;
}

/// sled in this process fails as a disk does: before or after it was done, or late.
#[derive(Debug)]
struct Worn {
    sled: SledFactory,
    faults: Faults,
}

#[async_trait]
impl BackendFactory for Worn {
    fn name(&self) -> &'static str {
        "sled"
    }
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        Ok(Arc::new(FaultyBackend::with_faults(self.sled.build().await?, &self.faults)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sled_under_faults() {
    let rates = Rates { apply_then_fail: 0.03, corrupt: 0.03, delay: 0.02, fail: 0.05, ..Rates::default() };
    let faults = Faults::seeded(4, rates);
    let directory = tempfile::tempdir().unwrap();
    let sled = SledFactory::new(SledConfig::new(directory.path().join("cache")));
    let cache = cache(Worn { sled, faults: faults.clone() }, |builder| builder);
    with_faults("sled", &cache, 400, 4, move |choice| {
        // The backend is closed under the cache, which opens it again.
        if choice % 4 == 0 {
            faults.fail_next(Op::Get, 1, ErrorKind::Closed);
        }
    })
    .await;
}
