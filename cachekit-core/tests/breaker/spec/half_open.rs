//! S42 to S65: HALF_OPEN.

use crate::rig::{COOLDOWN, NANOSECOND, Rig, SECOND, defaults, single};
use cachekit_core::breaker::{Permit, State};
use std::time::Duration;

#[test]
fn s42_a_cycle_starts_empty() {
    let rig = Rig::cooled(defaults());
    for cycle in 1..=3 {
        let [kept, ok] = rig.probes();
        ok.success();
        let snapshot = rig.snapshot();
        assert_eq!((snapshot.cycle, snapshot.probes_in_use, snapshot.successes), (cycle, 2, 1));
        kept.failure();
        let snapshot = rig.snapshot();
        assert_eq!((snapshot.cycle, snapshot.probes_in_use, snapshot.successes), (cycle, 0, 0));
        rig.advance(COOLDOWN + NANOSECOND);
    }
}

#[test]
fn s43_without_a_free_slot_calls_are_rejected_and_not_counted() {
    let rig = Rig::cooled(defaults());
    let held: [Permit<'_>; 3] = rig.probes();
    rig.advance(10 * SECOND);
    for _ in 0..10 {
        assert_eq!(rig.rejected().retry_in, 20 * SECOND);
    }
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.probes_in_use), (State::HalfOpen, 3));
    assert_eq!((snapshot.rejected_total.open, snapshot.rejected_total.half_open), (0, 20));
    held.into_iter().for_each(Permit::success);
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn s45_a_success_keeps_its_slot() {
    let rig = Rig::cooled(defaults());
    rig.probe().success();
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.probes_in_use, snapshot.successes), (State::HalfOpen, 1, 1));
}

#[test]
fn s46_enough_successes_close_and_forget_the_failures() {
    for (successes, slots) in [(1, 1), (3, 3), (2, 5)] {
        let rig = Rig::cooled(defaults().with_success_threshold(successes).with_half_open_requests(slots));
        assert_ne!(rig.failures(), 0);
        for _ in 1..successes {
            rig.probe().success();
            assert_eq!(rig.state(), State::HalfOpen);
        }
        rig.probe().success();
        assert_eq!((rig.state(), rig.failures()), (State::Closed, 0));
    }
}

#[test]
fn s47_one_failure_reopens_for_a_full_cooldown() {
    let rig = Rig::cooled(defaults().with_failure_threshold(10));
    rig.probe().success();
    rig.probe().success();
    let last = rig.probe();
    rig.advance(10 * SECOND);
    last.failure();
    assert_eq!(rig.state(), State::Open);
    assert_eq!(rig.rejected().retry_in, COOLDOWN);
}

#[test]
fn s48_a_dropped_probe_keeps_its_slot_and_has_no_outcome() {
    let rig = Rig::cooled(defaults());
    for held in 1..=3 {
        drop(rig.probe());
        let snapshot = rig.snapshot();
        assert_eq!((snapshot.state, snapshot.probes_in_use, snapshot.successes), (State::HalfOpen, held, 0));
    }
    rig.rejected();
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.probes_total.abandoned, snapshot.late_outcomes_total), (3, 0));

    // One that is leaked is never heard of at all.
    let rig = Rig::cooled(single());
    std::mem::forget(rig.probe());
    rig.rejected();
    rig.advance(COOLDOWN + NANOSECOND);
    rig.probe().success();
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn s49_a_raising_probe_gives_its_slot_back() {
    let rig = Rig::cooled(single());
    let probe = rig.probe();
    rig.rejected();
    probe.raised();
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.probes_in_use, snapshot.successes), (State::HalfOpen, 0, 0));
    let next = rig.probe();
    assert_eq!(next.cycle(), 1, "in the same cycle");
    next.success();
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn s50_a_function_that_keeps_raising_is_admitted_again_and_again() {
    let rig = Rig::cooled(defaults());
    for _ in 0..200 {
        let held: [Permit<'_>; 3] = rig.probes();
        rig.rejected();
        held.into_iter().for_each(Permit::raised);
        rig.advance(SECOND / 10);
    }
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.cycle, snapshot.probes_in_use), (State::HalfOpen, 1, 0));
    assert_eq!(snapshot.probes_total.raised, 600);
}

