//! L1 that follows what other processes write: two caches over one store are two processes.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::{Fault, Gate, MemoryBackend, Op};
use cachekit::{Cache, CacheBuilder, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::{Rig, Runs};

/// Two processes; the second one's L1 follows the first.
async fn two() -> (Rig, Rig) {
    two_with(|builder| builder).await
}

async fn two_with(set_up: impl Fn(CacheBuilder) -> CacheBuilder) -> (Rig, Rig) {
    let first = Rig::with(&set_up);
    let second = Rig::over(first.store.clone(), first.clock.clone(), |builder| set_up(builder).track_changes(true));
    // The reports begin when the backend is built, and what was begun before is not kept.
    second.cache.exists("anything").await.unwrap();
    (first, second)
}

async fn put(rig: &Rig, key: &str, value: &str) {
    let _ = rig.cache.set(key, value.to_owned()).await.unwrap();
}

async fn got(rig: &Rig, key: &str) -> Option<String> {
    rig.cache.get(key).await.unwrap()
}

/// Lets the listener hear what was reported.
async fn heard() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

fn tracking(rig: &Rig) -> (bool, u64, u64) {
    let tracking = rig.cache.health().l1.unwrap().tracking.unwrap();
    (tracking.on, tracking.invalidated, tracking.lost)
}

#[tokio::test]
async fn u098_what_another_process_sets_or_deletes_leaves_this_l1() {
    let (first, second) = two().await;
    for (change, after) in [("set", Some("new")), ("delete", None), ("clear", None)] {
        put(&first, "k", "old").await;
        heard().await;
        assert_eq!(got(&second, "k").await.as_deref(), Some("old"));
        assert!(second.in_l1("k").await);
        match change {
            "set" => put(&first, "k", "new").await,
            "delete" => assert!(first.cache.delete("k").await.unwrap()),
            _ => first.cache.clear().await.unwrap(),
        }
        heard().await;
        assert!(!second.in_l1("k").await || after.is_some(), "{change}");
        assert_eq!(got(&second, "k").await.as_deref(), after, "{change}");
    }
    let (on, invalidated, lost) = tracking(&second);
    assert!(on && invalidated >= 3 && lost == 0);
}

#[tokio::test]
async fn u098_without_tracking_a_copy_is_as_old_as_the_longest_time_in_l1() {
    let first = Rig::new();
    let limited = |builder: CacheBuilder| builder.l1_max_ttl(Duration::from_secs(30));
    let second = Rig::over(first.store.clone(), first.clock.clone(), limited);
    put(&first, "k", "old").await;
    assert_eq!(got(&second, "k").await.as_deref(), Some("old"));
    put(&first, "k", "new").await;
    first.clock.advance(Duration::from_secs(29));
    assert_eq!(got(&second, "k").await.as_deref(), Some("old"));
    first.clock.advance(Duration::from_secs(1));
    assert_eq!(got(&second, "k").await.as_deref(), Some("new"));
    assert!(second.cache.health().l1.unwrap().tracking.is_none());
}

#[tokio::test]
async fn what_this_process_writes_stays_in_its_l1() {
    let (_first, second) = two().await;
    put(&second, "k", "mine").await;
    heard().await;
    assert!(second.in_l1("k").await);
    assert_eq!(tracking(&second), (true, 0, 0));
}

#[tokio::test]
async fn u089_only_the_own_namespace_and_its_tenants_are_followed() {
    let (first, second) = two().await;
    let tenant = |rig: &Rig| rig.cache.for_tenant("t").unwrap();
    let _ = tenant(&first).set("k", 1).await.unwrap();
    assert_eq!(tenant(&second).get("k").await.unwrap(), Some(1));
    let _ = tenant(&first).set("k", 2).await.unwrap();
    heard().await;
    assert_eq!(tenant(&second).get("k").await.unwrap(), Some(2));
    let (_, before, _) = tracking(&second);
    let other = Cache::builder("n2").backend(first.factory.clone()).build().unwrap();
    let _ = other.set("k", 3).await.unwrap();
    heard().await;
    assert_eq!(tracking(&second).1, before);
}

#[tokio::test]
async fn when_the_reports_stop_l1_is_dropped_and_filled_for_a_moment_only() {
    let (first, second) = two().await;
    put(&first, "k", "old").await;
    assert_eq!(got(&second, "k").await.as_deref(), Some("old"));
    first.store.cut_tracking();
    heard().await;
    assert!(!second.in_l1("k").await, "dropped");
    assert_eq!(got(&second, "k").await.as_deref(), Some("old"));
    assert!(second.in_l1("k").await);
    put(&first, "k", "new").await;
    second.clock.advance(Duration::from_millis(999));
    assert_eq!(got(&second, "k").await.as_deref(), Some("old"), "nobody told");
    second.clock.advance(Duration::from_millis(1));
    assert_eq!(got(&second, "k").await.as_deref(), Some("new"), "`untracked_l1_ttl` is a second");
    assert_eq!(tracking(&second), (false, 0, 1));

    put(&first, "k", "newer").await;
    first.store.resume_tracking();
    heard().await;
    assert_eq!(got(&second, "k").await.as_deref(), Some("newer"), "what was filled meanwhile is dropped");
    second.clock.advance(Duration::from_secs(200));
    assert!(second.in_l1("k").await, "and lives its whole time again");
    assert_eq!(tracking(&second), (true, 0, 1));
}

#[tokio::test]
async fn own_writes_too_live_for_a_moment_while_changes_go_unreported() {
    let (first, second) = two().await;
    put(&second, "k", "mine").await;
    first.store.cut_tracking();
    heard().await;
    put(&second, "k", "mine").await;
    assert!(second.in_l1("k").await);
    second.clock.advance(Duration::from_secs(1));
    assert!(!second.in_l1("k").await);
}

#[tokio::test]
async fn with_a_time_of_zero_l1_keeps_nothing_while_changes_go_unreported() {
    let (first, second) = two_with(|builder| builder.untracked_l1_ttl(Duration::ZERO)).await;
    put(&second, "k", "v").await;
    assert!(second.in_l1("k").await);
    first.store.cut_tracking();
    heard().await;
    for _ in 0..2 {
        assert_eq!(got(&second, "k").await.as_deref(), Some("v"));
        assert!(!second.in_l1("k").await);
    }
}

#[tokio::test]
async fn a_fill_that_began_before_the_change_is_not_kept() {
    let (first, second) = two().await;
    put(&second, "other", "builds the backend").await;
    let gate = Gate::new();
    let runs = Runs::new();
    let computing = tokio::spawn({
        let (cache, gate) = (second.cache.clone(), gate.clone());
        async move {
            cache
                .get_or_compute("k", || async move {
                    gate.pass().await;
                    runs.give("old".to_owned()).await
                })
                .await
        }
    });
    heard().await;
    put(&first, "k", "new").await;
    heard().await;
    gate.open();
    assert_eq!(computing.await.unwrap().unwrap(), "old", "its caller gets what it computed");
    assert_eq!(got(&second, "k").await.as_deref(), Some("new"));
    assert_eq!(got(&first, "k").await.as_deref(), Some("new"), "and the backend keeps the newer value");
}

#[tokio::test]
async fn a_backend_that_is_lost_takes_l1_along_until_it_is_built_again() {
    let (first, second) = two().await;
    put(&second, "k", "v").await;
    second.faults.fail_next(Op::Get, 1, ErrorKind::Closed);
    assert_eq!(got(&second, "another").await, None);
    assert_eq!(tracking(&second), (false, 0, 1));
    assert!(!second.in_l1("k").await);
    assert_eq!(got(&second, "k").await.as_deref(), Some("v"), "it is built again");
    assert_eq!(tracking(&second), (true, 0, 1));
    put(&first, "k", "new").await;
    heard().await;
    assert_eq!(got(&second, "k").await.as_deref(), Some("new"));
}

/// A value whose `Drop` asks the cache that held it.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Asks {
    #[serde(skip)]
    asked: Option<Arc<(Cache, AtomicUsize)>>,
}

