//! S30 to S41: OPEN.

use crate::rig::{COOLDOWN, NANOSECOND, Rig, SECOND, defaults, single};
use cachekit_core::breaker::{CallError, Open, State};
use std::time::Duration;

#[test]
fn s34_a_rejected_call_changes_nothing() {
    let rig = Rig::open(defaults());
    rig.advance(10 * SECOND);
    let before = rig.snapshot();
    for _ in 0..50 {
        rig.rejected();
    }
    let after = rig.snapshot();
    assert_eq!(after.failure_count, before.failure_count);
    assert_eq!(after.retry_in, Some(20 * SECOND));
    assert_eq!(after.rejected_total.open, 100);
    assert_eq!(after.rejected_total.half_open, 0);
    assert_eq!(after.last_failure_age, before.last_failure_age);
}

#[test]
fn s35_a_failure_of_a_call_admitted_before_the_trip_is_ignored() {
    let rig = Rig::new(defaults());
    let early = rig.admit();
    rig.fail_times(5);
    rig.advance(10 * SECOND);
    let before = rig.snapshot();
    early.failure();
    let after = rig.snapshot();
    assert_eq!((after.state, after.retry_in), (State::Open, Some(20 * SECOND)), "the cooldown did not move");
    assert_eq!((after.failure_count, after.last_failure_age), (before.failure_count, before.last_failure_age));
    assert_eq!(after.opened_at_wall_millis, before.opened_at_wall_millis);
    assert_eq!(after.late_outcomes_total, 1);
}

#[test]
fn s36_a_success_of_a_call_admitted_before_the_trip_is_ignored() {
    let rig = Rig::new(defaults());
    let early = rig.admit();
    rig.fail_times(5);
    early.success();
    assert_eq!((rig.state(), rig.failures()), (State::Open, 5));
}

#[test]
fn s37_rejected_until_the_cooldown_is_over() {
    let rig = Rig::open(defaults());
    rig.advance(COOLDOWN - NANOSECOND);
    assert_eq!(rig.rejected().retry_in, NANOSECOND);
    rig.advance(NANOSECOND);
    assert_eq!(rig.rejected().retry_in, Duration::ZERO);
    rig.advance(NANOSECOND);
    rig.probe().success();

    let rig = Rig::cooled(defaults());
    assert!(rig.breaker.try_admit().unwrap().is_probe());
}

#[test]
fn s38_the_cooldown_starts_with_the_failure_that_opened() {
    let rig = Rig::new(defaults());
    rig.fail_times(4);
    rig.advance(20 * SECOND);
    let slow = rig.admit();
    rig.advance(5 * SECOND);
    slow.failure();
    assert_eq!(rig.rejected().retry_in, COOLDOWN, "not when the failing call began");
    rig.advance(COOLDOWN);
    rig.rejected();
    rig.advance(NANOSECOND);
    let probe = rig.probe();
    rig.advance(7 * SECOND);
    probe.failure();
    assert_eq!(rig.rejected().retry_in, COOLDOWN, "and again when it reopened");
}

#[test]
fn s39_reading_makes_no_transition() {
    let rig = Rig::cooled(defaults());
    rig.advance(1_000 * SECOND);
    for _ in 0..10 {
        let snapshot = rig.snapshot();
        assert_eq!((snapshot.state, snapshot.cycle), (State::Open, 0));
        assert_eq!(snapshot.retry_in, Some(Duration::ZERO));
        assert_eq!(rig.breaker.state(), State::Open);
    }
    rig.probe().success();
    assert_eq!(rig.state(), State::HalfOpen);
}

#[test]
fn s40_the_first_call_after_the_cooldown_is_the_first_probe() {
    let rig = Rig::cooled(defaults());
    let first = rig.admit();
    assert_eq!((first.is_probe(), first.cycle()), (true, 1));
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.cycle, snapshot.probes_in_use), (State::HalfOpen, 1, 1));
    first.success();
}

#[test]
fn q09_the_wall_time_of_opening_is_for_display() {
    let rig = Rig::new(single());
    let opens_at = cachekit_core::Clock::wall_millis(&*rig.clock);
    rig.fail();
    rig.advance(COOLDOWN + SECOND);
    assert_eq!(rig.snapshot().opened_at_wall_millis, Some(opens_at));
    rig.probe().success();
    assert_eq!(rig.snapshot().opened_at_wall_millis, Some(opens_at), "it says when it last opened");
}

#[test]
fn q10_states_are_spelled_in_upper_case() {
    assert_eq!(State::ALL.map(State::as_str), ["CLOSED", "HALF_OPEN", "OPEN"]);
    assert_eq!(format!("{:>9}", State::HalfOpen), "HALF_OPEN");
}

#[test]
fn x02_a_typed_rejection() {
    let rig = Rig::open(single());
    let open: Open = rig.breaker.admit().unwrap_err();
    let error: &dyn std::error::Error = &open;
    assert_eq!(error.to_string(), "circuit open; retry in 30.0s");
    let call: CallError<std::io::Error> = open.into();
    assert!(call.is_open());
    assert_eq!(call.to_string(), open.to_string());
    assert!(call.into_inner().is_none());
}

#[test]
fn x03_strictly_more_than_the_timeout() {
    let rig = Rig::open(single());
    rig.advance(COOLDOWN);
    rig.rejected();
    rig.advance(NANOSECOND);
    assert_eq!(rig.state(), State::Open);
    rig.probe().success();
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn x09_x13_no_failure_while_open_moves_the_cooldown_whatever_is_tried() {
    let rig = Rig::new(defaults());
    let early: Vec<_> = (0..30).map(|_| rig.admit()).collect();
    rig.fail_times(5);
    for permit in early {
        rig.rejected();
        permit.failure();
        rig.advance(SECOND);
    }
    assert_eq!(rig.rejected().retry_in, Duration::ZERO);
    rig.advance(NANOSECOND);
    rig.probe().success();
}

#[test]
fn x14_a_rejection_says_how_long() {
    let rig = Rig::open(defaults());
    let step = Duration::from_millis(333);
    let mut last = COOLDOWN;
    for _ in 0..90 {
        let open = rig.rejected();
        assert!(open.retry_in <= last);
        assert_eq!(open.to_string(), format!("circuit open; retry in {:.1}s", open.retry_in.as_secs_f64()));
        assert_eq!(rig.snapshot().retry_in, Some(open.retry_in));
        last = open.retry_in;
        rig.advance(step);
    }
    rig.advance(COOLDOWN - 90 * step);
    assert_eq!(rig.rejected().to_string(), "circuit open; retry in 0.0s");
    rig.advance(NANOSECOND);
    rig.probe().success();

    let rig = Rig::cooled(single());
    let _held = rig.probe();
    rig.advance(10 * SECOND);
    assert_eq!(rig.rejected().retry_in, 20 * SECOND, "in a spent cycle it is the time to the next");
}
