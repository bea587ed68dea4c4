//! What an exporter sees.
#![cfg(feature = "metrics")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::Cache;
use cachekit::testing::{Build, Op};
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Rig, Runs};

/// Series by `name{label="value",..}`.
#[derive(Clone, Default)]
struct Series(Arc<Mutex<BTreeMap<String, f64>>>);

struct One(Series, String);

impl One {
    fn change(&self, change: impl FnOnce(f64) -> f64) {
        let mut series = self.0.0.lock().unwrap();
        let value = series.entry(self.1.clone()).or_default();
        *value = change(*value);
    }
}

impl CounterFn for One {
    fn increment(&self, by: u64) {
        self.change(|value| value + f64::from(u32::try_from(by).unwrap()));
    }
    fn absolute(&self, to: u64) {
        self.change(|_| f64::from(u32::try_from(to).unwrap()));
    }
}

impl GaugeFn for One {
    fn increment(&self, by: f64) {
        self.change(|value| value + by);
    }
    fn decrement(&self, by: f64) {
        self.change(|value| value - by);
    }
    fn set(&self, to: f64) {
        self.change(|_| to);
    }
}

impl Series {
    fn one(&self, key: &Key) -> Arc<One> {
        let labels: BTreeSet<_> = key.labels().map(|l| format!("{}={:?}", l.key(), l.value())).collect();
        let labels: Vec<_> = labels.into_iter().collect();
        let one = One(self.clone(), format!("{}{{{}}}", key.name(), labels.join(",")));
        one.change(|value| value);
        Arc::new(one)
    }

