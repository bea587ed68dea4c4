//! Random sequences of calls and time, compared step by step with an independent model of the rules.
//!
//! `PROPTEST_CASES=40000 cargo test --release --test breaker_model` looks further.
#![cfg(all(feature = "breaker", not(cachekit_loom)))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "breaker/clock.rs"]
mod clock;
#[path = "breaker/model.rs"]
mod model;

use cachekit_core::breaker::{Abandoned, BreakerConfig, CircuitBreaker, Permit, State};
use clock::{ManualClock, START};
use model::{Call, Model, Report, index};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const WINDOW: u64 = 60_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Op {
    Admit,
    TryAdmit,
    /// Of the call in flight with this index, counted round.
    Report(usize, Report),
    Advance(u64),
    AdvanceCooldown(i64),
    ForceOpen,
    ForceClose,
}

fn op() -> impl Strategy<Value = Op> {
    let report = prop_oneof![
        4 => Just(Report::Failure),
        4 => Just(Report::Success),
        2 => Just(Report::Raised),
        2 => Just(Report::Drop),
    ];
    prop_oneof![
        10 => Just(Op::Admit),
        6 => Just(Op::TryAdmit),
        14 => (any::<usize>(), report).prop_map(|(index, report)| Op::Report(index, report)),
        4 => prop::sample::select(vec![0, 1, WINDOW - 1, WINDOW, WINDOW + 1]).prop_map(Op::Advance),
        8 => (-1_i64..=1).prop_map(Op::AdvanceCooldown),
        1 => Just(Op::ForceOpen),
        1 => Just(Op::ForceClose),
    ]
}

fn config() -> impl Strategy<Value = BreakerConfig> {
    let cooldown = prop::sample::select(vec![1, 2, 1_000, WINDOW / 2, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW]);
    let abandoned =
        prop::sample::select(vec![Abandoned::Hold, Abandoned::Hold, Abandoned::Release, Abandoned::Failure]);
    (1_u32..=5, 1_u32..=3, 0_u32..=2, cooldown, abandoned).prop_map(
        |(failures, successes, more, cooldown, abandoned)| {
            BreakerConfig::new()
                .with_failure_threshold(failures)
                .with_success_threshold(successes)
                .with_half_open_requests(successes + more)
                .with_recovery_timeout(Duration::from_nanos(cooldown))
                .with_abandoned(abandoned)
        },
    )
}

/// The breaker, the model, and the calls in flight of both.
struct Pair<'a> {
    breaker: &'a CircuitBreaker,
    clock: &'a ManualClock,
    model: Model,
    in_flight: Vec<(Permit<'a>, Call)>,
}

impl<'a> Pair<'a> {
    fn step(&mut self, op: Op) {
        match op {
            Op::Admit => match (self.breaker.admit(), self.model.admit()) {
                (Ok(permit), Ok(call)) => self.admitted(permit, call),
                (Err(open), Err(ticks)) => assert_eq!(open.retry_in, Duration::from_nanos(ticks)),
                (ours, theirs) => panic!("{ours:?} where the model says {theirs:?}"),
            },
            Op::TryAdmit => match (self.breaker.try_admit(), self.model.admit()) {
                (Some(permit), Ok(call)) => self.admitted(permit, call),
                (None, Err(_)) => {}
                (ours, theirs) => panic!("{ours:?} where the model says {theirs:?}"),
            },
            Op::Report(..) if self.in_flight.is_empty() => {}
            Op::Report(index, report) => {
                let (permit, call) = self.in_flight.swap_remove(index % self.in_flight.len());
                match report {
                    Report::Drop => drop(permit),
                    Report::Failure => permit.failure(),
                    Report::Raised => permit.raised(),
                    Report::Success => permit.success(),
                }
                self.model.report(call, report);
            }
            Op::Advance(ticks) => self.advance(ticks),
            Op::AdvanceCooldown(more) => {
                let cooldown = u64::try_from(self.breaker.config().recovery_timeout().as_nanos()).unwrap();
                self.advance(cooldown.checked_add_signed(more).unwrap());
            }
            Op::ForceOpen => {
                self.breaker.force_open();
                self.model.force_open();
            }
            Op::ForceClose => {
                self.breaker.force_close();
                self.model.force_close();
            }
        }
        self.compare();
    }

    fn admitted(&mut self, permit: Permit<'a>, call: Call) {
        assert_eq!((permit.is_probe(), permit.cycle()), (call.probe, call.cycle));
        self.in_flight.push((permit, call));
    }

    fn advance(&mut self, ticks: u64) {
        self.clock.advance(ticks);
        self.model.now += ticks;
    }

    fn compare(&self) {
        let (ours, model) = (self.breaker.snapshot(), &self.model);
        assert_eq!(self.breaker.state(), model.state);
        assert_eq!(ours.state, model.state);
        assert_eq!(ours.failure_count, model.failure_count());
        assert_eq!(ours.cycle, model.cycle);
        assert_eq!(ours.probes_in_use as usize, model.probes_in_use());
        assert_eq!(ours.successes as usize, model.successes());
        assert_eq!(ours.retry_in, model.retry_in().map(Duration::from_nanos));
        assert_eq!(ours.last_failure_age, model.last_failure.map(|at| Duration::from_nanos(model.now - at)));
        assert_eq!([ours.rejected_total.open, ours.rejected_total.half_open], model.rejected);
        assert_eq!(ours.late_outcomes_total, model.late);
        let probes = ours.probes_total;
        assert_eq!([probes.success, probes.failure, probes.raised, probes.abandoned], model.probes);
        for from in State::ALL {
            for to in State::ALL {
                let changes = model.changes[index(from)][index(to)];
                assert_eq!(ours.transitions_total.get(from, to), changes, "{from} to {to}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_breaker_does_what_the_model_does(config in config(), ops in prop::collection::vec(op(), 1..120)) {
        let clock = Arc::new(ManualClock::new());
        let breaker = CircuitBreaker::builder(config.clone()).clock(clock.clone()).build().unwrap();
        let mut pair =
            Pair { breaker: &breaker, clock: &clock, model: Model::new(&config, START), in_flight: Vec::new() };
        ops.into_iter().for_each(|op| pair.step(op));
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}
