//! The rules, one call after another: no clock, no lock, no atomics.

use super::word::{LARGEST, Word};
use super::{BreakerConfig, State};
use crate::{Tick, ticks};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a failure counts.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Which period admitted a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// The HALF_OPEN cycle, or the latest one if the circuit was CLOSED.
    pub(super) cycle: u64,
    pub(super) probe: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Admitted(Ticket),
    /// `until` is the last tick at which calls are rejected.
    Rejected {
        state: State,
        until: Tick,
    },
}

#[derive(Debug)]
pub(super) struct Machine {
    failure_threshold: usize,
    success_threshold: u32,
    half_open_requests: u32,
    cooldown: Tick,

    state: State,
    /// The newest failures, oldest first, at most `failure_threshold` of them: no decision depends on more.
    failures: VecDeque<Tick>,
    last_failure: Option<Tick>,
    /// Every state change of the circuit, by old and new state; HALF_OPEN to HALF_OPEN is a cycle that started over.
    pub(super) transitions: [[u64; 3]; 3],
    opened_at: Tick,
    pub(super) cycle: u64,
    cycle_started_at: Tick,
    pub(super) probes: u32,
    pub(super) successes: u32,
}

impl Machine {
    pub(super) fn new(config: &BreakerConfig) -> Self {
        Self {
            failure_threshold: usize::try_from(config.failure_threshold()).unwrap_or(usize::MAX),
            success_threshold: config.success_threshold(),
            half_open_requests: config.half_open_requests(),
            cooldown: ticks(config.recovery_timeout()),
            state: State::Closed,
            failures: VecDeque::new(),
            last_failure: None,
            transitions: [[0; 3]; 3],
            opened_at: 0,
            cycle: 0,
            cycle_started_at: 0,
            probes: 0,
            successes: 0,
        }
    }

    pub(super) fn admit(&mut self, now: Tick) -> Decision {
        match self.state {
            State::Closed => return Decision::Admitted(Ticket { cycle: self.cycle, probe: false }),
            State::Open => {}
            State::HalfOpen if self.probes < self.half_open_requests => return self.take_slot(),
            State::HalfOpen => {}
        }
        let until = self.rejects_until();
        if now <= until {
            return Decision::Rejected { state: self.state, until };
        }
        self.start_cycle(now);
        self.take_slot()
    }

    pub(super) fn succeed(&mut self, ticket: Ticket) {
        if !self.is_probe_of_this_cycle(ticket) {
            return;
        }
        self.successes += 1;
        if self.successes >= self.success_threshold {
            self.close();
        }
    }

    /// Whether the circuit opened.
    pub(super) fn fail(&mut self, now: Tick, ticket: Ticket) -> bool {
        let opens = match self.state {
            State::Open => return false,
            State::HalfOpen if !self.is_probe_of_this_cycle(ticket) => return false,
            State::HalfOpen => true,
            State::Closed => false,
        };
        while self.failures.front().is_some_and(|at| !counts(*at, now)) {
            self.failures.pop_front();
        }
        if self.failures.len() >= self.failure_threshold {
            self.failures.pop_front();
        }
        self.failures.push_back(now);
        self.last_failure = Some(now);
        let opens = opens || self.failures.len() >= self.failure_threshold;
        if opens {
            self.open(now);
        }
        opens
    }

    pub(super) fn release(&mut self, ticket: Ticket) {
        if self.is_probe_of_this_cycle(ticket) {
            self.probes -= 1;
        }
    }

    /// Opens the circuit, or starts the cooldown of an open one again.
    pub(super) fn open(&mut self, now: Tick) {
        self.enter(State::Open);
        self.opened_at = now;
    }

    pub(super) fn close(&mut self) {
        self.enter(State::Closed);
        self.failures.clear();
    }

