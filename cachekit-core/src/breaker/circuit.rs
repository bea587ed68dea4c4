//! The breaker: what is decided without the lock, and what is decided under it.

use super::gauge::Membership;
use super::machine::{Decision, Machine, Ticket};
use super::permit::{Open, Outcome, Permit};
use super::snapshot::{Probes, Snapshot, Transitions};
use super::sync::Mutex;
use super::totals::Totals;
use super::word::{SharedWord, Word};
use super::{Abandoned, BreakerConfig, CircuitBreakerBuilder, ConfigError, State};
use crate::{Clock, Tick};
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A circuit breaker. Share it by reference or in an [`Arc`].
///
/// [`call`](Self::call) guards one future. Where that shape does not fit, [`admit`](Self::admit) hands out a
/// [`Permit`] that takes the outcome:
///
/// ```
/// use cachekit_core::breaker::{BreakerConfig, CircuitBreaker, Open};
///
/// # fn connect() -> Result<(), std::io::Error> { Ok(()) }
/// # fn run(breaker: &CircuitBreaker) -> Result<(), Open> {
/// let permit = breaker.admit()?;
/// match connect() {
///     Ok(()) => permit.success(),
///     Err(_) => permit.failure(),
/// }
/// # Ok(())
/// # }
/// # run(&CircuitBreaker::new(BreakerConfig::new())?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CircuitBreaker {
    word: SharedWord,
    clock: Arc<dyn Clock>,
    pub(super) config: BreakerConfig,
    guarded: Mutex<Guarded>,
    gauge: Option<Membership>,
    totals: Totals,
}

#[derive(Debug)]
struct Guarded {
    machine: Machine,
    /// For people; no decision looks at the wall clock.
    opened_at_wall_millis: Option<u64>,
    probes: Probes,
}

impl CircuitBreaker {
    /// A CLOSED breaker on the [`SystemClock`](crate::SystemClock), without a namespace and so in no metric.
    ///
    /// # Errors
    ///
    /// What [`BreakerConfig::validate`] refuses.
    pub fn new(config: BreakerConfig) -> Result<Self, ConfigError> {
        Self::builder(config).build()
    }

    /// Chooses the clock and the namespace.
    pub fn builder(config: BreakerConfig) -> CircuitBreakerBuilder {
        CircuitBreakerBuilder::new(config)
    }

