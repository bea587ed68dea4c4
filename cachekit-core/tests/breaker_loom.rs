//! Every interleaving of a few threads, each compared with all orders in which the model of the rules could have
//! executed the same operations one after another.
//!
//! ```text
//! RUSTFLAGS="--cfg cachekit_loom" CARGO_TARGET_DIR=target/loom \
//!     cargo test -p cachekit-core --no-default-features --features breaker --release --test breaker_loom
//! ```
#![cfg(all(feature = "breaker", cachekit_loom))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "how far the exploration went is worth a line")]

#[path = "breaker/clock.rs"]
mod clock;
#[path = "breaker/model.rs"]
mod model;

use cachekit_core::breaker::{BreakerConfig, CircuitBreaker, Permit, State};
use clock::{ManualClock, START};
use model::{Call, Model, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const COOLDOWN: u64 = 1_000;

/// Enough to see every possible history of every scenario.
const PREEMPTIONS: usize = 2;

/// What a thread does. A report is about the thread's oldest call without one; without such a call (its admission was
/// rejected) it is skipped.
#[derive(Clone, Copy, Debug)]
enum Op {
    Admit,
    TryAdmit,
    Advance(u64),
    Report(Report),
    State,
}

const ADMIT: Op = Op::Admit;
const TRY_ADMIT: Op = Op::TryAdmit;
const STATE: Op = Op::State;
const SUCCESS: Op = Op::Report(Report::Success);
const FAILURE: Op = Op::Report(Report::Failure);
const RAISED: Op = Op::Report(Report::Raised);
const DROP: Op = Op::Report(Report::Drop);

/// What a thread saw.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Saw {
    Admitted { cycle: u64, probe: bool },
    Rejected,
    State(&'static str),
}

/// What all threads saw, and what was left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct History {
    threads: Vec<Vec<Saw>>,
    state: &'static str,
    cycle: u64,
    failures: u32,
    probes_in_use: usize,
    successes: usize,
    retry_in: Option<Duration>,
}

/// What executes operations: the breaker or the model.
trait Subject {
    type Call;
    fn admit(&mut self, cheaply: bool) -> Option<(Self::Call, Saw)>;
    fn report(&mut self, call: Self::Call, report: Report);
    fn advance(&mut self, ticks: u64);
    fn state(&mut self) -> State;
}

fn step<S: Subject>(subject: &mut S, calls: &mut Vec<S::Call>, saw: &mut Vec<Saw>, op: Op) {
    match op {
        Op::Admit | Op::TryAdmit => match subject.admit(matches!(op, Op::TryAdmit)) {
            Some((call, admitted)) => {
                calls.push(call);
                saw.push(admitted);
            }
            None => saw.push(Saw::Rejected),
        },
        Op::Advance(ticks) => subject.advance(ticks),
        Op::Report(_) if calls.is_empty() => {}
        Op::Report(report) => subject.report(calls.remove(0), report),
        Op::State => saw.push(Saw::State(subject.state().as_str())),
    }
}

#[derive(Clone, Copy)]
struct Breaker {
    // Leaked, since loom's threads want `'static` and a permit borrows: some hundred bytes per execution.
    breaker: &'static CircuitBreaker,
    clock: &'static ManualClock,
}

impl Subject for Breaker {
    type Call = Permit<'static>;

    fn admit(&mut self, cheaply: bool) -> Option<(Self::Call, Saw)> {
        let permit = if cheaply { self.breaker.try_admit() } else { self.breaker.admit().ok() }?;
        let saw = Saw::Admitted { cycle: permit.cycle(), probe: permit.is_probe() };
        Some((permit, saw))
    }

    fn report(&mut self, permit: Self::Call, report: Report) {
        match report {
            Report::Drop => drop(permit),
            Report::Failure => permit.failure(),
            Report::Raised => permit.raised(),
            Report::Success => permit.success(),
        }
    }

    fn advance(&mut self, ticks: u64) {
        self.clock.advance(ticks);
    }

    fn state(&mut self) -> State {
        self.breaker.state()
    }
}

impl Subject for Model {
    type Call = Call;

