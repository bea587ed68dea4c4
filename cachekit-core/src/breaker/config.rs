//! The settings of a breaker and what is wrong with them.

use std::time::Duration;

/// The settings of a [`CircuitBreaker`](super::CircuitBreaker).
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `enabled` | `true` | off: every call is admitted and nothing is counted |
/// | `failure_threshold` | 5 | failures within 60 s that open the circuit; at least 1 |
/// | `success_threshold` | 3 | successful probes of one cycle that close it; at least 1 |
/// | `recovery_timeout` | 30 s | cooldown from the failure that opened the circuit to the first probe; more than 0 |
/// | `half_open_requests` | 3 | probe slots of a cycle; at least `success_threshold` |
/// | `count_operation_errors` | `false` | read by the cache: errors of a backend that was built count too |
/// | `abandoned` | `Hold` | what a call that is dropped without an outcome means |
/// | `slow_call` | none | for `call` only: a longer call is a failure |
///
/// The window of 60 s is fixed. A breaker remembers at most `failure_threshold` failures, 8 bytes each, and reserves
/// nothing for them, so a huge threshold costs memory only once that many failures happened within the window.
///
/// Nothing is checked until [`validate`](Self::validate), which everything built from the settings calls.
///
/// ```
/// use cachekit_core::breaker::BreakerConfig;
/// use std::time::Duration;
///
/// let config = BreakerConfig::new().with_failure_threshold(10).with_recovery_timeout(Duration::from_secs(60));
/// assert!(config.validate().is_ok());
///
/// let error = BreakerConfig::new().with_success_threshold(4).validate().unwrap_err();
/// assert_eq!(error.field(), "half_open_requests");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    enabled: bool,
    failure_threshold: u32,
    success_threshold: u32,
    half_open_requests: u32,
    recovery_timeout: Duration,
    /// The bits of a number of seconds that is no duration, kept to be shown by `validate`.
    refused_seconds: Option<u64>,
    count_operation_errors: bool,
    abandoned: Abandoned,
    slow_call: Option<Duration>,
}

