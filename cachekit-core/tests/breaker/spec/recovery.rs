//! S66 to S77, and what other breakers get wrong about recovering.

use crate::rig::{COOLDOWN, NANOSECOND, Rig, SECOND, defaults, single};
use cachekit_core::breaker::State;

#[test]
fn s66_after_closing_it_takes_the_full_threshold_again() {
    let rig = Rig::cooled(defaults());
    rig.recover();
    rig.fail_times(4);
    assert_eq!(rig.state(), State::Closed);
    rig.fail();
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn s67_cycle_numbers_are_never_used_again() {
    let rig = Rig::cooled(single());
    for cycle in 1..=10 {
        let probe = rig.probe();
        assert_eq!(probe.cycle(), cycle);
        if cycle % 2 == 0 {
            probe.failure();
        } else {
            probe.success();
            let closed = rig.admit();
            assert_eq!(closed.cycle(), cycle, "while CLOSED it is the latest");
            closed.failure();
        }
        rig.advance(COOLDOWN + NANOSECOND);
    }
}

#[test]
fn s68_a_failure_from_an_earlier_closed_period_counts_now() {
    let rig = Rig::new(defaults());
    let early = rig.admit();
    rig.fail_times(5);
    rig.advance(COOLDOWN + NANOSECOND);
    rig.recover();
    rig.advance(40 * SECOND);
    early.failure();
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.failure_count, snapshot.late_outcomes_total), (State::Closed, 1, 1));
    rig.advance(60 * SECOND);
    assert_eq!(rig.failures(), 1, "stamped when it was reported");
    rig.advance(NANOSECOND);
    assert_eq!(rig.failures(), 0);
}

#[test]
fn s69_a_snapshot_has_what_health_shows() {
    let rig = Rig::open(defaults());
    let snapshot = rig.snapshot();
    assert_eq!(snapshot.state.as_str(), "OPEN");
    assert_eq!(snapshot.failure_count, 5);
    assert_eq!(&snapshot.config, rig.breaker.config());
    assert_eq!(snapshot.retry_in, Some(COOLDOWN));
    assert_eq!(snapshot.transitions_total.get(State::Closed, State::Open), 1);
}

#[test]
fn s75_the_timeline() {
    let rig = Rig::new(defaults());
    let mut connects = 0;
    for call in 1..=34 {
        if let Ok(permit) = rig.breaker.admit() {
            connects += 1;
            permit.failure();
        }
        let expected = if call < 5 { State::Closed } else { State::Open };
        assert_eq!(rig.state(), expected, "after call {call}");
        rig.advance(SECOND / 2);
    }
    assert_eq!(connects, 5);
    rig.advance(COOLDOWN);
    for call in 35..=37 {
        let probe = rig.probe();
        assert_eq!(rig.state(), State::HalfOpen, "during call {call}");
        probe.success();
    }
    assert_eq!(rig.state(), State::Closed);
    assert!(!rig.admit().is_probe(), "call 38 is an ordinary one");
}

#[test]
fn s76_down_for_two_cooldowns() {
    // One caller after another: one attempt per cooldown.
    let rig = Rig::open(defaults());
    let mut attempts = 0;
    for _ in 0..61 {
        rig.advance(SECOND);
        if let Ok(permit) = rig.breaker.admit() {
            attempts += 1;
            permit.failure();
        }
    }
    assert_eq!(attempts, 1, "at 31 s; the next would come after 61 s");
    rig.advance(SECOND);
    rig.probe().failure();

    // Callers that overlap: at most as many as there are slots.
    let rig = Rig::cooled(defaults());
    let overlapping: Vec<_> = (0..100).filter_map(|_| rig.breaker.admit().ok()).collect();
    assert_eq!(overlapping.len(), 3);
    overlapping.into_iter().for_each(|permit| permit.failure());
    assert_eq!(rig.snapshot().opened_total(), 2, "the first failure reopened, the others came late");
}

#[test]
fn x05_a_second_recovery_takes_all_its_successes() {
    let rig = Rig::cooled(defaults());
    rig.recover();
    rig.fail_times(5);
    rig.advance(COOLDOWN + NANOSECOND);
    rig.probe().success();
    assert_eq!(rig.state(), State::HalfOpen, "the successes of the first recovery are gone");
    rig.probe().success();
    rig.probe().success();
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 0));
}

#[test]
fn x05_a_probe_reopens_without_old_failures() {
    // The failures that opened it are long out of the window, so only the rule about probes can reopen.
    let rig = Rig::open(defaults());
    rig.advance(1_000 * SECOND);
    assert_eq!(rig.failures(), 0);
    rig.probe().failure();
    assert_eq!((rig.state(), rig.failures()), (State::Open, 1));
}

#[test]
fn x07_failures_expire() {
    let rig = Rig::new(defaults());
    for _ in 0..50 {
        rig.fail();
        rig.advance(70 * SECOND);
    }
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn x04_x17_a_single_test_call() {
    let rig = Rig::cooled(single());
    let probe = rig.probe();
    for _ in 0..100 {
        rig.rejected();
    }
    probe.success();
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn x18_a_probe_that_hangs_and_fails_reopens_for_a_full_period() {
    let rig = Rig::cooled(single());
    let probe = rig.probe();
    rig.advance(COOLDOWN);
    probe.failure();
    assert_eq!(rig.rejected().retry_in, COOLDOWN);
    rig.advance(COOLDOWN);
    rig.rejected();
    rig.advance(NANOSECOND);
    rig.probe().success();
}

#[test]
fn x20_a_late_success_does_not_close() {
    let rig = Rig::new(single());
    let [in_open, in_half_open] = std::array::from_fn(|_| rig.admit());
    rig.fail();
    in_open.success();
    assert_eq!(rig.state(), State::Open);
    rig.advance(COOLDOWN + NANOSECOND);
    let _probe = rig.probe();
    in_half_open.success();
    assert_eq!(rig.state(), State::HalfOpen);
}

#[test]
fn by_hand_it_opens_for_a_cooldown_and_closes() {
    let rig = Rig::new(defaults());
    rig.breaker.force_open();
    assert_eq!((rig.state(), rig.rejected().retry_in), (State::Open, COOLDOWN));
    rig.advance(10 * SECOND);
    rig.breaker.force_open();
    assert_eq!(rig.rejected().retry_in, COOLDOWN);
    assert_eq!(rig.snapshot().opened_total(), 2);
    rig.breaker.force_close();
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 0));

    rig.breaker.force_open();
    rig.advance(COOLDOWN + NANOSECOND);
    rig.recover();

    let rig = Rig::cooled(single());
    let probe = rig.probe();
    rig.breaker.force_close();
    probe.success();
    assert_eq!(rig.state(), State::Closed);
    rig.fail();
    rig.advance(COOLDOWN + NANOSECOND);
    assert_eq!(rig.probe().cycle(), 2);
}
