//! The in-process tier: its bounds, its memory of time, its typed values.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::ManualClock;
use cachekit::{Cache, Stored};
use std::sync::Arc;
use std::time::Duration;
use support::Runs;

fn with_clock(clock: &ManualClock) -> cachekit::CacheBuilder {
    Cache::builder("n").clock(Arc::new(clock.clone()))
}

fn entries(cache: &Cache) -> usize {
    cache.health().l1.unwrap().entries
}

fn bytes(cache: &Cache) -> u64 {
    cache.health().l1.unwrap().bytes
}

#[tokio::test]
async fn u022_u025_expired_entries_go_without_being_read_again() {
    let clock = ManualClock::new();
    let cache = with_clock(&clock).default_ttl(Duration::from_secs(1)).build().unwrap();
    for i in 0..10_000 {
        let _ = cache.set(&i.to_string(), i).await.unwrap();
    }
    assert_eq!(entries(&cache), 10_000);
    clock.advance(Duration::from_millis(2_500));
    assert_eq!(cache.get::<i32>("1").await.unwrap(), None);
    // Each write takes up to 16 away.
    for i in 0..2_000 {
        let _ = cache.set(&format!("new {}", i % 10), i).await.unwrap();
    }
    assert_eq!(entries(&cache), 10);
    clock.advance(Duration::from_secs(1));
    assert_eq!(cache.remove_expired(), 10, "what the sweep does");
    assert_eq!((entries(&cache), bytes(&cache)), (0, 0));
}

#[tokio::test]
async fn u023_max_bytes_bounds_bytes() {
    let cache = Cache::builder("n").max_bytes(1 << 20).build().unwrap();
    for i in 0..100 {
        let _ = cache.set(&i.to_string(), "x".repeat(64 << 10)).await.unwrap();
        assert!(bytes(&cache) <= 1 << 20);
    }
    assert!((8..=15).contains(&entries(&cache)), "{} entries", entries(&cache));
}

#[tokio::test]
async fn max_entries_bounds_entries() {
    for most in [1, 2, 3, 10, 100, 1_000] {
        let cache = Cache::builder("n").max_entries(most).build().unwrap();
        for i in 0..3 * most {
            let _ = cache.set(&i.to_string(), i).await.unwrap();
            assert!(entries(&cache) as u64 <= most);
            assert_eq!(cache.get(&i.to_string()).await.unwrap(), Some(i), "u041: read your write at once, of {most}");
        }
        assert!(entries(&cache) as u64 * 10 >= most * 7, "{} of {most} are used", entries(&cache));
    }
}

#[tokio::test]
async fn a_value_that_l1_cannot_hold_replaces_the_older_one_by_nothing_and_says_so() {
    use cachekit::Reason;
    let bounded = |builder: cachekit::CacheBuilder| builder.max_bytes(10_000).max_entries(100);
    let cache = bounded(Cache::builder("n")).build().unwrap();
    for bytes in [9_900, 20_000] {
        assert_eq!(cache.set("k", vec![1_u8; 10]).await.unwrap(), Stored::Stored);
        assert_eq!(cache.set("k", vec![1_u8; bytes]).await.unwrap(), Stored::Skipped(Reason::TooLarge), "{bytes}");
        assert_eq!(cache.get::<Vec<u8>>("k").await.unwrap(), None);
    }
    // With an L2 it is there, and L1 does not get in the way.
    let rig = support::Rig::with(bounded);
    let _ = rig.cache.set("k", vec![1_u8; 10]).await.unwrap();
    assert_eq!(rig.cache.set("k", vec![1_u8; 20_000]).await.unwrap(), Stored::Stored);
    assert_eq!(rig.cache.get::<Vec<u8>>("k").await.unwrap(), Some(vec![1; 20_000]));
    rig.faults.fail_all(cachekit::testing::Op::Set, cachekit::ErrorKind::Unavailable);
    let stored = rig.cache.set("k", vec![1_u8; 20_000]).await.unwrap();
    assert_eq!(stored, Stored::Skipped(Reason::WriteError), "in no tier at all");
}

