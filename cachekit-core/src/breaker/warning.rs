//! Settings that are valid and yet keep the breaker from ever doing its work.

use super::BreakerConfig;
use super::machine::WINDOW;
use std::fmt;
use std::time::Duration;

/// Settings that disable a breaker without saying so. The cache logs them when it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigWarning {
    /// A single caller that waits for each attempt to time out never gets `failure_threshold` failures into the window
    /// of 60 s: `(failure_threshold - 1) x build_timeout` is longer.
    FailuresOutlastWindow {
        /// Failures that open the circuit.
        failure_threshold: u32,
        /// How long one attempt may take.
        build_timeout: Duration,
    },
    /// A cycle whose slots are taken starts over after `recovery_timeout`, which is no longer than one attempt may
    /// take: every probe reports to a cycle that is over.
    RecoveryWithinBuild {
        /// The cooldown.
        recovery_timeout: Duration,
        /// How long one attempt may take.
        build_timeout: Duration,
    },
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailuresOutlastWindow { failure_threshold, build_timeout } => write!(
                f,
                "circuit breaker: {failure_threshold} failures of up to {build_timeout:?} each do not fit into \
                 {WINDOW:?} for one caller after another, so the circuit may never open; lower failure_threshold or \
                 the build timeout"
            ),
            Self::RecoveryWithinBuild { recovery_timeout, build_timeout } => write!(
                f,
                "circuit breaker: recovery_timeout ({recovery_timeout:?}) is not longer than the build timeout \
                 ({build_timeout:?}), so probes may report after their cycle is over and the circuit neither closes \
                 nor reopens; make it at least twice as long"
            ),
        }
    }
}

impl BreakerConfig {
    /// What in these settings keeps the breaker from working when one attempt may take `build_timeout`. Nothing is
    /// said about a breaker that is off.
    ///
    /// ```
    /// use cachekit_core::breaker::BreakerConfig;
    /// use std::time::Duration;
    ///
    /// let attempt = Duration::from_secs(5);
    /// assert!(BreakerConfig::new().warnings(attempt).is_empty());
    /// let hasty = BreakerConfig::new().with_recovery_timeout(Duration::from_secs(1));
    /// assert!(hasty.warnings(attempt)[0].to_string().contains("recovery_timeout"));
    /// ```
    #[must_use]
    pub fn warnings(&self, build_timeout: Duration) -> Vec<ConfigWarning> {
        let mut warnings = Vec::new();
        if !self.enabled() {
            return warnings;
        }
        let failure_threshold = self.failure_threshold();
        if build_timeout.saturating_mul(failure_threshold.saturating_sub(1)) > WINDOW {
            warnings.push(ConfigWarning::FailuresOutlastWindow { failure_threshold, build_timeout });
        }
        let recovery_timeout = self.recovery_timeout();
        if recovery_timeout <= build_timeout {
            warnings.push(ConfigWarning::RecoveryWithinBuild { recovery_timeout, build_timeout });
        }
        warnings
    }
}
