//! Every comparison one tick before, at, and one tick after its boundary.

use crate::rig::{COOLDOWN, NANOSECOND, Rig, WINDOW, defaults, single};
use cachekit_core::breaker::State;
use std::time::Duration;

fn around(boundary: Duration) -> [(Duration, bool); 3] {
    [(boundary - NANOSECOND, false), (boundary, false), (boundary + NANOSECOND, true)]
}

#[test]
fn open_admission() {
    for (elapsed, admitted) in around(COOLDOWN) {
        let rig = Rig::open(single());
        rig.advance(elapsed);
        assert_eq!(rig.breaker.admit().is_ok(), admitted, "{elapsed:?}");
        let rig = Rig::open(single());
        rig.advance(elapsed);
        assert_eq!(rig.breaker.try_admit().is_some(), admitted, "{elapsed:?}");
    }
}

#[test]
fn spent_half_open() {
    for (elapsed, restarts) in around(COOLDOWN) {
        let rig = Rig::cooled(single());
        let _probe = rig.probe();
        rig.advance(elapsed);
        assert_eq!(rig.breaker.admit().is_ok(), restarts, "{elapsed:?}");
        let rig = Rig::cooled(single());
        let _probe = rig.probe();
        rig.advance(elapsed);
        assert_eq!(rig.breaker.try_admit().is_some(), restarts, "{elapsed:?}");
    }
}

#[test]
fn window() {
    for (age, forgotten) in around(WINDOW) {
        let rig = Rig::new(defaults().with_failure_threshold(2));
        rig.fail();
        rig.advance(age);
        assert_eq!(rig.failures() == 0, forgotten, "read at {age:?}");
        rig.fail();
        assert_eq!(rig.state() == State::Closed, forgotten, "decided at {age:?}");
    }
}

#[test]
fn trip() {
    for (failures, state) in [(4, State::Closed), (5, State::Open)] {
        let rig = Rig::new(defaults());
        rig.fail_times(failures);
        assert_eq!(rig.state(), state);
    }
}

#[test]
fn slot() {
    let rig = Rig::cooled(defaults());
    for free in [true, true, true, false] {
        assert_eq!(rig.breaker.admit().map(std::mem::forget).is_ok(), free);
    }
}

#[test]
fn close() {
    let rig = Rig::cooled(defaults());
    for state in [State::HalfOpen, State::HalfOpen, State::Closed] {
        rig.probe().success();
        assert_eq!(rig.state(), state);
    }
}
