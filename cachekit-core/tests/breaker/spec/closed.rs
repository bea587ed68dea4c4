//! S12 to S29: CLOSED.

use crate::rig::{NANOSECOND, Rig, SECOND, WINDOW, defaults};
use cachekit_core::breaker::State;
use std::time::Duration;

#[test]
fn s12_a_new_breaker() {
    let rig = Rig::new(defaults());
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.failure_count, snapshot.cycle), (State::Closed, 0, 0));
    assert_eq!((snapshot.retry_in, snapshot.opened_at_wall_millis, snapshot.last_failure_age), (None, None, None));
    assert_eq!((snapshot.probes_in_use, snapshot.successes, snapshot.opened_total()), (0, 0, 0));
    assert_eq!(snapshot.rejected_total, Default::default());
    assert_eq!(snapshot.probes_total, Default::default());
    assert_eq!(snapshot.transitions_total, Default::default());
    let permit = rig.admit();
    assert_eq!((permit.is_probe(), permit.cycle()), (false, 0));
    permit.success();
}

#[test]
fn s14_a_call_that_works_leaves_no_trace() {
    let rig = Rig::new(defaults());
    let before = rig.snapshot();
    rig.succeed();
    assert_eq!(rig.snapshot(), before);
}

#[test]
fn s15_a_failed_call_counts_once() {
    let rig = Rig::new(defaults());
    rig.fail();
    assert_eq!(rig.failures(), 1);
    assert_eq!(rig.snapshot().last_failure_age, Some(Duration::ZERO));
}

#[test]
fn s16_one_failure_short_stays_closed() {
    let rig = Rig::new(defaults());
    rig.fail_times(4);
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 4));
}

#[test]
fn s17_x01_the_last_failure_opens_at_once() {
    for threshold in [2, 3, 5, 10] {
        let rig = Rig::new(defaults().with_failure_threshold(threshold));
        rig.fail_times(threshold - 1);
        let last = rig.admit();
        assert_eq!(rig.state(), State::Closed);
        last.failure();
        assert_eq!((rig.state(), rig.failures()), (State::Open, threshold));
        rig.rejected();
    }
}

#[test]
fn s18_a_threshold_of_one_opens_on_the_first() {
    let rig = Rig::new(defaults().with_failure_threshold(1));
    rig.fail();
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn s19_successes_do_not_reset_the_count() {
    let rig = Rig::new(defaults());
    for _ in 0..4 {
        rig.fail();
        rig.succeed();
    }
    assert_eq!(rig.state(), State::Closed);
    rig.fail();
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn s20_failures_older_than_the_window_do_not_count() {
    for (age, state) in
        [(WINDOW - NANOSECOND, State::Open), (WINDOW, State::Open), (WINDOW + NANOSECOND, State::Closed)]
    {
        let rig = Rig::new(defaults().with_failure_threshold(2));
        rig.fail();
        rig.advance(age);
        rig.fail();
        assert_eq!(rig.state(), state, "{age:?} old");
    }
}

#[test]
fn s21_the_window_rolls() {
    let rig = Rig::new(defaults());
    rig.fail_times(4);
    rig.advance(61 * SECOND);
    rig.fail_times(4);
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 4));

    // A failure every 13 s: the sixth finds four within its window, and so does each after it.
    let rig = Rig::new(defaults().with_failure_threshold(6));
    for _ in 0..20 {
        rig.fail();
        assert_eq!(rig.state(), State::Closed);
        rig.advance(13 * SECOND);
    }
}

#[test]
fn s22_what_the_function_raises_never_counts() {
    let rig = Rig::new(defaults());
    (0..1_000).for_each(|_| rig.admit().raised());
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 0));
}

#[test]
fn s25_success_after_success_stays_closed() {
    let rig = Rig::new(defaults());
    for _ in 0..1_000 {
        rig.succeed();
        rig.advance(SECOND);
    }
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 0));
}

#[test]
fn q06_the_count_is_pruned_when_it_is_read() {
    let rig = Rig::new(defaults());
    rig.fail();
    rig.advance(SECOND);
    rig.fail();
    for (advance, count) in [(WINDOW - SECOND, 2), (NANOSECOND, 1), (SECOND - NANOSECOND, 1), (NANOSECOND, 0)] {
        rig.advance(advance);
        assert_eq!(rig.failures(), count);
    }
    assert_eq!(rig.snapshot().last_failure_age, Some(WINDOW + NANOSECOND));
}

#[test]
fn q07_the_newest_failures_are_kept_and_the_count_stops_at_the_threshold() {
    let rig = Rig::open(defaults().with_recovery_timeout(SECOND));
    for _ in 0..20 {
        rig.advance(SECOND + NANOSECOND);
        rig.probe().failure();
        assert_eq!((rig.state(), rig.failures()), (State::Open, 5));
    }
    rig.advance(WINDOW - 3 * SECOND);
    assert_eq!(rig.failures(), 3, "57, 58 and 59 s old; the other two are nanoseconds over 60 s and 61 s");
}