    /// Whether the CLOSED period or the cycle that admitted the call is over.
    pub(super) fn is_late(&self, ticket: Ticket) -> bool {
        let admitting = if ticket.probe { State::HalfOpen } else { State::Closed };
        self.state != admitting || self.cycle != ticket.cycle
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Failures that count at `now`, at most `failure_threshold`.
    pub(super) fn failure_count(&self, now: Tick) -> u32 {
        let counting = self.failures.iter().filter(|at| counts(**at, now)).count();
        u32::try_from(counting).unwrap_or(u32::MAX)
    }

    pub(super) fn last_failure_age(&self, now: Tick) -> Option<Duration> {
        self.last_failure.map(|at| Duration::from_nanos(now.saturating_sub(at)))
    }

    /// How long calls are rejected from `now` on; zero at the last such tick and after it.
    pub(super) fn retry_in(&self, now: Tick) -> Option<Duration> {
        self.word().rejects_until().map(|until| Duration::from_nanos(until.saturating_sub(now)))
    }

    pub(super) fn word(&self) -> Word {
        match self.state {
            State::Closed => Word::closed(self.cycle),
            State::Open => Word::open(self.rejects_until()),
            State::HalfOpen if self.probes < self.half_open_requests => Word::half_open(self.cycle),
            State::HalfOpen => Word::half_open_taken(self.rejects_until()),
        }
    }

    /// The same saturated tick for the rule and for the word, so that the two cannot disagree.
    fn rejects_until(&self) -> Tick {
        let start = if self.state == State::HalfOpen { self.cycle_started_at } else { self.opened_at };
        start.saturating_add(self.cooldown).min(LARGEST)
    }

    fn is_probe_of_this_cycle(&self, ticket: Ticket) -> bool {
        ticket.probe && self.state == State::HalfOpen && self.cycle == ticket.cycle
    }

    fn start_cycle(&mut self, now: Tick) {
        self.enter(State::HalfOpen);
        self.cycle += 1;
        self.cycle_started_at = now;
        self.probes = 0;
        self.successes = 0;
    }

    fn take_slot(&mut self) -> Decision {
        self.probes += 1;
        Decision::Admitted(Ticket { cycle: self.cycle, probe: true })
    }

    fn enter(&mut self, state: State) {
        self.transitions[self.state as usize][state as usize] += 1;
        self.state = state;
    }
}

fn counts(at: Tick, now: Tick) -> bool {
    now.saturating_sub(at) <= ticks(WINDOW)
}

/// The rules without the word in front of them, which answers first and would hide that the two disagree.
#[cfg(test)]
mod tests {
    use super::*;

    const COOLDOWN: Tick = 1_000;
    const CLOSED: Ticket = Ticket { cycle: 0, probe: false };

    fn open_at(now: Tick) -> Machine {
        let config = BreakerConfig::new()
            .with_failure_threshold(1)
            .with_success_threshold(1)
            .with_half_open_requests(1)
            .with_recovery_timeout(Duration::from_nanos(COOLDOWN));
        let mut machine = Machine::new(&config);
        assert!(machine.fail(now, CLOSED));
        machine
    }

    /// What the word says to a call at `now`, if it decides at all.
    fn word_rejects(machine: &Machine, now: Tick) -> bool {
        machine.word().rejects_until().is_some_and(|until| now <= until)
    }

    fn admits(machine: &mut Machine, now: Tick) -> bool {
        let rejects = word_rejects(machine, now);
        let admitted = matches!(machine.admit(now), Decision::Admitted(Ticket { probe: true, .. }));
        assert_eq!(admitted, !rejects, "the word and the rule at {now}");
        admitted
    }

    #[test]
    fn s37_open_until_the_cooldown_is_over() {
        let mut machine = open_at(50);
        let rejected = Decision::Rejected { state: State::Open, until: 50 + COOLDOWN };
        assert_eq!(machine.admit(50 + COOLDOWN - 1), rejected);
        assert_eq!(machine.admit(50 + COOLDOWN), rejected);
        assert!(admits(&mut machine, 50 + COOLDOWN + 1));
    }

    #[test]
    fn s53_s54_spent_until_the_cooldown_is_over() {
        let mut machine = open_at(0);
        let start = 5 * COOLDOWN;
        assert!(admits(&mut machine, start));
        let rejected = Decision::Rejected { state: State::HalfOpen, until: start + COOLDOWN };
        assert_eq!(machine.admit(start + COOLDOWN - 1), rejected);
        assert_eq!(machine.admit(start + COOLDOWN), rejected);
        assert_eq!(machine.cycle, 1);
        assert!(admits(&mut machine, start + COOLDOWN + 1));
        assert_eq!((machine.cycle, machine.probes), (2, 1));
    }

    #[test]
    fn q15_the_rule_saturates_where_the_word_does() {
        for now in [LARGEST - COOLDOWN, LARGEST - 1, LARGEST, LARGEST + 1, Tick::MAX] {
            let mut machine = open_at(now);
            let until = now.saturating_add(COOLDOWN).min(LARGEST);
            assert_eq!(admits(&mut machine, now), now > until, "opened at {now}");
        }
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_failure_older() {
        let mut machine = Machine::new(&BreakerConfig::new().with_failure_threshold(2));
        let hour = ticks(Duration::from_secs(3_600));
        machine.fail(hour, CLOSED);
        assert_eq!(machine.failure_count(0), 1);
        assert_eq!(machine.last_failure_age(0), Some(Duration::ZERO));
        assert!(machine.fail(0, CLOSED));
    }

    #[test]
    fn q07_at_most_as_many_failures_are_kept_as_are_needed() {
        let mut machine = open_at(0);
        for cycle in 1..100 {
            let Decision::Admitted(ticket) = machine.admit(cycle * 2 * COOLDOWN) else { panic!("cooled down") };
            assert!(machine.fail(cycle * 2 * COOLDOWN, ticket));
            assert_eq!(machine.failures.len(), 1);
        }
    }
}