    /// Asks for the right to one call.
    ///
    /// # Errors
    ///
    /// [`Open`] when the circuit is OPEN, or HALF_OPEN with all slots taken. A rejection is not a failure and changes
    /// nothing.
    #[inline]
    pub fn admit(&self) -> Result<Permit<'_>, Open> {
        let word = self.word.load();
        match word.admits() {
            Some(cycle) => Ok(Permit::new(self, Ticket { cycle, probe: false })),
            None => self.admit_unless_open(word).map(|ticket| Permit::new(self, ticket)),
        }
    }

    /// [`admit`](Self::admit) for callers who do not ask how long: a rejection may then do with the clock's
    /// [cheaper answer](Clock::not_after).
    #[inline]
    pub fn try_admit(&self) -> Option<Permit<'_>> {
        let word = self.word.load();
        match word.admits() {
            Some(cycle) => Some(Permit::new(self, Ticket { cycle, probe: false })),
            None => self.try_admit_unless_open(word).map(|ticket| Permit::new(self, ticket)),
        }
    }

    /// The state. Reading it never changes it: an OPEN circuit stays OPEN after its cooldown until a call comes.
    #[must_use]
    pub fn state(&self) -> State {
        self.word.load().state()
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &BreakerConfig {
        &self.config
    }

    /// Everything there is to know at this moment, for a health report. It changes no state and
    /// [publishes](Self::publish) the gauge.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.publish();
        let guarded = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let machine = &guarded.machine;
        let half_open = machine.state() == State::HalfOpen;
        Snapshot {
            state: machine.state(),
            failure_count: machine.failure_count(now),
            config: self.config.clone(),
            cycle: machine.cycle,
            probes_in_use: if half_open { machine.probes } else { 0 },
            successes: if half_open { machine.successes } else { 0 },
            retry_in: machine.retry_in(now),
            opened_at_wall_millis: guarded.opened_at_wall_millis,
            last_failure_age: machine.last_failure_age(now),
            rejected_total: self.totals.rejected(),
            late_outcomes_total: self.totals.late_outcomes(),
            probes_total: guarded.probes,
            transitions_total: Transitions(machine.transitions),
        }
    }

    /// Hands the gauge's absolute values to the `metrics` recorder again. Every transition does; call it after a
    /// recorder was installed late. Without a namespace or without the feature `metrics` it does nothing.
    pub fn publish(&self) {
        if let Some(gauge) = &self.gauge {
            gauge.publish();
        }
    }

    /// Opens the circuit by hand, for a full cooldown from now, whatever its state. It recovers like any other. A
    /// breaker that is off stays off.
    pub fn force_open(&self) {
        if self.config.enabled() {
            self.locked(|guarded| {
                self.open_if(guarded, |machine, now| {
                    machine.open(now);
                    true
                });
            });
        }
    }

    /// Closes the circuit by hand and forgets its failures. A breaker that is off stays off.
    pub fn force_close(&self) {
        if self.config.enabled() {
            self.locked(|guarded| guarded.machine.close());
        }
    }

    /// From settings that are valid.
    pub(super) fn assemble(config: BreakerConfig, clock: Arc<dyn Clock>, namespace: Option<String>) -> Self {
        let machine = Machine::new(&config);
        Self {
            word: SharedWord::new(machine.word()),
            clock,
            guarded: Mutex::new(Guarded { machine, opened_at_wall_millis: None, probes: Probes::default() }),
            gauge: namespace.filter(|_| config.enabled()).and_then(|namespace| Membership::join(&namespace)),
            totals: Totals::default(),
            config,
        }
    }

    pub(super) fn now(&self) -> Tick {
        self.clock.now()
    }

    #[cold]
    pub(super) fn report(&self, outcome: Outcome, ticket: Ticket) {
        if !self.config.enabled() {
            return;
        }
        let effect = match (outcome, self.config.abandoned()) {
            (Outcome::Abandoned, Abandoned::Failure) => Outcome::Failure,
            (Outcome::Abandoned, Abandoned::Release) => Outcome::Raised,
            (outcome, _) => outcome,
        };
        if !ticket.probe {
            if effect != Outcome::Failure {
                return;
            }
            if self.word.load().state() == State::Open {
                // OPEN at the load is where the failure arrives, and there it is ignored: no need for the lock.
                self.totals.count_late_outcome();
                return;
            }
        }
        self.locked(|guarded| {
            let late = guarded.machine.is_late(ticket);
            match effect {
                Outcome::Abandoned => {}
                Outcome::Failure => self.open_if(guarded, |machine, now| machine.fail(now, ticket)),
                Outcome::Raised => guarded.machine.release(ticket),
                Outcome::Success => guarded.machine.succeed(ticket),
            }
            if ticket.probe {
                guarded.probes.count(outcome);
            }
            if late && effect != Outcome::Abandoned {
                self.totals.count_late_outcome();
            }
        });
    }

    // Out of line, and a ticket instead of a permit: the permit of a CLOSED circuit then stays in registers.
    #[inline(never)]
    fn admit_unless_open(&self, word: Word) -> Result<Ticket, Open> {
        if let Some(until) = word.rejects_until() {
            let now = self.clock.now();
            if now <= until {
                self.totals.count_rejection(word.state());
                return Err(Open { retry_in: Duration::from_nanos(until - now) });
            }
        }
        self.admit_locked()
    }

    #[inline(never)]
    fn try_admit_unless_open(&self, word: Word) -> Option<Ticket> {
        if let Some(until) = word.rejects_until()
            && self.clock.not_after(until)
        {
            self.totals.count_rejection(word.state());
            return None;
        }
        self.admit_locked().ok()
    }

    fn admit_locked(&self) -> Result<Ticket, Open> {
        let (decision, now) = self.locked(|guarded| {
            // Read under the lock: a caller that waited for it must not decide by the time it came.
            let now = self.clock.now();
            (guarded.machine.admit(now), now)
        });
        match decision {
            Decision::Admitted(ticket) => Ok(ticket),
            Decision::Rejected { state, until } => {
                self.totals.count_rejection(state);
                Err(Open { retry_in: Duration::from_nanos(until.saturating_sub(now)) })
            }
        }
    }

    /// Stamps what opens the circuit, if `change` says that it did.
    fn open_if(&self, guarded: &mut Guarded, change: impl FnOnce(&mut Machine, Tick) -> bool) {
        // Both readings before the change: a clock that panics leaves everything as it was.
        let (now, wall_millis) = (self.clock.now(), self.clock.wall_millis());
        if change(&mut guarded.machine, now) {
            guarded.opened_at_wall_millis = Some(wall_millis);
        }
    }

    /// Changes the state: the word is published before the lock is given back, the gauge after it.
    fn locked<R>(&self, change: impl FnOnce(&mut Guarded) -> R) -> R {
        // Whoever panicked holding it did so in the clock, before anything was changed.
        let mut guarded = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        let before = guarded.machine.state();
        let result = change(&mut guarded);
        let after = guarded.machine.state();
        self.word.store(guarded.machine.word());
        if before != after {
            // Moved under the lock, in the order of the transitions: a count is never below zero in between.
            if let Some(gauge) = &self.gauge {
                gauge.moved(before, after);
            }
            drop(guarded);
            // A recorder is somebody else's code.
            self.publish();
        }
        result
    }
}

impl Drop for CircuitBreaker {
    fn drop(&mut self) {
        if let Some(gauge) = &self.gauge {
            gauge.left(self.state());
        }
    }
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker")
            .field("state", &self.state())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
