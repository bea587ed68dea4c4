//! The counts as a gauge of the `metrics` facade.

use super::State;
use super::gauge::StateCounts;

/// Sets all three states, those that rose first: whoever reads in between sees a breaker twice rather than not at all,
/// and an alert on OPEN never misses one that is on its way to HALF_OPEN and back.
pub(super) fn publish(namespace: &str, before: StateCounts, now: StateCounts) {
    let rose = |state: State| now.get(state) > before.get(state);
    for state in State::ALL.into_iter().filter(|state| rose(*state)) {
        set(namespace, state, now);
    }
    for state in State::ALL.into_iter().filter(|state| !rose(*state)) {
        set(namespace, state, now);
    }
}

/// The recorder is looked up each time, since it may be installed after the first breaker was built.
fn set(namespace: &str, state: State, counts: StateCounts) {
    // At most 21 bits: exact.
    #[allow(clippy::cast_precision_loss, reason = "a counter has 21 bits")]
    let count = counts.get(state) as f64;
    metrics::gauge!("circuit_breaker_state", "namespace" => namespace.to_owned(), "state" => state.as_str()).set(count);
}
