//! Series through the `metrics` facade: whatever recorder the application installed, whenever it did.

use crate::cache::Reason;
use metrics::{Key, KeyName, Label, Level, Metadata, SharedString};
use std::fmt;

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// The keys of one namespace's series, joined once, since the recorder is asked on every event.
pub(crate) struct Exporter {
    requests: [(&'static str, &'static str, Key); 3],
    degraded: [Key; Reason::ALL.len()],
    builds: [(&'static str, Key); 2],
}

impl Exporter {
    pub(crate) fn new(namespace: &str) -> Self {
        let key = |name: &'static str, labels: &[(&'static str, &'static str)]| {
            let namespace = Label::new("namespace", SharedString::from_owned(namespace.to_owned()));
            let rest = labels.iter().map(|(name, value)| Label::from_static_parts(name, value));
            Key::from_parts(KeyName::from_const_str(name), std::iter::once(namespace).chain(rest).collect::<Vec<_>>())
        };
        let request = |result, tier| (result, tier, key("cache_requests_total", &[("result", result), ("tier", tier)]));
        let build = |result| (result, key("cache_builds_total", &[("result", result)]));
        Self {
            requests: [request("hit", "l1"), request("hit", "l2"), request("miss", "none")],
            degraded: Reason::ALL.map(|reason| key("cache_degraded_total", &[("reason", reason.as_str())])),
            builds: [build("ok"), build("failed")],
        }
    }

    pub(crate) fn request(&self, result: &str, tier: &str) {
        if let Some((_, _, key)) = self.requests.iter().find(|(r, t, _)| *r == result && *t == tier) {
            increment(key);
        }
    }

    pub(crate) fn degraded(&self, reason: Reason) {
        increment(&self.degraded[reason.index()]);
    }

    pub(crate) fn build(&self, result: &str) {
        if let Some((_, key)) = self.builds.iter().find(|(r, _)| *r == result) {
            increment(key);
        }
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
