//! S70 to S73: how many breakers of a namespace are in which state.

use crate::clock::ManualClock;
use crate::rig::{COOLDOWN, NANOSECOND, defaults, single};
use cachekit_core::breaker::{BreakerConfig, CircuitBreaker, live};
use cachekit_core::ticks;
use std::sync::Arc;

fn build(config: BreakerConfig, clock: &Arc<ManualClock>, namespace: &str) -> CircuitBreaker {
    CircuitBreaker::builder(config).clock(clock.clone()).namespace(namespace).build().unwrap()
}

fn counts(namespace: &str) -> [u64; 3] {
    let counts = live(namespace);
    assert_eq!(counts.total(), counts.closed + counts.half_open + counts.open);
    [counts.closed, counts.half_open, counts.open]
}

#[test]
fn s70_s71_s73_every_live_breaker_is_in_exactly_one_state() {
    let (namespace, clock) = ("gauge-states", Arc::new(ManualClock::new()));
    let [a, b, c] = std::array::from_fn(|_| build(single(), &clock, namespace));
    let _other = build(single(), &clock, "gauge-states-other");
    assert_eq!(counts(namespace), [3, 0, 0]);
    a.admit().unwrap().failure();
    assert_eq!(counts(namespace), [2, 0, 1]);
    b.admit().unwrap().failure();
    assert_eq!(counts(namespace), [1, 0, 2]);
    clock.advance(ticks(COOLDOWN + NANOSECOND));
    assert_eq!(counts(namespace), [1, 0, 2], "time alone changes nothing");
    let probe = a.admit().unwrap();
    assert_eq!(counts(namespace), [1, 1, 1]);
    probe.success();
    assert_eq!(counts(namespace), [2, 0, 1]);
    b.admit().unwrap().failure();
    assert_eq!(counts(namespace), [2, 0, 1]);
    drop(c);
    assert_eq!(counts(namespace), [1, 0, 1]);
    assert_eq!(counts("gauge-states-other"), [1, 0, 0]);
}

#[test]
fn s72_a_dropped_breaker_leaves_from_any_state() {
    let (namespace, clock) = ("gauge-drop", Arc::new(ManualClock::new()));
    let [closed, open, half_open] = std::array::from_fn(|_| build(single(), &clock, namespace));
    open.admit().unwrap().failure();
    half_open.admit().unwrap().failure();
    clock.advance(ticks(COOLDOWN + NANOSECOND));
    std::mem::forget(half_open.admit().unwrap());
    assert_eq!(counts(namespace), [1, 1, 1]);
    drop(half_open);
    assert_eq!(counts(namespace), [1, 0, 1]);
    drop(open);
    assert_eq!(counts(namespace), [1, 0, 0]);
    drop(closed);
    assert_eq!(counts(namespace), [0, 0, 0]);
}

#[test]
fn s09_a_breaker_that_is_off_or_has_no_namespace_is_not_counted() {
    let clock = Arc::new(ManualClock::new());
    let off = build(defaults().with_enabled(false), &clock, "gauge-off");
    let unnamed = CircuitBreaker::new(defaults()).unwrap();
    assert_eq!(counts("gauge-off"), [0, 0, 0]);
    drop((off, unnamed));
    assert_eq!(counts("gauge-off"), [0, 0, 0]);
}

