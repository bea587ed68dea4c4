//! Interleavings in which something older could come back, one by one.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::{Build, Fault, Gate, MemoryBackend, Op};
use cachekit::{
    Backend, BackendError, BackendFactory, BackendHealth, Bytes, Cache, Capabilities, ErrorKind, Reason, SetOptions,
    Stored, async_trait,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Rig, Runs};

/// A store whose operations wait at gates, before and after they are carried out.
#[derive(Clone, Debug, Default)]
struct Gated {
    store: MemoryBackend,
    before: Arc<Mutex<HashMap<&'static str, Gate>>>,
    arrived: Arc<Mutex<Vec<&'static str>>>,
    failing: Arc<Mutex<Vec<&'static str>>>,
}

impl Gated {
    /// The next call of this operation waits until the gate is opened.
    fn hold(&self, op: &'static str) -> Gate {
        let gate = Gate::new();
        self.before.lock().unwrap().insert(op, gate.clone());
        gate
    }

    /// The next call of this operation fails, and nothing is carried out.
    fn fail(&self, op: &'static str) {
        self.failing.lock().unwrap().push(op);
    }

    fn may_fail(&self, op: &'static str) -> Result<(), BackendError> {
        let mut failing = self.failing.lock().unwrap();
        match failing.iter().position(|failing| *failing == op) {
            Some(at) => {
                failing.remove(at);
                Err(BackendError::new(ErrorKind::Unavailable, "as told"))
            }
            None => Ok(()),
        }
    }

    async fn arrive(&self, op: &'static str) {
        self.arrived.lock().unwrap().push(op);
        let gate = self.before.lock().unwrap().remove(op);
        if let Some(gate) = gate {
            gate.pass().await;
        }
    }

    fn count(&self, op: &str) -> usize {
        self.arrived.lock().unwrap().iter().filter(|arrived| **arrived == op).count()
    }

    async fn until(&self, op: &'static str, count: usize) {
        while self.count(op) < count {
            tokio::task::yield_now().await;
        }
    }

    fn cache(&self) -> Cache {
        Cache::builder("n").backend(self.clone()).build().unwrap()
    }
}

#[async_trait]
impl BackendFactory for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Backend for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    async fn get(&self, key: &str) -> Result<Option<Bytes>, BackendError> {
        self.arrive("get").await;
        self.store.get(key).await
    }
    async fn set(&self, key: &str, value: Bytes, options: SetOptions) -> Result<(), BackendError> {
        self.arrive("set").await;
        self.store.set(key, value, options).await?;
        self.arrive("set done").await;
        Ok(())
    }
    async fn delete(&self, key: &str) -> Result<bool, BackendError> {
        self.arrive("delete").await;
        self.may_fail("delete")?;
        self.store.delete(key).await
    }
    async fn clear(&self, prefix: &str) -> Result<(), BackendError> {
        self.arrive("clear").await;
        self.store.clear(prefix).await
    }
    async fn health(&self) -> Result<BackendHealth, BackendError> {
        self.store.health().await
    }
}

#[tokio::test]
async fn a_fill_that_lands_after_a_delete_is_not_read_before_it_is_taken_back() {
    for without_l1 in [false, true] {
        for newer in [None, Some(2)] {
            let backend = Gated::default();
            let builder = Cache::builder("n").backend(backend.clone());
            let cache = if without_l1 { builder.without_l1() } else { builder }.build().unwrap();
            let landing = backend.hold("set");
            let fill = {
                let cache = cache.clone();
                tokio::spawn(async move { cache.fetch("k", || Runs::new().give_owned(1)).await.unwrap() })
            };
            backend.until("set", 1).await;
            match newer {
                None => drop(cache.delete("k").await.unwrap()),
                Some(value) => assert_eq!(cache.set("k", value).await.unwrap(), Stored::Stored),
            }
            let taking_back = backend.hold("delete");
            landing.open();
            backend.until("delete", 1 + usize::from(newer.is_none())).await;
            // The backend holds 1, and everyone was told that it does not.
            assert!(backend.store.raw("n:k").is_some());
            let seen = cache.get::<i32>("k").await.unwrap();
            assert!(seen.is_none() || seen == newer, "{seen:?}, {newer:?}");
            assert!(!cache.exists("k").await.unwrap() || newer.is_some());
            taking_back.open();
            assert_eq!(fill.await.unwrap().stored, Some(Stored::Skipped(Reason::Superseded)));
            let seen = cache.get::<i32>("k").await.unwrap();
            assert!(seen.is_none() || seen == newer, "{seen:?}, {newer:?}");
        }
    }
}