    fn get(&self, name: &str) -> f64 {
        self.0.lock().unwrap().get(name).copied().unwrap_or_else(|| panic!("no {name} in {:?}", self.names()))
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    fn states(&self, namespace: &str) -> [f64; 3] {
        ["CLOSED", "OPEN", "HALF_OPEN"]
            .map(|state| self.get(&format!("circuit_breaker_state{{namespace={namespace:?},state={state:?}}}")))
    }
}

impl Recorder for Series {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Runs on this thread under a recorder of its own.
fn recorded<Fut: Future<Output = ()>>(test: impl FnOnce(Series) -> Fut) {
    let series = Series::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    metrics::with_local_recorder(&series.clone(), || runtime.block_on(test(series)));
}

#[test]
fn u172_requests_degradations_and_builds_are_counted() {
    recorded(|series| async move {
        let rig = Rig::new();
        let runs = Runs::new();
        rig.factory.push(Build::Fail(cachekit::ErrorKind::Unavailable));
        for _ in 0..3 {
            let _ = rig.cache.get_or_compute("k", || runs.give(1)).await.unwrap();
        }
        assert_eq!(rig.second().cache.get::<i32>("k").await.unwrap(), Some(1));
        rig.faults.fail_all(Op::Get, cachekit::ErrorKind::Unavailable);
        assert_eq!(rig.cache.get::<i32>("other").await.unwrap(), None);
        for (name, value) in [
            (r#"cache_requests_total{namespace="n",result="hit",tier="l1"}"#, 1.0),
            (r#"cache_requests_total{namespace="n",result="hit",tier="l2"}"#, 1.0),
            (r#"cache_requests_total{namespace="n",result="miss",tier="none"}"#, 3.0),
            (r#"cache_degraded_total{namespace="n",reason="build_failed"}"#, 1.0),
            (r#"cache_degraded_total{namespace="n",reason="read_error"}"#, 1.0),
            (r#"cache_builds_total{namespace="n",result="failed"}"#, 1.0),
            (r#"cache_builds_total{namespace="n",result="ok"}"#, 2.0),
        ] {
            assert_eq!(series.get(name).to_bits(), f64::to_bits(value), "{name}");
        }
    });
}

#[test]
fn changes_by_others_and_the_end_of_their_reports_are_counted() {
    recorded(|series| async move {
        let first = Rig::new();
        let second = Rig::over(first.store.clone(), first.clock.clone(), |builder| builder.track_changes(true));
        second.cache.exists("anything").await.unwrap();
        let _ = first.cache.set("k", 1).await.unwrap();
        first.store.cut_tracking();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        // What is lost takes the keys that wait along.
        assert_eq!(series.get(r#"cache_tracking_lost_total{namespace="n"}"#).to_bits(), f64::to_bits(1.0));
        first.store.resume_tracking();
        let _ = first.cache.set("k", 2).await.unwrap();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(series.get(r#"cache_invalidations_total{namespace="n"}"#).to_bits(), f64::to_bits(1.0));
    });
}

#[test]
fn s70_s71_s72_s73_the_gauge_counts_live_breakers_by_state() {
    recorded(|series| async move {
        let build = |namespace: &str| Cache::builder(namespace).build().unwrap();
        let one = build("gauge");
        assert_eq!(series.states("gauge"), [1.0, 0.0, 0.0], "q29: all three from the start");
        let two = build("gauge");
        let other = build("other-gauge");
        assert_eq!((series.states("gauge"), series.states("other-gauge")), ([2.0, 0.0, 0.0], [1.0, 0.0, 0.0]));
        two.breaker().force_open();
        assert_eq!(series.states("gauge"), [1.0, 1.0, 0.0]);
        let clone = two.clone();
        drop(two);
        assert_eq!(series.states("gauge"), [1.0, 1.0, 0.0], "a clone is the same cache");
        drop(clone);
        assert_eq!(series.states("gauge"), [1.0, 0.0, 0.0]);
        drop(one);
        assert_eq!(series.states("gauge"), [0.0, 0.0, 0.0]);
        assert_eq!(series.states("other-gauge"), [1.0, 0.0, 0.0]);
        drop(other);
    });
}

#[test]
fn s71_a_circuit_that_goes_round_moves_the_gauge_with_it() {
    recorded(|series| async move {
        let clock = cachekit::testing::ManualClock::new();
        let store = cachekit::testing::MemoryBackend::new();
        let factory = cachekit::testing::ScriptedFactory::with_backend(store);
        factory.by_default(Build::Fail(cachekit::ErrorKind::Unavailable));
        let cache = Cache::builder("round").backend(factory.clone()).clock(Arc::new(clock.clone())).build().unwrap();
        let mut call = 0;
        let mut miss = async || {
            call += 1;
            let _ = cache.get_or_compute(&call.to_string(), || Runs::new().give_owned(1)).await.unwrap();
        };
        for _ in 0..5 {
            assert_eq!(series.states("round"), [1.0, 0.0, 0.0]);
            miss().await;
        }
        assert_eq!(series.states("round"), [0.0, 1.0, 0.0]);
        factory.by_default(Build::Succeed);
        clock.advance(Duration::from_nanos(30_000_000_001));
        miss().await;
        assert_eq!(series.states("round"), [0.0, 0.0, 1.0]);
        miss().await;
        miss().await;
        assert_eq!(series.states("round"), [1.0, 0.0, 0.0]);
    });
}

#[test]
fn s09_a_disabled_breaker_is_in_no_gauge() {
    recorded(|series| async move {
        let config = cachekit::breaker::BreakerConfig::new().with_enabled(false);
        let _cache = Cache::builder("disabled").breaker(config).build().unwrap();
        assert!(!series.names().iter().any(|name| name.contains("disabled")));
    });
}

#[test]
fn u173_u178_u179_the_number_of_series_does_not_depend_on_the_keys() {
    recorded(|series| async move {
        let rig = Rig::new();
        let visit = async |from: usize, to: usize| {
            for i in from..to {
                let _ = rig.cache.get_or_compute(&i.to_string(), || Runs::new().give_owned(i)).await.unwrap();
                let tenant = rig.cache.for_tenant(&format!("t{i}")).unwrap();
                let _ = tenant.get::<usize>("k").await.unwrap();
            }
        };
        visit(0, 10).await;
        let before = series.names();
        visit(10, 1_000).await;
        assert_eq!(series.names(), before);
        let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for name in before {
            let (family, rest) = name.split_once('{').unwrap();
            let names = rest.split(',').map(|pair| pair.split('=').next().unwrap()).collect::<Vec<_>>().join(",");
            labels.entry(family.to_owned()).or_default().insert(names);
        }
        assert!(labels.values().all(|sets| sets.len() == 1), "one set of labels per family: {labels:?}");
    });
}
