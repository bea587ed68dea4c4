//! Counters through the `metrics` facade. No key name, no tenant and no text of an error is a label.

use crate::reason::Reason;
use cachekit_core::{SealError, Tier};
use metrics::{Key, KeyName, Label, Level, Metadata};
use std::sync::LazyLock;

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

const TIERS: [&str; 2] = ["l1", "l2"];
const SLOTS: [&str; 5] = ["none", "primary", "previous_1", "previous_2", "previous_3"];

const REASONS: [Reason; 11] = [
    Reason::Expired,
    Reason::FromTheFuture,
    Reason::Malformed,
    Reason::Opened,
    Reason::OtherSchema,
    Reason::Plaintext,
    Reason::TagMismatch,
    Reason::TooLarge,
    Reason::TooShort,
    Reason::Undecodable,
    Reason::UnknownKey,
];

const fn label(reason: Reason) -> &'static str {
    match reason {
        Reason::Expired => "expired",
        Reason::FromTheFuture => "from_the_future",
        Reason::Malformed => "malformed",
        Reason::Opened => "opened",
        Reason::OtherSchema => "other_schema",
        Reason::Plaintext => "plaintext",
        Reason::TagMismatch => "tag_mismatch",
        Reason::TooLarge => "too_large",
        Reason::TooShort => "too_short",
        Reason::Undecodable => "undecodable",
        Reason::UnknownKey => "unknown_key",
    }
}

/// The series of every combination, joined once, since the recorder is asked on every event.
static OPENS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let mut keys = Vec::with_capacity(REASONS.len() * SLOTS.len() * TIERS.len());
    for reason in REASONS {
        for slot in SLOTS {
            for tier in TIERS {
                keys.push(key("secure_open_total", &[("result", label(reason)), ("slot", slot), ("tier", tier)]));
            }
        }
    }
    keys
});

fn key(name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
    let labels: Vec<_> = labels.iter().map(|(name, value)| Label::from_static_parts(name, value)).collect();
    Key::from_parts(KeyName::from_const_str(name), labels)
}

fn increment(key: &Key) {
    metrics::with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
}

/// The opening of an entry ended like this; `slot`: that of the key it names, where there is one.
pub(crate) fn open(reason: Reason, slot: Option<usize>, tier: Tier) {
    let slot_index = slot.map_or(0, |slot| slot + 1).min(SLOTS.len() - 1);
    let tier_index = usize::from(tier == Tier::L2);
    if let Some(key) = OPENS.get((reason as usize * SLOTS.len() + slot_index) * TIERS.len() + tier_index) {
        increment(key);
    }
    if reason == Reason::Opened && slot.is_some_and(|slot| slot > 0) {
        increment(&key("secure_previous_key_hits_total", &[("slot", SLOTS[slot_index])]));
    }
}

pub(crate) fn seal_failed(error: SealError) {
    increment(&key("secure_seal_failures_total", &[("reason", error.as_str())]));
}

/// A backend returned an entry long after it had to be gone.
pub(crate) fn overlived() {
    increment(&key("secure_backend_overlived_total", &[]));
}