#[tokio::test]
async fn a_write_that_succeeds_does_not_take_away_a_mark_that_was_set_meanwhile() {
    for explicit in [false, true] {
        let backend = Gated::default();
        let cache = Cache::builder("n").backend(backend.clone()).without_l1().build().unwrap();
        let fetch = |value: i32| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.fetch("k", || Runs::new().give_owned(value)).await.unwrap() })
        };
        let landing = backend.hold("set");
        let first = fetch(1);
        backend.until("set", 1).await;
        cache.delete("k").await.unwrap();
        // The newer value is in the backend, which has not said so yet.
        let answering = backend.hold("set done");
        let second = match explicit {
            false => fetch(2),
            true => tokio::spawn({
                let cache = cache.clone();
                async move {
                    let _ = cache.set("k", 2).await.unwrap();
                    cache.fetch("other", || Runs::new().give_owned(0)).await.unwrap()
                }
            }),
        };
        backend.until("set done", 1).await;
        // The older one lands on top of it, and cannot be taken back.
        backend.fail("delete");
        landing.open();
        assert_eq!(first.await.unwrap().stored, Some(Stored::Skipped(Reason::Superseded)));
        answering.open();
        second.await.unwrap();
        assert!(backend.store.raw("n:k").is_some());
        assert_eq!(cache.get::<i32>("k").await.unwrap(), None, "explicit: {explicit}");
    }
}

