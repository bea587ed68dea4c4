//! What the cache tells about itself.

use super::Cache;
use crate::health::{BreakerHealth, Builds, Health, L1Health, L2Health, Requests, TrackingHealth};

impl Cache {
    /// The cache at this moment. Nothing is contacted, nothing changes, no circuit moves.
    #[must_use]
    pub fn health(&self) -> Health {
        let shared = &*self.shared;
        let totals = shared.events.totals();
        let enabled = shared.breaker.config().enabled();
        Health {
            builds: Builds { failed: totals.builds_failed, ok: totals.builds_ok },
            circuit_breaker: enabled.then(|| BreakerHealth::new(&shared.breaker.snapshot())),
            closed: shared.is_closed(),
            codec: shared.encoding.name(),
            degraded: totals
                .degraded
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| (reason.as_str(), *count))
                .collect(),
            in_progress: shared.activity.len(),
            l1: shared.l1.as_ref().map(|l1| L1Health {
                bytes: l1.bytes(),
                entries: l1.entries(),
                max_bytes: l1.capacity_bytes(),
                tracking: shared.tracking.as_ref().map(|tracking| TrackingHealth {
                    invalidated: totals.invalidated,
                    lost: totals.tracking_lost,
                    on: tracking.is_on(),
                }),
            }),
            l2: shared.l2.as_ref().map(|l2| L2Health::new(l2.backend_name(), &l2.status())),
            namespace: self.namespace().to_owned(),
            requests: Requests::from(&totals),
            sealer: shared.sealer.as_ref().map(|sealer| sealer.health(self.namespace()).into()),
            unsynced: shared.unsynced.len(),
            unsynced_dropped: totals.unsynced_dropped,
        }
    }
}
