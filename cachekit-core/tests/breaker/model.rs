//! The rules of the breaker once more, as plainly as they can be written: lists instead of counters, every failure
//! kept, one call after another. The library is compared with it.

use cachekit_core::Tick;
use cachekit_core::breaker::{Abandoned, BreakerConfig, State};
use std::collections::BTreeSet;

const WINDOW: Tick = 60_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Drop,
    Failure,
    Raised,
    Success,
}

/// A call that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    id: u64,
    pub(crate) cycle: u64,
    pub(crate) probe: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    threshold: usize,
    successes_to_close: usize,
    slots: usize,
    cooldown: Tick,
    abandoned: Abandoned,

    pub(crate) now: Tick,
    pub(crate) state: State,
    failures: Vec<Tick>,
    opened: Option<Tick>,
    pub(crate) cycle: u64,
    cycle_start: Tick,
    holding: BTreeSet<Call>,
    succeeded: BTreeSet<Call>,
    calls: u64,

    pub(crate) last_failure: Option<Tick>,
    pub(crate) late: u64,
    pub(crate) rejected: [u64; 2],
    /// Success, failure, raised, abandoned.
    pub(crate) probes: [u64; 4],
    pub(crate) changes: [[u64; 3]; 3],
}

impl Model {
    pub(crate) fn new(config: &BreakerConfig, now: Tick) -> Self {
        Self {
            threshold: config.failure_threshold() as usize,
            successes_to_close: config.success_threshold() as usize,
            slots: config.half_open_requests() as usize,
            cooldown: u64::try_from(config.recovery_timeout().as_nanos()).unwrap(),
            abandoned: config.abandoned(),
            now,
            state: State::Closed,
            failures: Vec::new(),
            opened: None,
            cycle: 0,
            cycle_start: 0,
            holding: BTreeSet::new(),
            succeeded: BTreeSet::new(),
            calls: 0,
            last_failure: None,
            late: 0,
            rejected: [0; 2],
            probes: [0; 4],
            changes: [[0; 3]; 3],
        }
    }

    /// The admitted call, or for how many more ticks there will be none.
    pub(crate) fn admit(&mut self) -> Result<Call, Tick> {
        if let Some(start) = self.rejecting_since() {
            let elapsed = self.now - start;
            if elapsed <= self.cooldown {
                self.rejected[usize::from(self.state == State::HalfOpen)] += 1;
                return Err(self.cooldown - elapsed);
            }
            self.become_state(State::HalfOpen);
            self.cycle += 1;
            self.cycle_start = self.now;
            self.holding.clear();
            self.succeeded.clear();
        }
        self.calls += 1;
        let call = Call { id: self.calls, cycle: self.cycle, probe: self.state == State::HalfOpen };
        if call.probe {
            self.holding.insert(call);
        }
        Ok(call)
    }

    pub(crate) fn report(&mut self, call: Call, report: Report) {
        if call.probe {
            let index = match report {
                Report::Success => 0,
                Report::Failure => 1,
                Report::Raised => 2,
                Report::Drop => 3,
            };
            self.probes[index] += 1;
        }
        let report = match (report, self.abandoned) {
            (Report::Drop, Abandoned::Hold) => return,
            (Report::Drop, Abandoned::Release) => Report::Raised,
            (Report::Drop, Abandoned::Failure) => Report::Failure,
            (report, _) => report,
        };
        let admitted_in = if call.probe { State::HalfOpen } else { State::Closed };
        let means_something = call.probe || report == Report::Failure;
        if means_something && (self.state, self.cycle) != (admitted_in, call.cycle) {
            self.late += 1;
        }
        // The one rule: OPEN ignores everything, and HALF_OPEN everything but its own probes.
        let ignored = match self.state {
            State::Closed => false,
            State::HalfOpen => call.cycle != self.cycle,
            State::Open => true,
        };
        if ignored {
            return;
        }
        match (report, self.state) {
            (Report::Success, State::HalfOpen) => {
                self.succeeded.insert(call);
                if self.succeeded.len() >= self.successes_to_close {
                    self.force_close();
                }
            }
            (Report::Failure, _) => {
                self.failures.push(self.now);
                self.last_failure = Some(self.now);
                if self.state == State::HalfOpen || self.counting() >= self.threshold {
                    self.force_open();
                }
            }
            (Report::Raised, State::HalfOpen) => assert!(self.holding.remove(&call)),
            _ => {}
        }
    }

    pub(crate) fn force_open(&mut self) {
        self.become_state(State::Open);
        self.opened = Some(self.now);
    }

    pub(crate) fn force_close(&mut self) {
        self.become_state(State::Closed);
        self.failures.clear();
    }

    pub(crate) fn failure_count(&self) -> u32 {
        u32::try_from(self.counting().min(self.threshold)).unwrap()
    }

    pub(crate) fn probes_in_use(&self) -> usize {
        if self.state == State::HalfOpen { self.holding.len() } else { 0 }
    }

    pub(crate) fn successes(&self) -> usize {
        if self.state == State::HalfOpen { self.succeeded.len() } else { 0 }
    }

    pub(crate) fn retry_in(&self) -> Option<Tick> {
        self.rejecting_since().map(|start| (start + self.cooldown).saturating_sub(self.now))
    }

    fn rejecting_since(&self) -> Option<Tick> {
        match self.state {
            State::Closed => None,
            State::HalfOpen => (self.holding.len() >= self.slots).then_some(self.cycle_start),
            State::Open => self.opened,
        }
    }

    fn counting(&self) -> usize {
        self.failures.iter().filter(|at| self.now - **at <= WINDOW).count()
    }

    fn become_state(&mut self, state: State) {
        self.changes[index(self.state)][index(state)] += 1;
        self.state = state;
    }
}

pub(crate) fn index(state: State) -> usize {
    State::ALL.iter().position(|other| *other == state).unwrap()
}