impl Drop for Asks {
    fn drop(&mut self) {
        let Some(asked) = &self.asked else { return };
        asked.1.fetch_add(1, SeqCst);
        // A miss, which has the L2 asked.
        let _ = futures_util::FutureExt::now_or_never(asked.0.exists("another"));
    }
}

#[tokio::test]
async fn l1_is_dropped_under_no_lock() {
    for end in ["closed", "lost", "cut"] {
        let (first, second) = two().await;
        let asked = Arc::new((second.cache.clone(), AtomicUsize::new(0)));
        let _ = second.cache.set("k", Asks { asked: Some(asked.clone()) }).await.unwrap();
        let before = asked.1.load(SeqCst);
        match end {
            "closed" => second.cache.close(Duration::from_secs(1)).await.unwrap(),
            "lost" => {
                second.faults.fail_next(Op::Get, 1, ErrorKind::Closed);
                assert_eq!(got(&second, "other").await, None);
            }
            _ => first.store.cut_tracking(),
        }
        heard().await;
        assert!(asked.1.load(SeqCst) > before, "{end}: nothing was dropped");
    }
}

#[tokio::test]
async fn the_listener_ends_with_the_cache() {
    let (first, second) = two().await;
    put(&second, "k", "v").await;
    let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    drop(second);
    heard().await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), alive - 1);
    put(&first, "k", "v").await;
}