#[tokio::test]
async fn odd_bounds_are_bounds_too() {
    for (bytes, most) in
        [(u64::MAX, 1), (u64::MAX, 2), (u64::MAX, u64::MAX), (1_000, 600), (10, 11), (1 << 16, 100_000)]
    {
        let cache = Cache::builder("n").max_bytes(bytes).max_entries(most).build().unwrap();
        for i in 0..100 {
            let _ = cache.set(&i.to_string(), i).await.unwrap();
        }
        assert!(entries(&cache) as u64 <= most, "{bytes} {most}");
        assert!(self::bytes(&cache) <= bytes, "{bytes} {most}");
    }
    let small = Cache::builder("n").max_bytes(1 << 16).build().unwrap();
    assert_eq!(small.set("k", 1).await.unwrap(), Stored::Stored);
}

#[tokio::test]
async fn the_largest_value_fits_whatever_the_number_of_cores() {
    let cache = Cache::builder("n").max_value_bytes(8 << 20).build().unwrap();
    let largest = vec![7_u8; (8 << 20) - 44 - 5];
    for i in 0..3 {
        let _ = cache.set(&i.to_string(), serde_bytes_like(&largest)).await.unwrap();
        assert!(cache.exists(&i.to_string()).await.unwrap());
    }
}

/// A `Vec<u8>` is an array to serde; a string is as long as it is.
fn serde_bytes_like(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn an_entry_weighs_its_bytes_its_key_and_64() {
    let cache = Cache::builder("n").max_bytes(1 << 20).max_entries(1 << 20).build().unwrap();
    let _ = cache.set("key", "x".repeat(100)).await.unwrap();
    // Header and checksum 44, MessagePack 2 + 100, `n:key` 5, and 64.
    assert_eq!(bytes(&cache), 44 + 102 + 5 + 64);
    assert!(cache.delete("key").await.unwrap());
    assert_eq!(bytes(&cache), 0);
}

#[tokio::test]
async fn values_come_back_as_they_are_without_decoding() {
    #[derive(Clone, Debug, serde::Serialize)]
    struct WriteOnly(u8);
    impl<'de> serde::Deserialize<'de> for WriteOnly {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Err(serde::de::Error::custom("never decoded"))
        }
    }
    let cache = Cache::builder("n").build().unwrap();
    let _ = cache.set("k", WriteOnly(7)).await.unwrap();
    assert_eq!(cache.get::<WriteOnly>("k").await.unwrap().unwrap().0, 7);
}

#[tokio::test]
async fn u046_each_call_counts_once() {
    let cache = Cache::builder("n").build().unwrap();
    let runs = Runs::new();
    assert_eq!(cache.get_or_compute("k", || runs.give(1)).await.unwrap(), 1);
    let requests = cache.health().requests;
    assert_eq!((requests.misses, requests.l1_hits), (1, 0));
    assert_eq!(cache.get_or_compute("k", || runs.give(1)).await.unwrap(), 1);
    assert_eq!(cache.get::<i32>("k").await.unwrap(), Some(1));
    assert_eq!(cache.get::<i32>("absent").await.unwrap(), None);
    let requests = cache.health().requests;
    assert_eq!((requests.misses, requests.l1_hits), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn tokios_paused_clock_moves_a_cache_with_the_default_clock() {
    let cache = Cache::builder("n").default_ttl(Duration::from_secs(60)).build().unwrap();
    let _ = cache.set("k", 1).await.unwrap();
    tokio::time::advance(Duration::from_secs(60) - Duration::from_nanos(1)).await;
    assert_eq!(cache.get::<i32>("k").await.unwrap(), Some(1));
    tokio::time::advance(Duration::from_nanos(1)).await;
    assert_eq!(cache.get::<i32>("k").await.unwrap(), None);
}

#[test]
fn an_l1_only_cache_and_its_breaker_need_no_runtime() {
    let cache = Cache::builder("n").build().unwrap();
    futures_executor(async {
        let runs = Runs::new();
        for _ in 0..2 {
            assert_eq!(cache.get_or_compute("k", || runs.give(1)).await.unwrap(), 1);
        }
        assert_eq!(cache.set("k", 2).await.unwrap(), Stored::Stored);
        assert_eq!(cache.get::<i32>("k").await.unwrap(), Some(2));
        assert!(cache.exists("k").await.unwrap());
        assert!(cache.delete("k").await.unwrap());
        cache.clear().await.unwrap();
        let answer = cache.breaker().call(|| async { Ok::<_, ()>(1) }).await;
        assert!(answer.is_ok());
        cache.close(Duration::from_secs(1)).await.unwrap();
    });
}

#[test]
fn waiters_of_an_l1_only_cache_need_no_runtime_either() {
    let cache = Cache::builder("n").build().unwrap();
    let runs = Runs::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                futures_executor(async {
                    let function = || async {
                        std::thread::sleep(Duration::from_millis(20));
                        runs.give(7).await
                    };
                    assert_eq!(cache.get_or_compute("k", function).await.unwrap(), 7);
                });
            });
        }
    });
    assert_eq!(runs.count(), 1);
}