#[test]
fn s51_a_raise_between_successes_neither_counts_nor_resets() {
    let rig = Rig::cooled(defaults());
    rig.probe().success();
    rig.probe().raised();
    rig.probe().success();
    assert_eq!(rig.state(), State::HalfOpen);
    rig.probe().success();
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn s52_slots_are_not_a_limit_on_concurrency() {
    let rig = Rig::cooled(defaults().with_success_threshold(3).with_half_open_requests(3));
    // One after another, and the third is dropped: no fourth although none is running.
    rig.probe().success();
    rig.probe().success();
    drop(rig.probe());
    rig.rejected();
}

#[test]
fn s53_s54_a_spent_cycle_starts_over_when_its_cooldown_is_over() {
    let rig = Rig::cooled(defaults());
    rig.probe().success();
    rig.probe().success();
    drop(rig.probe());
    rig.advance(COOLDOWN - NANOSECOND);
    assert_eq!(rig.rejected().retry_in, NANOSECOND);
    rig.advance(NANOSECOND);
    assert_eq!(rig.rejected().retry_in, Duration::ZERO);
    rig.advance(NANOSECOND);
    let first = rig.probe();
    assert_eq!(first.cycle(), 2);
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.cycle, snapshot.probes_in_use, snapshot.successes), (2, 1, 0), "the successes are discarded");
    assert_eq!(snapshot.transitions_total.get(State::HalfOpen, State::HalfOpen), 1);
    first.success();
    rig.probe().success();
    assert_eq!(rig.state(), State::HalfOpen);
    rig.probe().success();
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn s54_the_new_cycle_counts_its_own_cooldown() {
    let rig = Rig::cooled(single());
    drop(rig.probe());
    rig.advance(COOLDOWN + 10 * SECOND);
    drop(rig.probe());
    assert_eq!(rig.rejected().retry_in, COOLDOWN);
}

#[test]
fn s55_with_a_free_slot_the_cycle_goes_on_for_ever() {
    let rig = Rig::cooled(defaults());
    rig.probe().success();
    rig.probe().success();
    rig.advance(1_000 * COOLDOWN);
    let last = rig.probe();
    assert_eq!(last.cycle(), 1);
    last.success();
    assert_eq!(rig.state(), State::Closed);

    // A slot that comes back after the cooldown is such a free slot.
    let rig = Rig::cooled(single());
    let probe = rig.probe();
    rig.advance(2 * COOLDOWN);
    probe.raised();
    assert_eq!(rig.probe().cycle(), 1);
}

/// A probe of cycle 1, while cycle 2 runs with one of its `slots` taken.
fn ended_cycle(rig: &Rig) -> (Permit<'_>, Permit<'_>) {
    let old = rig.probe();
    while rig.snapshot().probes_in_use < rig.breaker.config().half_open_requests() {
        drop(rig.probe());
    }
    rig.advance(COOLDOWN + NANOSECOND);
    let new = rig.probe();
    assert_eq!((old.cycle(), new.cycle()), (1, 2));
    (old, new)
}

