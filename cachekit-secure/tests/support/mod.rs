//! What several tests use.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test binary uses a part of it")]

use cachekit_core::entry::{Header, Kind, Suite};
use cachekit_core::{Acceptance, Bytes, OpenError, SealContext, Sealer, Tier};
use cachekit_secure::{Keyring, MasterKey, Secure};

#[path = "../../fuzz/src/forge.rs"]
pub(crate) mod forge;

pub(crate) const NOW: u64 = 1_760_000_000_000;
pub(crate) const CONTEXT: SealContext<'static> =
    SealContext { namespace: "users", stored_key: "users:42", tenant: "acme" };

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

pub(crate) fn master_bytes(first: u8) -> [u8; 32] {
    std::array::from_fn(|i| first.wrapping_add(u8::try_from(i).unwrap()))
}

pub(crate) fn master(first: u8) -> MasterKey {
    MasterKey::from_bytes(master_bytes(first))
}

pub(crate) fn secure() -> Secure {
    Secure::new(Keyring::new(master(0)))
}

pub(crate) fn header() -> Header {
    Header {
        suite: Suite::Sealed,
        flags: 0,
        kind: Kind::Value,
        format: 1,
        schema_version: 7,
        written_at: NOW,
        fresh_until: NOW + 150_000,
        expires_at: NOW + 300_000,
    }
}

pub(crate) fn acceptance() -> Acceptance {
    Acceptance { max_stored_len: 4 << 20, now: NOW, schema_version: 7, tier: Tier::L2 }
}

pub(crate) fn seal_in(sealer: &dyn Sealer, context: SealContext<'_>, header: Header, payload: &[u8]) -> Bytes {
    let mut buffer = vec![0; sealer.headroom()];
    buffer.extend_from_slice(payload);
    sealer.seal(context, header, buffer).unwrap()
}

pub(crate) fn seal(sealer: &dyn Sealer, payload: &[u8]) -> Bytes {
    seal_in(sealer, CONTEXT, header(), payload)
}

pub(crate) fn open(sealer: &dyn Sealer, entry: impl Into<Bytes>) -> Result<Bytes, OpenError> {
    sealer.open(CONTEXT, entry.into(), acceptance()).map(|(_, payload)| payload)
}

/// Whether the bytes occur anywhere in the others.
pub(crate) fn occurs(needle: &[u8], haystack: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// Reproducible noise.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.to_be_bytes()[0]
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let number = (0..4).fold(0, |number, _| (number << 8) | usize::from(self.byte()));
        number % bound.max(1)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.byte()).collect()
    }
}
