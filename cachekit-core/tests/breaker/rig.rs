//! A breaker on a manual clock, and the moves that the specification's rows are made of.

use crate::clock::ManualClock;
use cachekit_core::breaker::{BreakerConfig, CircuitBreaker, Open, Permit, Snapshot, State};
use cachekit_core::ticks;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const NANOSECOND: Duration = Duration::from_nanos(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// The default cooldown.
pub(crate) const COOLDOWN: Duration = Duration::from_secs(30);
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) breaker: CircuitBreaker,
}

impl Rig {
    pub(crate) fn new(config: BreakerConfig) -> Self {
        let clock = Arc::new(ManualClock::new());
        let breaker = CircuitBreaker::builder(config).clock(clock.clone()).build().unwrap();
        Self { clock, breaker }
    }

    /// OPEN since just now.
    pub(crate) fn open(config: BreakerConfig) -> Self {
        let rig = Self::new(config);
        rig.fail_times(rig.breaker.config().failure_threshold());
        assert_eq!(rig.state(), State::Open);
        rig
    }

    /// OPEN, and the next call is the first probe.
    pub(crate) fn cooled(config: BreakerConfig) -> Self {
        let rig = Self::open(config);
        rig.advance(rig.breaker.config().recovery_timeout() + NANOSECOND);
        rig
    }

    pub(crate) fn advance(&self, time: Duration) {
        self.clock.advance(ticks(time));
    }

    pub(crate) fn state(&self) -> State {
        let state = self.breaker.state();
        assert_eq!(state, self.breaker.snapshot().state, "the word and what it stands for");
        state
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.breaker.snapshot()
    }

    pub(crate) fn failures(&self) -> u32 {
        self.breaker.snapshot().failure_count
    }

    pub(crate) fn admit(&self) -> Permit<'_> {
        self.breaker.admit().unwrap()
    }

    pub(crate) fn probe(&self) -> Permit<'_> {
        let permit = self.admit();
        assert!(permit.is_probe());
        permit
    }

    pub(crate) fn probes<const N: usize>(&self) -> [Permit<'_>; N] {
        std::array::from_fn(|_| self.probe())
    }

    /// Both ways of asking say no.
    pub(crate) fn rejected(&self) -> Open {
        assert!(self.breaker.try_admit().is_none());
        self.breaker.admit().unwrap_err()
    }

    pub(crate) fn fail(&self) {
        self.admit().failure();
    }

    pub(crate) fn fail_times(&self, times: u32) {
        (0..times).for_each(|_| self.fail());
    }

    pub(crate) fn succeed(&self) {
        self.admit().success();
    }

    pub(crate) fn recover(&self) {
        (0..self.breaker.config().success_threshold()).for_each(|_| self.probe().success());
        assert_eq!(self.state(), State::Closed);
    }
}

pub(crate) fn defaults() -> BreakerConfig {
    BreakerConfig::new()
}

/// One failure opens, one probe decides.
pub(crate) fn single() -> BreakerConfig {
    BreakerConfig::new().with_failure_threshold(1).with_success_threshold(1).with_half_open_requests(1)
}
