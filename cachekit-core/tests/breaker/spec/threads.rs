//! S41 and the invariants, with real threads.

use crate::rig::{COOLDOWN, NANOSECOND, Rig, defaults};
use cachekit_core::breaker::{BreakerConfig, CircuitBreaker, Permit, State, live};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use crate::clock::ManualClock;

const THREADS: usize = 10;

#[test]
fn s41_many_threads_at_the_end_of_a_cooldown_start_one_cycle() {
    let rig = Rig::open(defaults());
    for round in 1..=200 {
        rig.advance(COOLDOWN + NANOSECOND);
        let admitted = Mutex::new(Vec::new());
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            for i in 0..THREADS {
                let (rig, barrier, admitted) = (&rig, &barrier, &admitted);
                scope.spawn(move || {
                    barrier.wait();
                    for _ in 0..5 {
                        let permit = if i % 2 == 0 { rig.breaker.admit().ok() } else { rig.breaker.try_admit() };
                        admitted.lock().unwrap().extend(permit);
                    }
                });
            }
        });
        let admitted = admitted.into_inner().unwrap();
        assert_eq!(admitted.len(), 3, "as many as there are slots");
        assert!(admitted.iter().all(|permit| permit.is_probe() && permit.cycle() == round), "one cycle");
        let snapshot = rig.snapshot();
        assert_eq!((snapshot.state, snapshot.cycle, snapshot.probes_in_use), (State::HalfOpen, round, 3));
        admitted.into_iter().for_each(Permit::failure);
    }
    let snapshot = rig.snapshot();
    let rejected = snapshot.rejected_total.open + snapshot.rejected_total.half_open;
    assert_eq!(rejected, 200 * (5 * THREADS as u64 - 3));
}

#[test]
fn invariants_hold_while_everything_happens_at_once() {
    let namespace = "threads-invariants";
    let clock = Arc::new(ManualClock::new());
    let config = BreakerConfig::new().with_failure_threshold(3).with_success_threshold(2).with_half_open_requests(3);
    let breaker = CircuitBreaker::builder(config).clock(clock.clone()).namespace(namespace).build().unwrap();
    // Per cycle, what was admitted and not given back. A release is taken off before it is reported, and an admission
    // added after it was granted, so the sum may lag behind the truth but never runs ahead of it.
    let unreturned: Vec<AtomicI64> = (0..100_000).map(|_| AtomicI64::new(0)).collect();
    thread::scope(|scope| {
        for thread in 0_u64..8 {
            let (breaker, clock, unreturned) = (&breaker, &clock, &unreturned);
            scope.spawn(move || {
                let mut random = 0x9E37_79B9_7F4A_7C15_u64 ^ (thread << 32);
                for _ in 0..5_000 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    if random.is_multiple_of(16) {
                        clock.advance(10_000_000_000);
                    }
                    let Ok(permit) = breaker.admit() else { continue };
                    let slots = permit.is_probe().then(|| &unreturned[usize::try_from(permit.cycle()).unwrap()]);
                    if let Some(slots) = slots {
                        assert!(slots.fetch_add(1, SeqCst) < 3, "more than the slots of a cycle");
                    }
                    match random >> 60 {
                        0..5 => permit.failure(),
                        5..10 => permit.success(),
                        10..14 => {
                            if let Some(slots) = slots {
                                slots.fetch_sub(1, SeqCst);
                            }
                            permit.raised();
                        }
                        _ => drop(permit),
                    }
                    let snapshot = breaker.snapshot();
                    assert!(snapshot.probes_in_use <= 3 && snapshot.successes < 2 && snapshot.failure_count <= 3);
                    assert_eq!(live(namespace).total(), 1);
                }
            });
        }
    });
    let snapshot = breaker.snapshot();
    let started = State::ALL.map(|from| snapshot.transitions_total.get(from, State::HalfOpen)).iter().sum::<u64>();
    assert_eq!(started, snapshot.cycle, "every start of a cycle has its number");
    assert!(snapshot.cycle > 10, "the test got somewhere");
    assert_eq!(live(namespace).get(breaker.state()), 1);
}

#[test]
fn s71_the_counts_add_up_to_the_live_breakers_while_they_change() {
    let namespace = "threads-sum";
    let config = || defaults().with_failure_threshold(1);
    let breakers: [_; 4] =
        std::array::from_fn(|_| CircuitBreaker::builder(config()).namespace(namespace).build().unwrap());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // One thread changes and one looks, so that the two run side by side on two cores.
        scope.spawn(|| {
            while !done.load(SeqCst) {
                breakers.iter().for_each(CircuitBreaker::force_open);
                breakers.iter().for_each(CircuitBreaker::force_close);
            }
        });
        let wrong = (0..200_000).map(|_| live(namespace)).find(|counts| counts.total() != 4 || counts.half_open != 0);
        done.store(true, SeqCst);
        assert_eq!(wrong, None);
    });
    assert_eq!(live(namespace).closed, 4);
}
