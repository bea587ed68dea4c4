//! A cache at one moment, for a status page or a probe.

use crate::breaker::{BreakerConfig, Snapshot};
use crate::cache::Totals;
use crate::{ErrorKind, SealerHealth, l2};
use serde::Serialize;
use std::collections::BTreeMap;

/// What [`Cache::health`](crate::Cache::health) reports. It serializes with any serde format and holds no secret, no
/// key and no value.
///
/// ```
/// use cachekit_core::Cache;
///
/// let cache = Cache::builder("users").build()?;
/// let health = cache.health();
/// assert_eq!(health.circuit_breaker.map(|breaker| breaker.state), Some("CLOSED"));
/// assert_eq!(health.l1.map(|l1| l1.entries), Some(0));
/// # Ok::<(), cachekit_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// How often the backend was built, and how often that failed.
    pub builds: Builds,
    /// The circuit breaker; `None` when it is disabled.
    pub circuit_breaker: Option<BreakerHealth>,
    /// Whether the cache was closed.
    pub closed: bool,
    /// `messagepack`, `json` or `custom`.
    pub codec: &'static str,
    /// How often the cache did less than on a good day, by reason; reasons that never occurred are left out.
    pub degraded: BTreeMap<&'static str, u64>,
    /// Calls that compute, read from the L2 or write right now.
    pub in_progress: usize,
    /// The in-process tier; `None` without one.
    pub l1: Option<L1Health>,
    /// The backend; `None` without one.
    pub l2: Option<L2Health>,
    /// The namespace.
    pub namespace: String,
    /// Reads by result.
    pub requests: Requests,
    /// What seals the entries; `None` when they are plain.
    pub sealer: Option<SealerReport>,
    /// Keys and clears that may not have reached the L2, which is not read for them.
    pub unsynced: usize,
    /// Unsynced keys that were forgotten because there were too many: the L2 may serve an older value for them.
    pub unsynced_dropped: u64,
}

/// Build attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Builds {
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that built the backend.
    pub ok: u64,
}

/// Reads by result; each call counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Requests {
    /// Answered by L1.
    pub l1_hits: u64,
    /// Answered by the backend.
    pub l2_hits: u64,
    /// Not answered by a tier.
    pub misses: u64,
    /// Those of all above that were given what another caller had computed or read.
    pub shared: u64,
}

/// The in-process tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct L1Health {
    /// What its entries weigh; each at least its share of the capacity.
    pub bytes: u64,
    /// Entries, expired ones that were not swept yet included.
    pub entries: usize,
    /// What its entries may weigh.
    pub max_bytes: u64,
    /// What it is told of changes by others; `None` without `track_changes`.
    pub tracking: Option<TrackingHealth>,
}

/// What L1 is told of changes by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TrackingHealth {
    /// Keys that the backend reported.
    pub invalidated: u64,
    /// How often the reports stopped, and L1 was dropped.
    pub lost: u64,
    /// Whether changes are reported right now.
    pub on: bool,
}

/// The backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct L2Health {
    /// Its name.
    pub backend: &'static str,
    /// What the last attempt to build it, or the loss of it, was due to; `None` once it is built.
    pub last_error: Option<&'static str>,
    /// `not_built`, `building`, `ready`, `failed` or `closed`.
    pub status: &'static str,
}

/// What seals the entries. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SealerReport {
    /// Whether an entry that does not authenticate is an error instead of a miss.
    pub fails_closed: bool,
    /// The key that seals, then those that only open.
    pub keys: Vec<KeyReport>,
    /// Whether the keys that only open can be removed: none of them was needed for as long as any entry lives.
    pub previous_keys_can_be_dropped: bool,
}

/// One key of a sealer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeyReport {
    /// The first 8 hexadecimal digits of its id for this namespace.
    pub id: String,
    /// How many entries it has opened.
    pub opened: u64,
}

/// The circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BreakerHealth {
    /// Its settings.
    pub config: BreakerSettings,
    /// Failures of the last 60 s that count, at most the threshold.
    pub failure_count: u32,
    /// How long ago the last failure was.
    pub last_failure_age_seconds: Option<f64>,
    /// How often it opened.
    pub opened_total: u64,
    /// Slots of the current HALF_OPEN cycle that are taken.
    pub probes_in_use: u32,
    /// Calls that it rejected.
    pub rejected_total: u64,
    /// How much longer it rejects calls.
    pub retry_in_seconds: Option<f64>,
    /// `CLOSED`, `OPEN` or `HALF_OPEN`.
    pub state: &'static str,
}

/// The settings of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BreakerSettings {
    /// Whether it is on.
    pub enabled: bool,
    /// Failures within 60 s that open it.
    pub failure_threshold: u32,
    /// Slots of a HALF_OPEN cycle.
    pub half_open_requests: u32,
    /// Successful probes that close it.
    pub success_threshold: u32,
    /// The cooldown: the setting `recovery_timeout`.
    pub timeout_seconds: f64,
}

impl BreakerHealth {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        Self {
            config: BreakerSettings::new(&snapshot.config),
            failure_count: snapshot.failure_count,
            last_failure_age_seconds: snapshot.last_failure_age.map(|age| age.as_secs_f64()),
            opened_total: snapshot.opened_total(),
            probes_in_use: snapshot.probes_in_use,
            rejected_total: snapshot.rejected_total.open + snapshot.rejected_total.half_open,
            retry_in_seconds: snapshot.retry_in.map(|retry_in| retry_in.as_secs_f64()),
            state: snapshot.state.as_str(),
        }
    }
}

impl BreakerSettings {
    fn new(config: &BreakerConfig) -> Self {
        Self {
            enabled: config.enabled(),
            failure_threshold: config.failure_threshold(),
            half_open_requests: config.half_open_requests(),
            success_threshold: config.success_threshold(),
            timeout_seconds: config.recovery_timeout().as_secs_f64(),
        }
    }
}

impl L2Health {
    pub(crate) fn new(backend: &'static str, status: &l2::Status) -> Self {
        let (status, last_error) = match status {
            l2::Status::Building => ("building", None),
            l2::Status::Closed => ("closed", None),
            l2::Status::Failed(error) => ("failed", Some(ErrorKind::as_str(error.kind()))),
            l2::Status::NotBuilt => ("not_built", None),
            l2::Status::Ready => ("ready", None),
        };
        Self { backend, last_error, status }
    }
}

impl From<SealerHealth> for SealerReport {
    fn from(health: SealerHealth) -> Self {
        let keys = health.slots.into_iter().map(|slot| KeyReport { id: slot.key_id, opened: slot.opened }).collect();
        let SealerHealth { fails_closed, previous_keys_can_be_dropped, .. } = health;
        Self { fails_closed, keys, previous_keys_can_be_dropped }
    }
}

impl From<&Totals> for Requests {
    fn from(totals: &Totals) -> Self {
        Self { l1_hits: totals.l1_hits, l2_hits: totals.l2_hits, misses: totals.misses, shared: totals.shared }
    }
}