#[tokio::test]
async fn a_superseded_value_that_is_too_large_does_not_delete_the_newer_one() {
    let rig = Rig::with(|builder| builder.max_value_bytes(100));
    let gate = Gate::new();
    let call = {
        let (cache, gate) = (rig.cache.clone(), gate.clone());
        let function = || async move {
            gate.pass().await;
            Ok::<_, std::convert::Infallible>("x".repeat(200))
        };
        tokio::spawn(async move { cache.fetch("k", function).await.unwrap() })
    };
    while rig.reads() == 0 {
        tokio::task::yield_now().await;
    }
    let _ = rig.cache.set("k", "new".to_owned()).await.unwrap();
    gate.open();
    assert_eq!(call.await.unwrap().stored, Some(Stored::Skipped(Reason::TooLarge)));
    assert_eq!(rig.cache.get::<String>("k").await.unwrap().as_deref(), Some("new"));
    assert_eq!(rig.second().cache.get::<String>("k").await.unwrap().as_deref(), Some("new"));
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_too_large_hides_the_older_one_also_where_it_cannot_be_deleted() {
    for outage in ["open", "timeout"] {
        let rig = Rig::with(|builder| builder.max_value_bytes(100));
        rig.second().cache.set("k", "old".to_owned()).await.map(drop).unwrap();
        match outage {
            "open" => rig.cache.breaker().force_open(),
            _ => rig.faults.next(Op::Get, 1, Fault::Hang),
        }
        let fetched = rig.cache.fetch("k", || Runs::new().give_owned("x".repeat(200))).await.unwrap();
        assert_eq!(fetched.stored, Some(Stored::Skipped(Reason::TooLarge)));
        rig.cache.breaker().force_close();
        assert_eq!(rig.cache.get::<String>("k").await.unwrap(), None, "{outage}");
    }
}

#[tokio::test]
async fn after_a_failed_clear_this_process_reads_its_own_writes() {
    for without_l1 in [false, true] {
        let rig = Rig::with(|builder| if without_l1 { builder.without_l1() } else { builder });
        let _ = rig.cache.set("a", 1).await.unwrap();
        let _ = rig.cache.set("b", 1).await.unwrap();
        rig.faults.fail_next(Op::Clear, 1, ErrorKind::Unavailable);
        rig.cache.clear().await.unwrap_err();
        assert_eq!(rig.cache.set("a", 2).await.unwrap(), Stored::Stored);
        assert_eq!(rig.cache.get::<i32>("a").await.unwrap(), Some(2));
        assert_eq!(rig.cache.get::<i32>("b").await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_wall_clock_that_steps_back_and_forth_does_not_undo_a_failed_clear() {
    let rig = Rig::new();
    let _ = rig.cache.set("k", 1).await.unwrap();
    rig.clock.shift_wall(-3_600_000);
    rig.faults.fail_next(Op::Clear, 1, ErrorKind::Unavailable);
    rig.cache.clear().await.unwrap_err();
    rig.clock.shift_wall(3_600_000);
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
}

#[tokio::test]
async fn a_mark_outlasts_an_entry_of_an_earlier_process_that_was_seen() {
    let earlier = Rig::new();
    let _ = earlier.cache.set_with_ttl("k", 1, Duration::from_secs(86_400)).await.unwrap();
    let rig = earlier.second();
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), Some(1));
    rig.faults.fail_next(Op::Delete, 1, ErrorKind::Unavailable);
    rig.cache.delete("k").await.unwrap_err();
    rig.clock.advance(Duration::from_secs(3_600));
    assert_eq!(rig.cache.get::<i32>("k").await.unwrap(), None);
}

#[tokio::test]
async fn failed_clears_of_many_tenants_are_bounded_and_counted() {
    let rig = Rig::new();
    rig.cache.breaker().force_open();
    for i in 0..10_010 {
        rig.cache.for_tenant(&i.to_string()).unwrap().clear().await.unwrap_err();
    }
    let health = rig.cache.health();
    assert_eq!((health.unsynced, health.unsynced_dropped), (10_000, 10));
}

#[tokio::test]
async fn close_waits_for_a_clear_and_for_an_exists() {
    let backend = Gated::default();
    let cache = backend.cache();
    let (clearing, reading) = (backend.hold("clear"), backend.hold("get"));
    let clear = tokio::spawn({
        let cache = cache.clone();
        async move { cache.clear().await }
    });
    let exists = tokio::spawn({
        let cache = cache.clone();
        async move { cache.exists("k").await }
    });
    backend.until("clear", 1).await;
    backend.until("get", 1).await;
    let close = tokio::spawn({
        let cache = cache.clone();
        async move { cache.close(Duration::from_secs(60)).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!close.is_finished());
    clearing.open();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!close.is_finished());
    reading.open();
    close.await.unwrap().unwrap();
    assert!(clear.await.unwrap().is_ok() && exists.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_close_that_failed_can_be_tried_again() {
    let rig = Rig::new();
    let _ = rig.cache.get::<i32>("k").await.unwrap();
    rig.faults.next(Op::Close, 1, Fault::Hang);
    rig.cache.close(Duration::from_secs(1)).await.unwrap_err();
    rig.faults.fail_next(Op::Close, 1, ErrorKind::Unavailable);
    rig.cache.close(Duration::from_secs(1)).await.unwrap_err();
    rig.cache.close(Duration::from_secs(1)).await.unwrap();
    assert_eq!(rig.faults.calls(Op::Close), 3);
    rig.cache.close(Duration::from_secs(1)).await.unwrap();
    assert_eq!(rig.faults.calls(Op::Close), 3, "it is closed");
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_is_built_after_the_close_is_closed_too() {
    let rig = Rig::new();
    let gate = Gate::new();
    rig.factory.push(Build::Wait(gate.clone()));
    let call = tokio::spawn({
        let cache = rig.cache.clone();
        async move { cache.get::<i32>("k").await.unwrap() }
    });
    while rig.factory.running() == 0 {
        tokio::task::yield_now().await;
    }
    rig.cache.close(Duration::from_millis(10)).await.unwrap();
    gate.open();
    call.await.unwrap();
    assert_eq!(rig.faults.calls(Op::Close), 1);
}

#[test]
fn a_build_that_began_on_a_runtime_which_ended_panics_nobody() {
    let rig = Rig::new();
    rig.factory.push(Build::Hang);
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let get = |rig: &Rig| {
        let cache = rig.cache.clone();
        async move { cache.get_or_compute("k", || Runs::new().give_owned(7)).await }
    };
    first.spawn(get(&rig));
    while rig.factory.running() == 0 {
        std::thread::yield_now();
    }
    let shared = second.spawn({
        let cache = rig.cache.clone();
        async move { cache.get_or_compute("other", || Runs::new().give_owned(7)).await }
    });
    while rig.cache.health().in_progress < 2 {
        std::thread::yield_now();
    }
    first.shutdown_background();
    assert_eq!(second.block_on(shared).unwrap().unwrap(), 7);
    assert_eq!(second.block_on(get(&rig)).unwrap(), 7);
}

#[tokio::test]
async fn timeouts_that_never_end_are_settings_like_any_other() {
    let rig = Rig::with(|b| b.operation_timeout(Duration::MAX).build_timeout(Duration::MAX).flight_wait(Duration::MAX));
    assert_eq!(rig.cache.get_or_compute("k", || Runs::new().give_owned(7)).await.unwrap(), 7);
    assert_eq!(rig.cache.set("k", "x".repeat(100)).await.unwrap(), Stored::Stored);
    rig.cache.close(Duration::MAX).await.unwrap();
}

#[tokio::test]
async fn an_internal_error_that_is_no_panic_leaves_the_backend_where_it_is() {
    let rig = Rig::new();
    rig.faults.fail_next(Op::Get, 5, ErrorKind::Internal);
    for _ in 0..5 {
        let _ = rig.cache.get::<i32>("k").await.unwrap();
    }
    assert_eq!(rig.factory.attempts(), 1);
}

#[tokio::test]
async fn capabilities_that_panic_are_a_failed_build() {
    #[derive(Debug)]
    struct Rude;
    #[async_trait]
    impl Backend for Rude {
        fn name(&self) -> &'static str {
            "rude"
        }
        fn capabilities(&self) -> Capabilities {
            panic!("capabilities")
        }
        async fn get(&self, _: &str) -> Result<Option<Bytes>, BackendError> {
            Ok(None)
        }
        async fn set(&self, _: &str, _: Bytes, _: SetOptions) -> Result<(), BackendError> {
            Ok(())
        }
        async fn delete(&self, _: &str) -> Result<bool, BackendError> {
            Ok(false)
        }
        async fn health(&self) -> Result<BackendHealth, BackendError> {
            Ok(BackendHealth::default())
        }
    }
    let cache = Cache::builder("n").backend(cachekit::testing::ScriptedFactory::with_backend(Rude)).build().unwrap();
    let fetched = cache.fetch("k", || Runs::new().give_owned(7)).await.unwrap();
    assert_eq!((fetched.value, fetched.degraded), (7, Some(Reason::BuildFailed)));
}

#[tokio::test]
async fn callers_who_want_a_value_share_one_run_behind_a_leader_who_found_nothing() {
    let cache = Cache::builder("n").build().unwrap();
    let gate = Gate::new();
    let leader = tokio::spawn({
        let (cache, gate) = (cache.clone(), gate.clone());
        async move {
            let function = || async move {
                gate.pass().await;
                Ok::<_, std::convert::Infallible>(None::<i32>)
            };
            cache.get_or_compute_opt("k", function).await.unwrap()
        }
    });
    while cache.health().in_progress < 1 {
        tokio::task::yield_now().await;
    }
    let runs = Runs::new();
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let (cache, runs) = (cache.clone(), runs.clone());
            tokio::spawn(async move { cache.get_or_compute("k", || runs.give(7)).await.unwrap() })
        })
        .collect();
    while cache.health().in_progress < 101 {
        tokio::task::yield_now().await;
    }
    gate.open();
    assert_eq!(leader.await.unwrap(), None);
    for call in calls {
        assert_eq!(call.await.unwrap(), 7);
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn a_leader_that_leaves_while_it_writes_leaves_no_old_value_to_join() {
    let backend = Gated::default();
    let cache = Cache::builder("n").backend(backend.clone()).without_l1().build().unwrap();
    let _never = backend.hold("set");
    let leader = tokio::spawn({
        let cache = cache.clone();
        async move { cache.fetch("k", || Runs::new().give_owned(1_u8)).await.unwrap() }
    });
    backend.until("set", 1).await;
    // Another type's call keeps the key's record.
    let other_gate = Gate::new();
    let other = tokio::spawn({
        let (cache, gate) = (cache.clone(), other_gate.clone());
        let function = || async move {
            gate.pass().await;
            Ok::<_, std::convert::Infallible>("text".to_owned())
        };
        async move { cache.fetch("k", function).await.unwrap() }
    });
    backend.until("get", 2).await;
    leader.abort();
    let _ = leader.await;
    let runs = Runs::new();
    assert_eq!(cache.get_or_compute("k", || runs.give(2_u8)).await.unwrap(), 2);
    assert_eq!(runs.count(), 1);
    other_gate.open();
    other.await.unwrap();
}
