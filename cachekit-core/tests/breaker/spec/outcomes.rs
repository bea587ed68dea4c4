//! What a permit can end with: S48 to S50 and the options about abandoned calls.

use crate::clock::ManualClock;
use crate::rig::{COOLDOWN, NANOSECOND, Rig, defaults, single};
use cachekit_core::breaker::{Abandoned, CircuitBreaker, State};
use cachekit_core::{Clock, Tick};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[test]
fn q18_an_abandoned_probe_holds_by_default() {
    let rig = Rig::cooled(single().with_abandoned(Abandoned::Hold));
    drop(rig.probe());
    rig.rejected();
    assert_eq!(rig.state(), State::HalfOpen);
    assert_eq!(rig.snapshot().probes_total.abandoned, 1);
}

#[test]
fn q18_an_abandoned_probe_can_give_its_slot_back() {
    let rig = Rig::cooled(single().with_abandoned(Abandoned::Release));
    drop(rig.probe());
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.probes_in_use), (State::HalfOpen, 0));
    assert_eq!((snapshot.probes_total.abandoned, snapshot.probes_total.raised), (1, 0));
    rig.probe().success();
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn q18_an_abandoned_call_can_be_a_failure() {
    let rig = Rig::cooled(single().with_abandoned(Abandoned::Failure));
    drop(rig.probe());
    assert_eq!((rig.state(), rig.rejected().retry_in), (State::Open, COOLDOWN));
    assert_eq!(rig.snapshot().probes_total.abandoned, 1);

    let rig = Rig::new(defaults().with_abandoned(Abandoned::Failure));
    for _ in 0..5 {
        assert_eq!(rig.state(), State::Closed);
        drop(rig.admit());
    }
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn q18_an_abandoned_call_of_another_period_is_late_if_it_means_anything() {
    for (abandoned, late) in [(Abandoned::Hold, 0), (Abandoned::Release, 1), (Abandoned::Failure, 1)] {
        let rig = Rig::cooled(single().with_abandoned(abandoned));
        let old = rig.probe();
        rig.advance(COOLDOWN + NANOSECOND);
        let _new = rig.probe();
        drop(old);
        let snapshot = rig.snapshot();
        assert_eq!((snapshot.state, snapshot.probes_in_use), (State::HalfOpen, 1), "{abandoned:?}");
        assert_eq!((snapshot.late_outcomes_total, snapshot.probes_total.abandoned), (late, 1), "{abandoned:?}");
    }
}

#[test]
fn q18_abandoning_a_call_admitted_while_closed_means_nothing_by_default() {
    for abandoned in [Abandoned::Hold, Abandoned::Release] {
        let rig = Rig::new(single().with_abandoned(abandoned));
        drop(rig.admit());
        let early = rig.admit();
        assert_eq!((rig.state(), rig.failures()), (State::Closed, 0));
        rig.fail();
        drop(early);
        assert_eq!((rig.state(), rig.snapshot().late_outcomes_total), (State::Open, 0), "{abandoned:?}");
    }
}

#[test]
fn q18_a_probe_dropped_by_a_panic_gives_its_slot_back_whatever_is_set() {
    for abandoned in [Abandoned::Hold, Abandoned::Release, Abandoned::Failure] {
        let rig = Rig::cooled(single().with_abandoned(abandoned));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _probe = rig.probe();
            std::panic::resume_unwind(Box::new("the function"));
        }));
        assert!(panicked.is_err());
        let snapshot = rig.snapshot();
        assert_eq!((snapshot.state, snapshot.probes_in_use), (State::HalfOpen, 0), "{abandoned:?}");
        assert_eq!((snapshot.probes_total.raised, snapshot.probes_total.abandoned), (1, 0));
    }
}

#[test]
fn q21_q22_what_is_not_the_backends_fault_releases() {
    // Whatever it was, the breaker is told the same: raised.
    let rig = Rig::cooled(defaults());
    (0..10).for_each(|_| rig.probe().raised());
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.probes_in_use, snapshot.successes), (State::HalfOpen, 0, 0));
    rig.recover();
}

#[test]
fn probes_are_counted_by_how_they_ended() {
    let rig = Rig::cooled(defaults().with_half_open_requests(10));
    rig.probe().success();
    rig.probe().raised();
    drop(rig.probe());
    rig.probe().failure();
    let probes = rig.snapshot().probes_total;
    assert_eq!((probes.success, probes.raised, probes.abandoned, probes.failure), (1, 1, 1, 1));
}

#[test]
fn a_clock_that_panics_leaves_everything_as_it_was() {
    #[derive(Debug)]
    struct Panics(AtomicBool, ManualClock);
    impl Clock for Panics {
        fn now(&self) -> Tick {
            assert!(!self.0.load(SeqCst), "the clock");
            self.1.now()
        }
        fn wall_millis(&self) -> u64 {
            self.1.wall_millis()
        }
    }
    let clock = Arc::new(Panics(AtomicBool::new(false), ManualClock::new()));
    let breaker = CircuitBreaker::builder(single()).clock(clock.clone()).build().unwrap();
    let permit = breaker.admit().unwrap();
    clock.0.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| permit.failure())).is_err(), "under the lock, which is now poisoned");
    clock.0.store(false, SeqCst);
    assert_eq!((breaker.state(), breaker.snapshot().failure_count), (State::Closed, 0));
    breaker.admit().unwrap().failure();
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn a_permit_and_a_breaker_go_to_other_threads() {
    fn goes<T: Send>(_: &T) {}
    fn is_shared<T: Send + Sync>(_: &T) {}
    let rig = Rig::new(defaults());
    let permit = rig.admit();
    goes(&permit);
    is_shared(&rig.breaker);
    std::thread::scope(|scope| {
        scope.spawn(move || permit.failure());
    });
    assert_eq!(rig.failures(), 1);
    assert_eq!(format!("{:?}", rig.breaker).split(',').next(), Some("CircuitBreaker { state: Closed"));
}
