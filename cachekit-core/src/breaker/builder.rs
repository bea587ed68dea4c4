//! What a breaker is built with besides its settings.

use super::{BreakerConfig, CircuitBreaker, ConfigError};
use crate::{Clock, SystemClock};
use std::sync::Arc;

/// Builds a [`CircuitBreaker`] with a clock or a namespace of its own.
///
/// ```
/// use cachekit_core::breaker::{BreakerConfig, CircuitBreaker, live};
///
/// let breaker = CircuitBreaker::builder(BreakerConfig::new()).namespace("catalogue").build()?;
/// assert_eq!(live("catalogue").closed, 1);
/// drop(breaker);
/// assert_eq!(live("catalogue").total(), 0);
/// # Ok::<(), cachekit_core::breaker::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct CircuitBreakerBuilder {
    config: BreakerConfig,
    clock: Option<Arc<dyn Clock>>,
    namespace: Option<String>,
}

impl CircuitBreakerBuilder {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self { config, clock: None, namespace: None }
    }

    /// The clock that every decision reads; [`SystemClock`] if not set.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Counts the breaker in [`live`](super::live) and in the gauge `circuit_breaker_state` under this namespace.
    ///
    /// The namespaces of a process are kept for as long as it runs, so that their gauges stay at 0: use few, and never
    /// one made from a request.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// A CLOSED breaker.
    ///
    /// # Errors
    ///
    /// What [`BreakerConfig::validate`] refuses, also if the breaker is off.
    pub fn build(self) -> Result<CircuitBreaker, ConfigError> {
        let Self { config, clock, namespace } = self;
        config.validate()?;
        Ok(CircuitBreaker::assemble(config, clock.unwrap_or_else(|| Arc::new(SystemClock::new())), namespace))
    }
}