    fn admit(&mut self, _: bool) -> Option<(Call, Saw)> {
        let call = Model::admit(self).ok()?;
        Some((call, Saw::Admitted { cycle: call.cycle, probe: call.probe }))
    }

    fn report(&mut self, call: Call, report: Report) {
        Model::report(self, call, report);
    }

    fn advance(&mut self, ticks: u64) {
        self.now += ticks;
    }

    fn state(&mut self) -> State {
        self.state
    }
}

struct Scenario {
    config: BreakerConfig,
    /// Done first, by one thread; its calls without a report go to the threads, one each, in turn.
    setup: Vec<Op>,
    threads: Vec<Vec<Op>>,
    /// Histories that loom does not reach: it takes only the latest access to a word for the one that a store depends
    /// on, and so never lets a store happen before an earlier reading by another thread.
    unreached: usize,
}

impl Scenario {
    /// Failures that open, successes that close, slots.
    fn new(failures: u32, successes: u32, slots: u32) -> Self {
        let config = BreakerConfig::new()
            .with_failure_threshold(failures)
            .with_success_threshold(successes)
            .with_half_open_requests(slots)
            .with_recovery_timeout(Duration::from_nanos(COOLDOWN));
        Self { config, setup: Vec::new(), threads: Vec::new(), unreached: 0 }
    }

    fn setup(mut self, ops: &[Op]) -> Self {
        self.setup.extend(ops);
        self
    }

    /// Opens the circuit and lets its cooldown pass: the next call is a probe.
    fn cooled(self) -> Self {
        let failures = self.config.failure_threshold();
        let mut scenario = self;
        for _ in 0..failures {
            scenario.setup.extend([ADMIT, FAILURE]);
        }
        scenario.setup(&[Op::Advance(COOLDOWN + 1)])
    }

    fn thread(mut self, ops: &[Op]) -> Self {
        self.threads.push(ops.to_vec());
        self
    }

    fn unreached(mut self, histories: usize) -> Self {
        self.unreached = histories;
        self
    }

    /// Every history that some order explains is seen, and no other.
    fn explore(self) {
        let allowed = self.allowed();
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let executions = Arc::new(AtomicU64::new(0));
        let scenario = Arc::new(self);
        // What loom leaves out depends on which thread comes first.
        for first in 0..scenario.threads.len() {
            let mut explorer = loom::model::Builder::new();
            explorer.preemption_bound = Some(PREEMPTIONS);
            let (scenario, seen, executions) = (scenario.clone(), seen.clone(), executions.clone());
            let allowed = allowed.clone();
            explorer.check(move || {
                let history = scenario.execute(first);
                assert!(allowed.contains(&history), "no order of these operations explains {history:#?}");
                seen.lock().unwrap().insert(history);
                executions.fetch_add(1, Relaxed);
            });
        }
        let seen = seen.lock().unwrap();
        println!("{} executions, {} histories", executions.load(Relaxed), seen.len());
        let missed: Vec<_> = allowed.difference(&seen).collect();
        assert!(missed.len() <= scenario.unreached, "never seen: {missed:#?}");
    }

    fn execute(&self, first: usize) -> History {
        let clock = Arc::new(ManualClock::new());
        let breaker = CircuitBreaker::builder(self.config.clone()).clock(clock.clone()).build().unwrap();
        let mut subject = Breaker { breaker: Box::leak(Box::new(breaker)), clock: Box::leak(Box::new(clock)) };
        let mut calls = self.set_up(&mut subject);
        let count = self.threads.len();
        let mut handles: Vec<_> = (0..count)
            .map(|i| {
                let i = (first + i) % count;
                let (mut calls, ops) = (calls.remove(&i).unwrap_or_default(), self.threads[i].clone());
                loom::thread::spawn(move || run(subject, &mut calls, &ops))
            })
            .collect();
        handles.rotate_right(first);
        let threads = handles.into_iter().map(|handle| handle.join().unwrap()).collect();

        let snapshot = subject.breaker.snapshot();
        assert_eq!(snapshot.state, subject.breaker.state());
        assert!(snapshot.probes_in_use <= self.config.half_open_requests());
        History {
            threads,
            state: snapshot.state.as_str(),
            cycle: snapshot.cycle,
            failures: snapshot.failure_count,
            probes_in_use: snapshot.probes_in_use as usize,
            successes: snapshot.successes as usize,
            retry_in: snapshot.retry_in,
        }
    }