#[tokio::test]
async fn u094_a_backend_that_reports_no_changes_is_refused_and_the_service_goes_on() {
    #[derive(Debug)]
    struct Mute(MemoryBackend);
    #[cachekit::async_trait]
    impl cachekit::Backend for Mute {
        fn name(&self) -> &'static str {
            "mute"
        }
        fn capabilities(&self) -> cachekit::Capabilities {
            cachekit::Capabilities::new()
        }
        async fn get(&self, key: &str) -> Result<Option<cachekit::Bytes>, cachekit::BackendError> {
            self.0.get(key).await
        }
        async fn set(
            &self,
            key: &str,
            value: cachekit::Bytes,
            options: cachekit::SetOptions,
        ) -> Result<(), cachekit::BackendError> {
            self.0.set(key, value, options).await
        }
        async fn delete(&self, key: &str) -> Result<bool, cachekit::BackendError> {
            self.0.delete(key).await
        }
        async fn health(&self) -> Result<cachekit::BackendHealth, cachekit::BackendError> {
            self.0.health().await
        }
    }
    let factory = cachekit::testing::ScriptedFactory::with_backend(Mute(MemoryBackend::new()));
    let cache = Cache::builder("n").backend(factory).track_changes(true).build().unwrap();
    let runs = Runs::new();
    assert_eq!(cache.get_or_compute("k", || runs.give(1)).await.unwrap(), 1);
    let l2 = cache.health().l2.unwrap();
    assert_eq!((l2.status, l2.last_error), ("failed", Some("config_invalid")));
}

#[test]
fn tracking_needs_both_tiers() {
    let rig = Rig::new();
    for builder in [Cache::builder("n"), rig.builder().without_l1()] {
        let error = builder.track_changes(true).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConfigInvalid);
        assert!(error.to_string().contains("track_changes"), "{error}");
    }
}

#[cfg(feature = "secure")]
#[tokio::test]
async fn sealed_entries_under_hidden_names_are_followed_too() {
    use cachekit::secure::{Keyring, MasterKey, Secure, SecureExt};
    let secure =
        || Secure::new(Keyring::new(MasterKey::from_bytes([7; 32]))).hide_key_names(MasterKey::from_bytes([8; 32]));
    let (first, second) = two_with(|builder| builder.secure(secure())).await;
    put(&first, "k", "old").await;
    assert_eq!(got(&second, "k").await.as_deref(), Some("old"));
    put(&first, "k", "new").await;
    heard().await;
    assert_eq!(got(&second, "k").await.as_deref(), Some("new"));
    assert_eq!(tracking(&second), (true, 2, 0));
}

#[test]
fn when_the_runtime_of_the_listener_ends_the_reports_are_lost() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = runtime().block_on(async {
        let (first, second) = two().await;
        put(&second, "k", "old").await;
        (first, second)
    });
    assert_eq!(tracking(&second), (false, 0, 1));
    runtime().block_on(async {
        assert!(!second.in_l1("k").await);
        put(&first, "k", "new").await;
        assert_eq!(got(&second, "k").await.as_deref(), Some("new"));
    });
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_was_given_up_and_ends_late_takes_no_reports_along() {
    let (first, second) = two().await;
    put(&second, "k", "v").await;
    second.faults.next(Op::Get, 1, Fault::Delay(Duration::from_millis(400)));
    let slow = tokio::spawn({
        let cache = second.cache.clone();
        async move { cache.get::<String>("slow").await }
    });
    heard().await;
    second.faults.fail_next(Op::Get, 1, ErrorKind::Closed);
    assert_eq!(got(&second, "other").await, None);
    assert_eq!(tracking(&second), (false, 0, 1), "given up at once, while somebody still uses it");
    assert_eq!(got(&second, "k").await.as_deref(), Some("v"), "it is built again");
    slow.await.unwrap().unwrap();
    assert_eq!(tracking(&second), (true, 0, 1));
    put(&first, "k", "new").await;
    heard().await;
    assert_eq!(got(&second, "k").await.as_deref(), Some("new"));
}

/// A value whose `Drop` panics.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Panics {
    armed: bool,
}

impl Drop for Panics {
    fn drop(&mut self) {
        assert!(!self.armed, "a value that panics when it is dropped");
    }
}

#[tokio::test]
async fn many_values_whose_drop_panics_end_nothing() {
    let (first, second) = two().await;
    let armed = || std::mem::ManuallyDrop::new(Panics { armed: true });
    for key in ["a", "b", "c"] {
        // The one that the caller holds is not dropped by the cache.
        let value = armed();
        let held = std::panic::AssertUnwindSafe(second.cache.set(key, (*value).clone()));
        let _ = futures_util::FutureExt::catch_unwind(held).await;
        assert!(second.in_l1(key).await);
    }
    first.store.cut_tracking();
    heard().await;
    assert_eq!(second.cache.health().l1.unwrap().entries, 0);
    first.store.resume_tracking();
    heard().await;
    assert_eq!(tracking(&second), (true, 0, 1), "the listener goes on");
}
