//! The counters, with the few labels they have.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit_core::{Acceptance, Bytes, OpenError, Tier};
use cachekit_secure::{Keyring, Secure};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit, with_local_recorder,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use support::{CONTEXT, NOW, acceptance, master, open, seal, secure};

#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, u64>>>);

struct One(Counts, String);

impl CounterFn for One {
    fn increment(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
    fn absolute(&self, _: u64) {}
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Counter::from_arc(Arc::new(One(self.clone(), format!("{}{{{}}}", key.name(), labels.join(",")))))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn counted(run: impl FnOnce()) -> BTreeMap<String, u64> {
    let counts = Counts::default();
    with_local_recorder(&counts, run);
    std::mem::take(&mut *counts.0.lock().unwrap())
}

fn one(series: &str) -> BTreeMap<String, u64> {
    BTreeMap::from([(series.to_owned(), 1)])
}

#[test]
fn every_way_an_opening_ends_has_its_label() {
    let sealer = secure().sealer();
    let entry = seal(&*sealer, b"value");
    let flipped = |at: usize| {
        let mut entry = entry.to_vec();
        entry[at] ^= 1;
        Bytes::from(entry)
    };
    let mut plain = entry.to_vec();
    (plain[1], plain[3]) = (0x50, 0);
    let cases = [
        (entry.clone(), acceptance(), "opened", "primary"),
        (flipped(0), acceptance(), "malformed", "none"),
        (plain.into(), acceptance(), "plaintext", "none"),
        (entry.slice(..91), acceptance(), "too_short", "none"),
        (flipped(36), acceptance(), "unknown_key", "none"),
        (flipped(96), acceptance(), "tag_mismatch", "primary"),
        (entry.clone(), Acceptance { max_stored_len: 96, ..acceptance() }, "too_large", "none"),
        (entry.clone(), Acceptance { now: NOW + 300_000, ..acceptance() }, "expired", "primary"),
        (entry.clone(), Acceptance { now: NOW - 60_000, ..acceptance() }, "from_the_future", "primary"),
        (entry.clone(), Acceptance { schema_version: 8, ..acceptance() }, "other_schema", "primary"),
    ];
    for (entry, acceptance, result, slot) in cases {
        for (tier, name) in [(Tier::L1, "l1"), (Tier::L2, "l2")] {
            let acceptance = Acceptance { tier, ..acceptance };
            let counts = counted(|| drop(sealer.open(CONTEXT, entry.clone(), acceptance)));
            assert_eq!(counts, one(&format!("secure_open_total{{result={result},slot={slot},tier={name}}}")));
        }
    }
}

#[test]
fn u124_hits_of_a_previous_key_are_counted_by_slot() {
    let entry = seal(&*Secure::new(Keyring::new(master(3))).sealer(), b"value");
    let ring = Keyring::new(master(1)).previous(master(2)).previous(master(3));
    let sealer = Secure::new(ring).sealer();
    let mut counts = counted(|| assert!(open(&*sealer, entry.clone()).is_ok()));
    assert_eq!(counts.remove("secure_previous_key_hits_total{slot=previous_2}"), Some(1));
    assert_eq!(counts, one("secure_open_total{result=opened,slot=previous_2,tier=l2}"));
    let without = Secure::new(Keyring::new(master(1))).sealer();
    let counts = counted(|| assert_eq!(open(&*without, entry.clone()), Err(OpenError::NotAuthentic)));
    assert_eq!(counts, one("secure_open_total{result=unknown_key,slot=none,tier=l2}"));
}

#[test]
fn a_backend_that_keeps_entries_too_long_shows() {
    let sealer = secure().sealer();
    let entry = seal(&*sealer, b"value");
    let overlived = |tier, late| {
        let acceptance = Acceptance { now: NOW + 300_000 + late, tier, ..acceptance() };
        let counts = counted(|| drop(sealer.open(CONTEXT, entry.clone(), acceptance)));
        counts.get("secure_backend_overlived_total{}").copied()
    };
    assert_eq!(overlived(Tier::L2, 2_000), None, "the slack of a backend");
    assert_eq!(overlived(Tier::L2, 2_001), Some(1));
    assert_eq!(overlived(Tier::L1, 2_001), None);
}

#[test]
fn what_was_not_sealed_is_counted_by_reason() {
    let counts = counted(|| drop(secure().sealer().seal(CONTEXT, support::header(), Vec::new())));
    assert_eq!(counts, one("secure_seal_failures_total{reason=no_room}"));
}
