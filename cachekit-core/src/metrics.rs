//! Series through the `metrics` facade: whatever recorder the application installed, whenever it did.

use crate::cache::{Reason, Source};
use metrics::{Key, KeyName, Label, Level, Metadata, SharedString};
use std::fmt;

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// The keys of one namespace's series, joined once, since the recorder is asked on every event.
pub(crate) struct Exporter {
    l1_hits: Key,
    l2_hits: Key,
    misses: Key,
    degraded: [Key; Reason::ALL.len()],
    built: Key,
    not_built: Key,
    invalidated: Key,
    tracking_lost: Key,
}

impl Exporter {
    pub(crate) fn new(namespace: &str) -> Self {
        let key = |name: &'static str, labels: &[(&'static str, &'static str)]| {
            let namespace = Label::new("namespace", SharedString::from_owned(namespace.to_owned()));
            let rest = labels.iter().map(|(name, value)| Label::from_static_parts(name, value));
            Key::from_parts(KeyName::from_const_str(name), std::iter::once(namespace).chain(rest).collect::<Vec<_>>())
        };
        let request = |result, tier| key("cache_requests_total", &[("result", result), ("tier", tier)]);
        Self {
            l1_hits: request("hit", "l1"),
            l2_hits: request("hit", "l2"),
            misses: request("miss", "none"),
            degraded: Reason::ALL.map(|reason| key("cache_degraded_total", &[("reason", reason.as_str())])),
            built: key("cache_builds_total", &[("result", "ok")]),
            not_built: key("cache_builds_total", &[("result", "failed")]),
            invalidated: key("cache_invalidations_total", &[]),
            tracking_lost: key("cache_tracking_lost_total", &[]),
        }
    }

    pub(crate) fn answered(&self, source: Source) {
        increment(match source {
            Source::L1 => &self.l1_hits,
            Source::L2 => &self.l2_hits,
            Source::Computed => &self.misses,
        });
    }

    pub(crate) fn degraded(&self, reason: Reason) {
        increment(&self.degraded[reason.index()]);
    }

    pub(crate) fn built(&self, successfully: bool) {
        increment(if successfully { &self.built } else { &self.not_built });
    }

    pub(crate) fn invalidated(&self) {
        increment(&self.invalidated);
    }

    pub(crate) fn tracking_lost(&self) {
        increment(&self.tracking_lost);
    }
}

fn increment(key: &Key) {
    metrics::with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}