    /// Of every order that keeps each thread's own.
    fn allowed(&self) -> BTreeSet<History> {
        let mut model = Model::new(&self.config, START);
        let mut calls = self.set_up(&mut model);
        let threads: Vec<_> =
            (0..self.threads.len()).map(|i| (calls.remove(&i).unwrap_or_default(), Vec::new(), 0)).collect();
        let mut allowed = BTreeSet::new();
        self.every_order(&model, &threads, &mut allowed);
        allowed
    }

    fn every_order(&self, model: &Model, threads: &[(Vec<Call>, Vec<Saw>, usize)], allowed: &mut BTreeSet<History>) {
        let mut done = true;
        for (i, ops) in self.threads.iter().enumerate() {
            let Some(op) = ops.get(threads[i].2) else { continue };
            done = false;
            let (mut model, mut threads) = (model.clone(), threads.to_vec());
            let (calls, saw, next) = &mut threads[i];
            step(&mut model, calls, saw, *op);
            *next += 1;
            self.every_order(&model, &threads, allowed);
        }
        if done {
            allowed.insert(History {
                threads: threads.iter().map(|(_, saw, _)| saw.clone()).collect(),
                state: model.state.as_str(),
                cycle: model.cycle,
                failures: model.failure_count(),
                probes_in_use: model.probes_in_use(),
                successes: model.successes(),
                retry_in: model.retry_in().map(Duration::from_nanos),
            });
        }
    }

    fn set_up<S: Subject>(&self, subject: &mut S) -> BTreeMap<usize, Vec<S::Call>> {
        let (mut calls, mut saw) = (Vec::new(), Vec::new());
        for op in &self.setup {
            // In the setup a report is about the newest call, so that earlier ones stay in flight.
            if matches!(op, Op::Report(_)) {
                let newest = calls.pop().expect("the setup knows what is admitted");
                step(subject, &mut vec![newest], &mut saw, *op);
            } else {
                step(subject, &mut calls, &mut saw, *op);
            }
        }
        let mut by_thread = BTreeMap::<_, Vec<_>>::new();
        for (i, call) in calls.into_iter().enumerate() {
            by_thread.entry(i % self.threads.len()).or_default().push(call);
        }
        by_thread
    }
}

fn run<S: Subject>(mut subject: S, calls: &mut Vec<S::Call>, ops: &[Op]) -> Vec<Saw> {
    let mut saw = Vec::new();
    for op in ops {
        step(&mut subject, calls, &mut saw, *op);
    }
    // A permit that is left has no outcome; forgotten, it also costs no interleavings.
    calls.drain(..).for_each(std::mem::forget);
    saw
}

#[test]
fn trip() {
    Scenario::new(2, 1, 1)
        .setup(&[ADMIT, ADMIT])
        .thread(&[FAILURE, ADMIT])
        .thread(&[FAILURE, TRY_ADMIT])
        .thread(&[ADMIT, FAILURE])
        .explore();
}

#[test]
fn s35_failures_at_the_moment_of_the_trip() {
    Scenario::new(1, 1, 1)
        .setup(&[ADMIT, ADMIT, ADMIT])
        .thread(&[FAILURE, STATE])
        .thread(&[FAILURE, STATE])
        .thread(&[SUCCESS, ADMIT, STATE])
        .explore();
}

#[test]
fn s41_expiry_with_one_slot() {
    Scenario::new(1, 1, 1).cooled().thread(&[ADMIT]).thread(&[TRY_ADMIT]).thread(&[ADMIT, STATE]).explore();
}

#[test]
fn s41_expiry_with_two_slots() {
    Scenario::new(1, 2, 2).cooled().thread(&[ADMIT, ADMIT]).thread(&[TRY_ADMIT]).thread(&[ADMIT]).explore();
}

#[test]
fn s37_expiry_while_the_clock_moves() {
    Scenario::new(1, 1, 1)
        .setup(&[ADMIT, FAILURE, Op::Advance(COOLDOWN)])
        .thread(&[Op::Advance(1), ADMIT])
        .thread(&[ADMIT, TRY_ADMIT])
        .thread(&[TRY_ADMIT])
        .explore();
}