impl BreakerConfig {
    /// The defaults, which are valid.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            enabled: true,
            failure_threshold: 5,
            success_threshold: 3,
            half_open_requests: 3,
            recovery_timeout: Duration::from_secs(30),
            refused_seconds: None,
            count_operation_errors: false,
            abandoned: Abandoned::Hold,
            slow_call: None,
        }
    }

    /// Whether the breaker is on.
    #[must_use]
    pub const fn enabled(&self) -> bool {
        self.enabled
    }

    /// How many failures within 60 s open the circuit.
    #[must_use]
    pub const fn failure_threshold(&self) -> u32 {
        self.failure_threshold
    }

    /// How many successful probes of one cycle close the circuit.
    #[must_use]
    pub const fn success_threshold(&self) -> u32 {
        self.success_threshold
    }

    /// How many probe slots a cycle has.
    #[must_use]
    pub const fn half_open_requests(&self) -> u32 {
        self.half_open_requests
    }

    /// The cooldown of an open circuit, and the time after which a cycle whose slots are all taken starts over.
    ///
    /// Zero, if the seconds it was given are no duration; [`validate`](Self::validate) refuses that.
    #[must_use]
    pub const fn recovery_timeout(&self) -> Duration {
        self.recovery_timeout
    }

    /// Whether temporary errors of a backend that was built count as failures.
    #[must_use]
    pub const fn count_operation_errors(&self) -> bool {
        self.count_operation_errors
    }

    /// What a call that is dropped without an outcome means.
    #[must_use]
    pub const fn abandoned(&self) -> Abandoned {
        self.abandoned
    }

    /// The duration above which [`call`](super::CircuitBreaker::call) reports a failure; `None`: slowness is none.
    #[must_use]
    pub const fn slow_call(&self) -> Option<Duration> {
        self.slow_call
    }

    /// Sets [`enabled`](Self::enabled).
    #[must_use]
    pub const fn with_enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Sets [`failure_threshold`](Self::failure_threshold).
    #[must_use]
    pub const fn with_failure_threshold(mut self, failures: u32) -> Self {
        self.failure_threshold = failures;
        self
    }

    /// Sets [`success_threshold`](Self::success_threshold).
    #[must_use]
    pub const fn with_success_threshold(mut self, successes: u32) -> Self {
        self.success_threshold = successes;
        self
    }

    /// Sets [`half_open_requests`](Self::half_open_requests).
    #[must_use]
    pub const fn with_half_open_requests(mut self, slots: u32) -> Self {
        self.half_open_requests = slots;
        self
    }

    /// Sets [`recovery_timeout`](Self::recovery_timeout). More than the 146 years that the breaker's clock can count
    /// means for ever.
    #[must_use]
    pub const fn with_recovery_timeout(mut self, cooldown: Duration) -> Self {
        self.recovery_timeout = cooldown;
        self.refused_seconds = None;
        self
    }

    /// Sets [`recovery_timeout`](Self::recovery_timeout) in seconds: less than a nanosecond becomes one, more than
    /// [`Duration::MAX`] becomes that, and what is not finite or not positive is refused by
    /// [`validate`](Self::validate).
    #[must_use]
    pub fn with_recovery_timeout_secs(mut self, seconds: f64) -> Self {
        if seconds.is_finite() && seconds > 0.0 {
            let cooldown = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            self.with_recovery_timeout(cooldown.max(Duration::from_nanos(1)))
        } else {
            self.recovery_timeout = Duration::ZERO;
            self.refused_seconds = Some(seconds.to_bits());
            self
        }
    }

    /// Sets [`count_operation_errors`](Self::count_operation_errors).
    #[must_use]
    pub const fn with_count_operation_errors(mut self, count: bool) -> Self {
        self.count_operation_errors = count;
        self
    }

    /// Sets [`abandoned`](Self::abandoned).
    #[must_use]
    pub const fn with_abandoned(mut self, abandoned: Abandoned) -> Self {
        self.abandoned = abandoned;
        self
    }

    /// Sets [`slow_call`](Self::slow_call).
    #[must_use]
    pub const fn with_slow_call(mut self, longest: Duration) -> Self {
        self.slow_call = Some(longest);
        self
    }

    /// Checks every setting, also when the breaker is off: switching it on later must not be what stops the service
    /// from starting.
    ///
    /// # Errors
    ///
    /// The first setting that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let counts = [
            ("failure_threshold", self.failure_threshold),
            ("success_threshold", self.success_threshold),
            ("half_open_requests", self.half_open_requests),
        ];
        if let Some((field, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(ConfigError::Zero { field });
        }
        if self.half_open_requests < self.success_threshold {
            return Err(ConfigError::TooFewHalfOpenRequests {
                half_open_requests: self.half_open_requests,
                success_threshold: self.success_threshold,
            });
        }
        if let Some(bits) = self.refused_seconds {
            return Err(ConfigError::RecoveryTimeout { seconds: f64::from_bits(bits) });
        }
        if self.recovery_timeout.is_zero() {
            return Err(ConfigError::Zero { field: "recovery_timeout" });
        }
        if self.slow_call == Some(Duration::ZERO) {
            return Err(ConfigError::Zero { field: "slow_call" });
        }
        Ok(())
    }
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// What a call means that was admitted and then dropped without an outcome: a cancelled future, a caller that stopped
/// waiting.
///
/// A permit that is dropped while its thread panics is [`raised`](super::Permit::raised) instead, whatever is set here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Abandoned {
    /// Nothing is counted. A probe keeps its slot until its cycle ends, so that callers who give up cannot send more
    /// than `half_open_requests` probes per cooldown to a dependency that hangs.
    #[default]
    Hold,
    /// Nothing is counted. A probe gives its slot back.
    Release,
    /// It is a failure: it counts while CLOSED, and reopens the circuit as a probe.
    Failure,
}

/// A setting of a [`BreakerConfig`] that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// `recovery_timeout` was given as seconds that are not finite or not positive.
    #[error("circuit breaker: recovery_timeout must be a finite number of seconds greater than 0, not {seconds}")]
    RecoveryTimeout {
        /// What it was given.
        seconds: f64,
    },
    /// A cycle has fewer slots than it needs successes.
    #[error(
        "circuit breaker: half_open_requests ({half_open_requests}) must be at least success_threshold \
         ({success_threshold}): every success holds one of a cycle's slots, so the circuit could never close"
    )]
    TooFewHalfOpenRequests {
        /// The slots of a cycle.
        half_open_requests: u32,
        /// The successes it takes to close.
        success_threshold: u32,
    },
    /// A setting that has to be greater than zero is zero.
    #[error("circuit breaker: {field} must be greater than 0")]
    Zero {
        /// The setting.
        field: &'static str,
    },
}

impl ConfigError {
    /// The name of the setting, as in [`BreakerConfig`].
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::RecoveryTimeout { .. } => "recovery_timeout",
            Self::TooFewHalfOpenRequests { .. } => "half_open_requests",
            Self::Zero { field } => field,
        }
    }
}