#[cfg(feature = "metrics")]
mod exported {
    use super::*;
    use metrics::{Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
    use std::sync::Mutex;

    /// Remembers every value a gauge was set to, in order.
    #[derive(Default)]
    struct Recording(Arc<Mutex<Vec<(String, f64)>>>);

    impl Recording {
        fn take(&self) -> Vec<(String, f64)> {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    struct Cell(String, Arc<Mutex<Vec<(String, f64)>>>);

    impl GaugeFn for Cell {
        fn increment(&self, _: f64) {
            panic!("absolute values only");
        }
        fn decrement(&self, _: f64) {
            panic!("absolute values only");
        }
        fn set(&self, value: f64) {
            self.1.lock().unwrap().push((self.0.clone(), value));
        }
    }

    impl Recorder for Recording {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            assert_eq!(key.name(), "circuit_breaker_state");
            let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            Gauge::from_arc(Arc::new(Cell(labels.join(" "), self.0.clone())))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    fn series(namespace: &str, values: &[(&str, f64)]) -> Vec<(String, f64)> {
        values.iter().map(|(state, value)| (format!("namespace={namespace} state={state}"), *value)).collect()
    }

    #[test]
    fn q29_all_states_are_exported_from_the_start_and_stay_at_zero() {
        let (recorder, clock, namespace) = (Recording::default(), Arc::new(ManualClock::new()), "gauge-exported");
        metrics::with_local_recorder(&recorder, || {
            let breaker = build(single(), &clock, namespace);
            let at_start = series(namespace, &[("CLOSED", 1.0), ("HALF_OPEN", 0.0), ("OPEN", 0.0)]);
            assert_eq!(recorder.take(), at_start);

            // The new state before the old one.
            breaker.admit().unwrap().failure();
            let opened = series(namespace, &[("OPEN", 1.0), ("CLOSED", 0.0), ("HALF_OPEN", 0.0)]);
            assert_eq!(recorder.take(), opened);

            clock.advance(ticks(COOLDOWN + NANOSECOND));
            let probe = breaker.admit().unwrap();
            let half_open = series(namespace, &[("HALF_OPEN", 1.0), ("CLOSED", 0.0), ("OPEN", 0.0)]);
            assert_eq!(recorder.take(), half_open);
            probe.success();
            let closed = series(namespace, &[("CLOSED", 1.0), ("HALF_OPEN", 0.0), ("OPEN", 0.0)]);
            assert_eq!(recorder.take(), closed);

            // Asked for the values again, and nothing for what is no transition.
            let _ = breaker.snapshot();
            assert_eq!(recorder.take(), closed);
            breaker.publish();
            assert_eq!(recorder.take(), closed);
            breaker.admit().unwrap().success();
            assert_eq!(recorder.take(), []);

            drop(breaker);
            let gone = series(namespace, &[("CLOSED", 0.0), ("HALF_OPEN", 0.0), ("OPEN", 0.0)]);
            assert_eq!(recorder.take(), gone);
        });
    }

    #[test]
    fn a_recorder_that_asks_the_breaker_does_not_deadlock() {
        struct Asks(Recording, Mutex<Option<Arc<CircuitBreaker>>>);
        impl Recorder for Asks {
            fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
                Counter::noop()
            }
            fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
                let breaker = self.1.lock().unwrap().take();
                if let Some(breaker) = breaker {
                    // Moves the breaker under the publisher's feet.
                    breaker.force_close();
                    let _ = breaker.snapshot();
                }
                self.0.register_gauge(key, metadata)
            }
            fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
                Histogram::noop()
            }
        }
        let (clock, namespace) = (Arc::new(ManualClock::new()), "gauge-reentrant");
        let breaker = Arc::new(build(single(), &clock, namespace));
        let recorder = Asks(Recording::default(), Mutex::new(Some(breaker.clone())));
        metrics::with_local_recorder(&recorder, || breaker.force_open());
        let last = |state| {
            let name = format!("namespace={namespace} state={state}");
            recorder.0.0.lock().unwrap().iter().rfind(|(series, _)| *series == name).unwrap().1
        };
        assert!(last("CLOSED") > 0.5 && last("OPEN") < 0.5, "what is published last is what is true");
    }

    #[test]
    fn what_is_published_last_is_true_whoever_published() {
        let (recorder, clock, namespace) = (Recording::default(), Arc::new(ManualClock::new()), "gauge-race");
        let breakers: [_; 4] = std::array::from_fn(|_| build(single(), &clock, namespace));
        std::thread::scope(|scope| {
            for breaker in &breakers {
                let recorder = &recorder;
                scope.spawn(move || {
                    metrics::with_local_recorder(recorder, || {
                        for _ in 0..500 {
                            breaker.force_open();
                            breaker.force_close();
                        }
                        breaker.force_open();
                    });
                });
            }
        });
        let published = recorder.take();
        for (state, expected) in [("CLOSED", 0.0), ("HALF_OPEN", 0.0), ("OPEN", 4.0)] {
            let name = format!("namespace={namespace} state={state}");
            let last = published.iter().rfind(|(series, _)| *series == name).unwrap().1;
            assert!((last - expected).abs() < 0.5, "{state} was left at {last}");
        }
    }
}
