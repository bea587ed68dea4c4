//! Tests that need what no user gets: chosen nonces, failing randomness, the cipher without the entry around it.

mod ciphers;
pub(crate) mod counting;
mod differential;
mod failing;
mod golden;
mod hkdf;
mod nist;
mod nonces;
mod wycheproof;
mod xaes;

use crate::random::{NoRandomness, NonceSource};
use crate::sealer::EntrySealer;
use crate::xaes::Nonce;
use crate::{Keyring, MasterKey, Secure};
use cachekit_core::entry::{Header, Kind, Suite};
use cachekit_core::{Acceptance, SealContext, Tier};
use std::sync::Arc;

const WRITTEN_AT: u64 = 1_760_000_000_000;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn master(first: u8) -> MasterKey {
    MasterKey::from_bytes(std::array::from_fn(|i| first + u8::try_from(i).unwrap()))
}

fn secure() -> Secure {
    Secure::new(Keyring::new(master(0)))
}

fn header() -> Header {
    Header {
        suite: Suite::Sealed,
        flags: 0,
        kind: Kind::Value,
        format: 1,
        schema_version: 7,
        written_at: WRITTEN_AT,
        fresh_until: WRITTEN_AT + 150_000,
        expires_at: WRITTEN_AT + 300_000,
    }
}

fn acceptance() -> Acceptance {
    Acceptance { max_stored_len: 1 << 20, now: WRITTEN_AT, schema_version: 7, tier: Tier::L2 }
}

const CONTEXT: SealContext<'static> = SealContext { namespace: "users", stored_key: "users:42", tenant: "acme" };

/// The payload behind the room that a sealer wants in front of it.
fn buffer(payload: &[u8]) -> Vec<u8> {
    [&[0; crate::layout::HEADROOM], payload].concat()
}

/// The same nonce every time.
struct Fixed(Nonce);

impl NonceSource for Fixed {
    fn nonce(&self) -> Result<Nonce, NoRandomness> {
        Ok(self.0)
    }
}

/// No nonce, ever.
struct Broken;

impl NonceSource for Broken {
    fn nonce(&self) -> Result<Nonce, NoRandomness> {
        Err(NoRandomness)
    }
}

fn with_random(secure: &Secure, random: impl NonceSource) -> EntrySealer {
    EntrySealer { random: Arc::new(random), ..secure.entry_sealer().unwrap() }
}
