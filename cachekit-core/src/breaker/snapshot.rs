//! What a breaker tells about itself.

use super::permit::Outcome;
use super::{BreakerConfig, State};
use std::time::Duration;

/// A breaker at one moment: see [`CircuitBreaker::snapshot`](super::CircuitBreaker::snapshot).
///
/// Everything but the two counters that calls write without the breaker's lock, `rejected_total` and
/// `late_outcomes_total`, is of exactly the same moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The state.
    pub state: State,
    /// Failures of the last 60 s that the next decision counts, at most `failure_threshold`.
    pub failure_count: u32,
    /// The settings.
    pub config: BreakerConfig,
    /// The number of the latest HALF_OPEN cycle; 0 before the first. No number is used twice.
    pub cycle: u64,
    /// Slots of the current HALF_OPEN cycle that are taken; 0 in the other states.
    pub probes_in_use: u32,
    /// Successful probes of the current HALF_OPEN cycle; 0 in the other states.
    pub successes: u32,
    /// How much longer calls are rejected: `None` if they are not, zero if the next one may be the first that is not.
    pub retry_in: Option<Duration>,
    /// When the circuit last opened, in milliseconds since the Unix epoch by the wall clock, for display only; `None`:
    /// never.
    pub opened_at_wall_millis: Option<u64>,
    /// How long ago the latest failure was that counted; `None`: never.
    pub last_failure_age: Option<Duration>,
    /// Rejected calls.
    pub rejected_total: Rejected,
    /// Outcomes that came after the CLOSED period or the cycle that admitted their call was over, whether they were
    /// ignored or counted where they arrived. Of a call admitted while CLOSED only a failure is known here: its success
    /// changes nothing in any state.
    pub late_outcomes_total: u64,
    /// Outcomes of probes, late ones included.
    pub probes_total: Probes,
    /// State changes.
    pub transitions_total: Transitions,
}

impl Snapshot {
    /// How often the circuit opened, from whatever state.
    #[must_use]
    pub fn opened_total(&self) -> u64 {
        State::ALL.into_iter().map(|from| self.transitions_total.get(from, State::Open)).sum()
    }
}

/// Rejected calls by the state that rejected them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected {
    /// While OPEN.
    pub open: u64,
    /// While HALF_OPEN with all slots taken.
    pub half_open: u64,
}

/// Probes by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probes {
    /// Dropped without an outcome, whatever [`Abandoned`](super::Abandoned) makes of it.
    pub abandoned: u64,
    /// Reported as a failure.
    pub failure: u64,
    /// Reported as raised, or dropped by a panic.
    pub raised: u64,
    /// Reported as a success.
    pub success: u64,
}

impl Probes {
    pub(super) fn count(&mut self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Abandoned => &mut self.abandoned,
            Outcome::Failure => &mut self.failure,
            Outcome::Raised => &mut self.raised,
            Outcome::Success => &mut self.success,
        };
        *counter += 1;
    }
}

/// State changes by old and new state.
///
/// From HALF_OPEN to HALF_OPEN is a cycle that started over because its slots were taken and it was undecided; from
/// OPEN to OPEN is [`force_open`](super::CircuitBreaker::force_open) on an open circuit, and from CLOSED to CLOSED
/// likewise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transitions(pub(super) [[u64; 3]; 3]);

impl Transitions {
    /// How often this change happened.
    #[must_use]
    pub fn get(&self, from: State, to: State) -> u64 {
        self.0[from as usize][to as usize]
    }
}