#[test]
fn with_an_l2_a_missing_runtime_or_timer_is_an_error_and_never_a_panic() {
    let rig = support::Rig::new();
    let calls = async {
        let kind = |error: cachekit::Error| error.kind();
        let mut kinds = vec![
            rig.cache.get::<i32>("k").await.map_err(kind).map(drop),
            rig.cache.set("k", 1).await.map_err(kind).map(drop),
            rig.cache.delete("k").await.map_err(kind).map(drop),
            rig.cache.exists("k").await.map_err(kind).map(drop),
            rig.cache.clear().await.map_err(kind).map(drop),
        ];
        match rig.cache.get_or_compute("k", || Runs::new().give_owned(1)).await {
            Err(cachekit::CallError::Cache(error)) => kinds.push(Err(error.kind())),
            other => panic!("{other:?}"),
        }
        assert_eq!(kinds, vec![Err(cachekit::ErrorKind::ConfigInvalid); 6]);
        assert_eq!((rig.factory.attempts(), rig.failures()), (0, 0));
    };
    let timerless = tokio::runtime::Builder::new_current_thread().build().unwrap();
    futures_executor(Box::pin(calls));
    timerless.block_on(async {
        let error = rig.cache.get::<i32>("k").await.unwrap_err();
        assert!(error.to_string().contains("enable_time"), "{error}");
    });
    // And with one, everything is as if nothing had happened.
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        assert_eq!(rig.cache.get_or_compute("k", || Runs::new().give_owned(1)).await.unwrap(), 1);
        assert!(rig.in_l2("k"));
    });
}

/// The smallest executor there is.
fn futures_executor<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

#[tokio::test]
async fn a_value_whose_drop_asks_the_cache_or_panics_hurts_nobody() {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    static CACHE: OnceLock<Cache> = OnceLock::new();
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    #[derive(Clone, serde::Serialize, serde::Deserialize)]
    struct Nosy(Arc<Inner>);
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Inner(u32);
    impl Drop for Inner {
        fn drop(&mut self) {
            // What a caller does with a cache anywhere else is allowed here.
            if let Some(cache) = CACHE.get() {
                let _ = futures_executor(cache.get::<u32>("other"));
                let _ = futures_executor(cache.set("other", self.0));
            }
            if self.0 % 50 == 49 {
                PANICS.fetch_add(1, SeqCst);
                panic!("the value's own drop");
            }
        }
    }
    let cache = CACHE.get_or_init(|| Cache::builder("n").max_entries(10).build().unwrap());
    for i in 0..200 {
        // Whoever displaces a value does not pay for its panic.
        let _ = cache.set(&(i % 20).to_string(), Nosy(Arc::new(Inner(i)))).await.unwrap();
    }
    cache.clear().await.unwrap();
    assert_eq!(PANICS.load(SeqCst), 4, "each value was dropped, and those that panic did");
    let _ = cache.set("k", 1).await.unwrap();
    assert_eq!(cache.get::<i32>("k").await.unwrap(), Some(1), "no lock is poisoned");
    assert_eq!(cache.health().in_progress, 0);
}
