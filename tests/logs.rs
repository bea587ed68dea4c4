//! An outage is logged once per transition, and counted every time.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit::testing::{Build, Op};
use cachekit::{Cache, ErrorKind, breaker::BreakerConfig};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Rig, Runs};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    fn at(&self, level: Level) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|(l, _)| *l == level).map(|(_, text)| text.clone()).collect()
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        use std::fmt::Write;
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        if event.metadata().target().starts_with("cachekit") {
            self.0.lock().unwrap().push((*event.metadata().level(), text.0));
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn logged(test: impl AsyncFnOnce(&Log)) {
    let log = Log::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    tracing::subscriber::with_default(log.clone(), || runtime.block_on(test(&log)));
}

#[test]
fn u110_a_thousand_calls_in_an_outage_make_a_handful_of_lines() {
    logged(async |log| {
        let rig = Rig::new().unbuildable();
        let miss = async |i: usize| {
            let _ = rig.cache.get_or_compute(&i.to_string(), || Runs::new().give_owned(1)).await.unwrap();
        };
        for i in 0..1_000 {
            miss(i).await;
        }
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(
            warnings[0].contains("cannot be built") && warnings[0].contains("error=unavailable"),
            "u176: {warnings:?}"
        );
        assert!(warnings[1].contains("OPEN"));
        assert_eq!((rig.degraded("circuit_open"), rig.degraded("build_failed")), (995, 5));
        rig.factory.by_default(Build::Succeed);
        rig.clock.advance(Duration::from_secs(31));
        (1_000..1_010).for_each(drop);
        for i in 1_000..1_010 {
            miss(i).await;
        }
        assert_eq!(log.at(Level::WARN).len(), 2);
        assert_eq!(log.at(Level::INFO).len(), 3, "built, half open, closed: {:?}", log.at(Level::INFO));
    });
}

#[test]
fn a_backend_that_fails_after_its_build_is_logged_once_and_once_more_when_it_works() {
    logged(async |log| {
        let rig = Rig::new();
        rig.faults.fail_all(Op::Get, ErrorKind::Unavailable);
        rig.faults.fail_all(Op::Set, ErrorKind::Unavailable);
        for i in 0..100 {
            let _ = rig.cache.get_or_compute(&i.to_string(), || Runs::new().give_owned(1)).await.unwrap();
        }
        assert_eq!(log.at(Level::WARN).len(), 1, "{:?}", log.at(Level::WARN));
        rig.faults.heal();
        let _ = rig.cache.set("k", 1).await.unwrap();
        assert_eq!(log.at(Level::INFO).len(), 1, "{:?}", log.at(Level::INFO));
    });
}

#[test]
fn q23_q24_a_breaker_that_its_settings_disable_is_warned_about_when_the_cache_is_built() {
    logged(async |log| {
        let _fine = Cache::builder("n").build().unwrap();
        assert!(log.at(Level::WARN).is_empty());
        let _short = Cache::builder("n")
            .breaker(BreakerConfig::new().with_recovery_timeout(Duration::from_secs(5)))
            .build()
            .unwrap();
        let _many = Cache::builder("n").breaker(BreakerConfig::new().with_failure_threshold(14)).build().unwrap();
        assert_eq!(log.at(Level::WARN).len(), 2, "{:?}", log.at(Level::WARN));
    });
}

#[test]
fn u130_no_key_and_no_value_is_logged() {
    logged(async |log| {
        let rig = Rig::new();
        for op in Op::ALL {
            rig.faults.fail_all(op, ErrorKind::Unavailable);
        }
        let _ = rig.cache.set("canary-key", "canary-value".to_owned()).await.unwrap();
        let _ = rig.cache.get::<String>("canary-key").await.unwrap();
        let _ = rig.cache.delete("canary-key").await.unwrap_err();
        rig.store.insert_raw("n:canary-key", "canary-value");
        rig.faults.heal();
        let _ = rig.cache.get::<String>("canary-key").await.unwrap();
        assert!(!log.0.lock().unwrap().is_empty());
        assert!(!format!("{:?}", log.0.lock().unwrap()).contains("canary"));
        let _failing = rig.cache.delete("canary-key").await;
        assert!(!format!("{:?} {:?}", rig.cache.health(), rig.cache).contains("canary"));
    });
}

/// Runs by itself without the variable, and in a child process with it.
#[test]
fn u119_a_key_in_the_environment_switches_nothing_on_and_is_warned_about_once() {
    const NAME: &str = "u119_a_key_in_the_environment_switches_nothing_on_and_is_warned_about_once";
    let key_is_set = std::env::var_os("CACHEKIT_MASTER_KEY").is_some();
    logged(async |log| {
        for _ in 0..3 {
            let rig = Rig::new();
            let _ = rig.cache.set("k", "plain".to_owned()).await.unwrap();
            let bytes = rig.store.raw("n:k").unwrap();
            assert!(bytes.ends_with(b"plain"));
        }
        let warnings = log.at(Level::WARN);
        assert_eq!(warnings.len(), usize::from(key_is_set), "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains("CACHEKIT_MASTER_KEY") && !warning.contains("0123")));
    });
    if !key_is_set {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env("CACHEKIT_MASTER_KEY", "0123456789abcdef".repeat(4))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }
}
