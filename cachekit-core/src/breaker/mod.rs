//! A circuit breaker: it stops asking a dependency that keeps failing, and finds out by itself when to start again.
//!
//! [`Cache`](crate) guards its backend with one. It also works alone around anything that may fail: see
//! [`CircuitBreaker::call`].
//!
//! ```
//! use cachekit_core::breaker::{BreakerConfig, CallError, CircuitBreaker, State};
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let config = BreakerConfig::new().with_failure_threshold(2).with_recovery_timeout(Duration::from_secs(10));
//! let breaker = CircuitBreaker::new(config)?;
//!
//! for _ in 0..2 {
//!     let answer: Result<(), _> = breaker.call(|| async { Err("connection refused") }).await;
//!     assert!(matches!(answer, Err(CallError::Inner("connection refused"))));
//! }
//! assert_eq!(breaker.state(), State::Open);
//!
//! // The closure does not run: nothing is called, nothing waits for a timeout.
//! match breaker.call(|| async { Ok::<_, &str>("never asked") }).await {
//!     Err(error @ CallError::Open { retry_in }) => {
//!         assert!(retry_in <= Duration::from_secs(10));
//!         assert!(error.to_string().starts_with("circuit open; retry in "));
//!     }
//!     other => unreachable!("{other:?}"),
//! }
//! # Ok::<(), cachekit_core::breaker::ConfigError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The three states
//!
//! | state | a call | what ends it |
//! |---|---|---|
//! | CLOSED | is admitted | `failure_threshold` failures within the last 60 s open the circuit; successes do not reset the count |
//! | OPEN | is rejected; that is not a failure | the first call more than `recovery_timeout` after the failure that opened it starts a HALF_OPEN cycle and is its first probe |
//! | HALF_OPEN | is a probe while one of the cycle's `half_open_requests` slots is free, else it is rejected | `success_threshold` successes close the circuit; one failure opens it for another full `recovery_timeout` |
//!
//! A slot is not a limit on concurrency: a probe keeps its slot until the cycle ends, whether it succeeded or was never
//! heard of again. Only a probe that reports [`raised`](Permit::raised) gives it back. When all slots are taken and the
//! cycle is still undecided `recovery_timeout` after it began, the next call starts a new cycle and the successes
//! counted so far are forgotten.
//!
//! Outcomes carry the cycle that admitted them. While HALF_OPEN, the outcome of a call that was admitted before this
//! cycle is ignored; while OPEN, every outcome is. A call admitted in one CLOSED period that fails in a later one counts
//! there, at the time it fails ([`Snapshot::late_outcomes_total`] shows such reports).
//!
//! Nothing happens by itself: without a call no state changes, and reading the state or a snapshot never changes it.
//!
//! # What counts as a failure
//!
//! Inside the cache, this list is closed:
//!
//! - the backend's factory returned an error;
//! - the backend's factory panicked;
//! - building the backend took longer than the build timeout;
//! - with [`count_operation_errors`](BreakerConfig::with_count_operation_errors) only: a temporary error, a timeout
//!   or refused credentials of an operation on a backend that was built.
//!
//! One attempt to build counts once, however many callers waited for it. Everything else is neutral: the errors and
//! panics of the caller's function, a cancelled call, what does not decode, decrypt or authenticate, an invalid key, a
//! rejected call. By default a backend that dies *after* it was built therefore never opens the circuit; count operation
//! errors if that should open it.
//!
//! In [`CircuitBreaker::call`] the closure *is* the dependency: its `Err`, its panic and a call slower than
//! [`slow_call`](BreakerConfig::with_slow_call) are failures. An `Err` that [`call_excluding`] excludes is neutral, and
//! a future that is dropped unfinished is [abandoned](Abandoned).
//!
//! # Choosing the settings
//!
//! - `recovery_timeout` should be at least twice the time one attempt may take. If it is not longer than one attempt, a
//!   cycle is over before its probes report, and the circuit neither closes nor reopens.
//! - `failure_threshold` failures have to fit into 60 s, also for a single caller that waits for each attempt to time
//!   out: with a threshold of 5, attempts over 15 s never open the circuit.
//!   [`BreakerConfig::warnings`] finds both mistakes.
//! - A breaker cannot prevent the first exhaustion of a worker pool: calls in flight peak at rate x timeout before the
//!   first failure is even known. Keep the timeout below pool size / rate; the breaker shortens what follows.
//! - Retries belong *inside* the guarded call, where one exhausted series counts as one failure. A rejection says
//!   when to come back; do not retry it before.
//! - For something internal that answers fast and hardly ever fails a timeout alone is enough. A breaker pays for
//!   dependencies that are remote, shared, or fail by being slow.
//!
//! # Time and cost
//!
//! Every decision uses the monotonic clock of the builder ([`SystemClock`](crate::SystemClock) by default), in
//! nanoseconds; stepping the wall clock changes nothing. On Linux that clock stands still while the machine is
//! suspended, so a cooldown looks longer after a resume.
//!
//! A call in CLOSED costs one atomic load, a rejection one atomic load, a clock reading and a counter. Neither locks
//! nor allocates. Everything else takes a mutex for a few dozen nanoseconds; none is held while your code runs.
//!
//! # Metrics
//!
//! A breaker with a [namespace](CircuitBreakerBuilder::namespace) is counted in [`live`], and with the feature
//! `metrics` in the gauge `circuit_breaker_state{namespace,state}`: the number of live breakers of that namespace in
//! that state, all three states from the start. An OPEN breaker that nobody calls stays OPEN, so an alert should also
//! ask whether calls are being rejected.
//!
//! [`call_excluding`]: CircuitBreaker::call_excluding

mod builder;
mod call;
mod circuit;
mod config;
#[cfg(feature = "metrics")]
mod export;
mod gauge;
mod machine;
mod permit;
mod snapshot;
mod state;
mod sync;
mod totals;
mod warning;
mod word;

/// Without the feature `metrics` the counts are kept for [`live`] and go nowhere else.
#[cfg(not(feature = "metrics"))]
mod export {
    use super::gauge::StateCounts;

    pub(super) fn publish(_: &str, _: StateCounts, _: StateCounts) {}
}

pub use builder::CircuitBreakerBuilder;
pub use call::CallError;
pub use circuit::CircuitBreaker;
pub use config::{Abandoned, BreakerConfig, ConfigError};
pub use gauge::{StateCounts, live};
pub use permit::{Open, Permit};
pub use snapshot::{Probes, Rejected, Snapshot, Transitions};
pub use state::State;
pub use warning::ConfigWarning;