#[test]
fn a_probe_succeeds_while_another_fails() {
    Scenario::new(1, 1, 2)
        .cooled()
        .setup(&[ADMIT, ADMIT])
        .thread(&[SUCCESS, ADMIT])
        .thread(&[FAILURE, ADMIT])
        .explore();
}

#[test]
fn the_last_success_meets_a_failure_and_a_call() {
    Scenario::new(2, 2, 2)
        .cooled()
        .setup(&[ADMIT, ADMIT])
        .thread(&[SUCCESS, STATE])
        .thread(&[SUCCESS, ADMIT, FAILURE])
        .thread(&[ADMIT, STATE])
        .explore();
}

#[test]
fn s49_a_release_meets_calls() {
    Scenario::new(1, 1, 1)
        .cooled()
        .setup(&[ADMIT])
        .thread(&[RAISED, ADMIT])
        .thread(&[ADMIT, SUCCESS])
        .thread(&[TRY_ADMIT])
        .explore();
}

#[test]
fn s53_s54_a_spent_cycle_starts_over_once() {
    Scenario::new(1, 2, 2)
        .cooled()
        .setup(&[ADMIT, ADMIT, SUCCESS, Op::Advance(COOLDOWN + 1)])
        .thread(&[SUCCESS, ADMIT])
        .thread(&[ADMIT, TRY_ADMIT])
        .thread(&[ADMIT])
        .explore();
}

#[test]
fn s54_a_release_meets_the_restart() {
    Scenario::new(1, 1, 1)
        .cooled()
        .setup(&[ADMIT, Op::Advance(COOLDOWN + 1)])
        .thread(&[RAISED])
        .thread(&[ADMIT])
        .thread(&[TRY_ADMIT, SUCCESS])
        .explore();
}

#[test]
fn s53_a_spent_cycle_while_the_clock_moves() {
    Scenario::new(1, 1, 1)
        .cooled()
        .setup(&[ADMIT, Op::Advance(COOLDOWN)])
        .thread(&[SUCCESS])
        .thread(&[Op::Advance(1), ADMIT])
        .thread(&[TRY_ADMIT])
        .explore();
}

#[test]
fn s56_s57_late_outcomes_meet_the_next_cycle() {
    Scenario::new(1, 1, 3)
        .cooled()
        .setup(&[ADMIT, ADMIT, ADMIT, FAILURE, Op::Advance(COOLDOWN + 1)])
        .thread(&[SUCCESS])
        .thread(&[FAILURE, STATE])
        .thread(&[ADMIT, SUCCESS])
        .explore();
}

#[test]
fn s59_a_closed_call_meets_the_first_probe() {
    Scenario::new(1, 1, 1)
        .setup(&[ADMIT])
        .cooled()
        .thread(&[FAILURE, STATE])
        .thread(&[ADMIT, SUCCESS, ADMIT])
        .thread(&[TRY_ADMIT])
        .explore();
}

#[test]
fn s64_the_other_probe_fails_while_the_circuit_reopens_and_recovers() {
    Scenario::new(2, 1, 2)
        .cooled()
        .setup(&[ADMIT, ADMIT, FAILURE, Op::Advance(COOLDOWN + 1)])
        .thread(&[FAILURE, ADMIT])
        .thread(&[ADMIT, SUCCESS, ADMIT])
        .explore();
}

#[test]
fn s66_it_reopens_right_after_it_closed() {
    Scenario::new(1, 1, 1)
        .cooled()
        .setup(&[ADMIT])
        .thread(&[SUCCESS, ADMIT, FAILURE])
        .thread(&[ADMIT, FAILURE])
        .thread(&[TRY_ADMIT, STATE])
        .unreached(5)
        .explore();
}

#[test]
fn s48_a_dropped_probe_meets_a_call() {
    Scenario::new(1, 1, 2)
        .cooled()
        .setup(&[ADMIT])
        .thread(&[DROP, ADMIT])
        .thread(&[ADMIT, SUCCESS])
        .thread(&[TRY_ADMIT])
        .explore();
}
