//! What a cache counts, logs and exports. Each degradation is counted every time and logged once per transition.

use super::outcome::{Reason, Source};
use crate::breaker::{CircuitBreaker, State};
use crate::counter::Striped;
use crate::metrics::Exporter;
use crate::{BackendError, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Events {
    namespace: String,
    l1_hits: Striped,
    l2_hits: AtomicU64,
    misses: AtomicU64,
    shared: AtomicU64,
    builds_ok: AtomicU64,
    builds_failed: AtomicU64,
    unsynced_dropped: AtomicU64,
    invalidated: AtomicU64,
    tracking_lost: AtomicU64,
    degraded: [AtomicU64; Reason::ALL.len()],
    build_is_failing: AtomicBool,
    operations_are_failing: AtomicBool,
    breaker_state: AtomicU8,
    exporter: Exporter,
}

impl Events {
    pub(super) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            l1_hits: Striped::new(),
            l2_hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            builds_ok: AtomicU64::new(0),
            builds_failed: AtomicU64::new(0),
            unsynced_dropped: AtomicU64::new(0),
            invalidated: AtomicU64::new(0),
            tracking_lost: AtomicU64::new(0),
            degraded: std::array::from_fn(|_| AtomicU64::new(0)),
            build_is_failing: AtomicBool::new(false),
            operations_are_failing: AtomicBool::new(false),
            breaker_state: AtomicU8::new(State::Closed as u8),
            exporter: Exporter::new(namespace),
        }
    }

    /// A read was answered from here. One outcome per public call.
    pub(super) fn answered(&self, source: Source) {
        match source {
            Source::L1 => self.l1_hits.increment(),
            Source::L2 => add(&self.l2_hits),
            Source::Computed => add(&self.misses),
        }
        self.exporter.answered(source);
    }

    /// A read found nothing.
    pub(super) fn missed(&self) {
        self.answered(Source::Computed);
    }

    /// A caller was given what another one computed.
    pub(super) fn shared(&self) {
        add(&self.shared);
    }

    pub(crate) fn degraded(&self, reason: Reason) {
        add(&self.degraded[reason.index()]);
        self.exporter.degraded(reason);
    }

    pub(super) fn unsynced_dropped(&self) {
        add(&self.unsynced_dropped);
    }

    /// The backend reported a key that somebody else changed.
    pub(super) fn invalidated(&self) {
        add(&self.invalidated);
        self.exporter.invalidated();
    }

    pub(super) fn tracking_lost(&self) {
        add(&self.tracking_lost);
        self.exporter.tracking_lost();
        tracing::warn!(namespace = self.namespace, "changes by others are not reported any more; L1 was dropped");
    }

    pub(super) fn tracking_resumed(&self) {
        tracing::info!(namespace = self.namespace, "changes by others are reported");
    }

    pub(crate) fn built(&self, backend: &'static str, error: Option<&BackendError>) {
        add(if error.is_none() { &self.builds_ok } else { &self.builds_failed });
        self.exporter.built(error.is_none());
        match error {
            Some(error) if !self.build_is_failing.swap(true, Ordering::Relaxed) => {
                tracing::warn!(namespace = self.namespace, backend, %error, "the cache's backend cannot be built; going on without it");
            }
            None if self.build_is_failing.swap(false, Ordering::Relaxed) => {
                tracing::info!(namespace = self.namespace, backend, "the cache's backend was built");
            }
            _ => {}
        }
    }

    pub(crate) fn operated(&self, backend: &'static str, error: Option<&BackendError>) {
        match error {
            // What the value, the key or the backend's abilities are to blame for is no transition of its health.
            Some(error)
                if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::KeyInvalid | ErrorKind::Unsupported) => {}
            Some(error) => {
                if !self.operations_are_failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(namespace = self.namespace, backend, %error, "the cache's backend fails; going on without it");
                }
            }
            None => {
                if self.operations_are_failing.load(Ordering::Relaxed)
                    && self.operations_are_failing.swap(false, Ordering::Relaxed)
                {
                    tracing::info!(namespace = self.namespace, backend, "the cache's backend works again");
                }
            }
        }
    }

    /// Logs a transition of the circuit, once.
    pub(crate) fn breaker_may_have_moved(&self, breaker: &CircuitBreaker) {
        let state = breaker.state();
        let before = self.breaker_state.swap(state as u8, Ordering::Relaxed);
        if before == state as u8 {
            return;
        }
        let (namespace, state_name) = (&self.namespace, state.as_str());
        match state {
            State::Open => {
                tracing::warn!(namespace, state = state_name, "the circuit opened; the backend is left alone")
            }
            State::HalfOpen | State::Closed => tracing::info!(namespace, state = state_name, "the circuit moved"),
        }
    }

    pub(super) fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            l1_hits: self.l1_hits.sum(),
            l2_hits: read(&self.l2_hits),
            misses: read(&self.misses),
            shared: read(&self.shared),
            builds_ok: read(&self.builds_ok),
            builds_failed: read(&self.builds_failed),
            unsynced_dropped: read(&self.unsynced_dropped),
            invalidated: read(&self.invalidated),
            tracking_lost: read(&self.tracking_lost),
            degraded: Reason::ALL.map(|reason| (reason, read(&self.degraded[reason.index()]))),
        }
    }
}

/// A reading of all counters.
pub(crate) struct Totals {
    pub(crate) l1_hits: u64,
    pub(crate) l2_hits: u64,
    pub(crate) misses: u64,
    pub(crate) shared: u64,
    pub(crate) builds_ok: u64,
    pub(crate) builds_failed: u64,
    pub(crate) unsynced_dropped: u64,
    pub(crate) invalidated: u64,
    pub(crate) tracking_lost: u64,
    pub(crate) degraded: [(Reason, u64); Reason::ALL.len()],
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