#[test]
fn s56_u106_the_success_of_an_ended_cycle_cannot_close() {
    let rig = Rig::cooled(single());
    let (old, new) = ended_cycle(&rig);
    old.success();
    assert_eq!((rig.state(), rig.snapshot().successes), (State::HalfOpen, 0));
    assert_eq!(rig.snapshot().late_outcomes_total, 1);
    new.success();
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn s57_the_failure_of_an_ended_cycle_cannot_reopen() {
    let rig = Rig::cooled(defaults());
    let (old, new) = ended_cycle(&rig);
    let before = rig.snapshot();
    old.failure();
    let after = rig.snapshot();
    assert_eq!((after.state, after.probes_in_use), (State::HalfOpen, 1));
    assert_eq!((after.failure_count, after.last_failure_age), (before.failure_count, before.last_failure_age));
    assert_eq!((after.late_outcomes_total, after.probes_total.failure), (1, 1));
    new.success();
}

#[test]
fn s58_q32_the_release_of_an_ended_cycle_frees_nothing() {
    let rig = Rig::cooled(single());
    let (old, new) = ended_cycle(&rig);
    old.raised();
    assert_eq!(rig.snapshot().probes_in_use, 1);
    rig.rejected();
    new.success();

    // Nor in CLOSED, nor in OPEN.
    let rig = Rig::cooled(defaults().with_success_threshold(1));
    let [a, b, c] = rig.probes();
    a.success();
    b.raised();
    assert_eq!((rig.state(), rig.snapshot().probes_in_use), (State::Closed, 0));
    rig.fail_times(5);
    c.raised();
    assert_eq!(rig.state(), State::Open);
    rig.advance(COOLDOWN + NANOSECOND);
    let [_x, _y, _z] = rig.probes();
    rig.rejected();
}

#[test]
fn s59_calls_admitted_while_closed_cannot_decide_a_cycle() {
    let rig = Rig::new(defaults());
    let [ok, failed, raised] = std::array::from_fn(|_| rig.admit());
    rig.fail_times(5);
    rig.advance(COOLDOWN + NANOSECOND);
    let _probe = rig.probe();
    let before = rig.snapshot();
    ok.success();
    failed.failure();
    raised.raised();
    let after = rig.snapshot();
    assert_eq!((after.state, after.probes_in_use, after.successes), (State::HalfOpen, 1, 0));
    assert_eq!((after.failure_count, after.last_failure_age), (before.failure_count, before.last_failure_age));
    assert_eq!(after.late_outcomes_total, 1);
}

#[test]
fn s60_a_probe_that_reports_its_timeout_reopens_and_one_that_is_left_does_not() {
    let rig = Rig::cooled(defaults());
    let timed_out = rig.probe();
    drop(rig.probe());
    assert_eq!(rig.state(), State::HalfOpen);
    rig.advance(5 * SECOND);
    timed_out.failure();
    assert_eq!((rig.state(), rig.rejected().retry_in), (State::Open, COOLDOWN));
}

#[test]
fn s62_at_most_as_many_probes_per_cooldown_as_there_are_slots() {
    let rig = Rig::cooled(defaults().with_half_open_requests(4));
    let mut admitted = Vec::new();
    // Ten cooldowns of a caller that asks every tenth of a second and whose probes never report.
    for tenth in 0_u64..3_000 {
        if let Ok(permit) = rig.breaker.admit() {
            std::mem::forget(permit);
            admitted.push(tenth);
        }
        rig.advance(SECOND / 10);
    }
    assert_eq!(admitted.len(), 40);
    for window in admitted.windows(5) {
        assert!(window[4] - window[0] > 300 - 4, "five admissions within a cooldown: {window:?}");
    }
}

#[test]
fn s63_probes_that_outlive_a_closed_cycle() {
    let rig = Rig::cooled(defaults().with_success_threshold(1));
    let [decides, succeeds, fails] = rig.probes();
    decides.success();
    assert_eq!(rig.state(), State::Closed);
    succeeds.success();
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 0));
    fails.failure();
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 1), "an ordinary failure");
    assert_eq!(rig.snapshot().late_outcomes_total, 2);
    rig.fail_times(4);
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn s64_the_other_probe_of_a_failed_cycle() {
    type Report = fn(Permit<'_>);
    let reports: [(Report, u32); 3] = [(|p| p.success(), 0), (|p| p.raised(), 0), (|p| p.failure(), 1)];
    for (report, counted_in_closed) in reports {
        // In OPEN.
        let rig = Rig::cooled(defaults());
        let [fails, other] = rig.probes();
        fails.failure();
        rig.advance(10 * SECOND);
        report(other);
        assert_eq!((rig.state(), rig.rejected().retry_in), (State::Open, 20 * SECOND));

        // In the next cycle.
        let rig = Rig::cooled(defaults());
        let [fails, other] = rig.probes();
        fails.failure();
        rig.advance(COOLDOWN + NANOSECOND);
        let _probe = rig.probe();
        report(other);
        let snapshot = rig.snapshot();
        assert_eq!((snapshot.state, snapshot.cycle), (State::HalfOpen, 2));
        assert_eq!((snapshot.probes_in_use, snapshot.successes), (1, 0));

        // In CLOSED.
        let rig = Rig::cooled(defaults());
        let [fails, other] = rig.probes();
        fails.failure();
        rig.advance(COOLDOWN + NANOSECOND);
        rig.recover();
        report(other);
        assert_eq!((rig.state(), rig.failures()), (State::Closed, counted_in_closed));
    }
}

#[test]
fn s65_slots_stay_between_none_and_all() {
    let rig = Rig::cooled(defaults());
    for round in 0..50 {
        let mut held: Vec<_> = std::iter::from_fn(|| rig.breaker.admit().ok()).collect();
        assert_eq!(rig.snapshot().probes_in_use, 3);
        if round % 5 == 0 {
            // Restarted: what is held belongs to the past and frees nothing.
            rig.advance(COOLDOWN + NANOSECOND);
            held.push(rig.probe());
        }
        let restarted = held.len() == 4;
        held.into_iter().for_each(Permit::raised);
        assert_eq!(rig.snapshot().probes_in_use, 0, "restarted: {restarted}");
    }
}
