//! One function for each target: any bytes, and nothing may go wrong.

use super::forge::{self, Owner};
use cachekit_core::{Acceptance, Bytes, OpenError, SealContext, Sealer, Tier};
use cachekit_secure::{KeyError, Keyring, MasterKey, Secure};
use std::sync::{Arc, LazyLock};

const MASTER: [u8; 32] = [7; 32];
const OWNER: Owner<'static> = Owner { master: MASTER, tenant: "acme", namespace: "users", stored_key: "users:42" };
const CONTEXT: SealContext<'static> = SealContext { namespace: "users", stored_key: "users:42", tenant: "acme" };
const NONCE: [u8; 24] = [5; 24];
const MAX_INFLATED: usize = 1 << 16;
const ACCEPTANCE: Acceptance = Acceptance { max_stored_len: 1 << 16, now: 2_000, schema_version: 7, tier: Tier::L2 };

static SEALER: LazyLock<Arc<dyn Sealer>> = LazyLock::new(|| {
    Secure::new(Keyring::new(MasterKey::from_bytes(MASTER))).max_inflated_bytes(MAX_INFLATED).sealer()
});

fn header(flags: u8) -> Vec<u8> {
    forge::header(flags, 1, 1, 7, 1_000, u64::MAX)
}

fn open(entry: &[u8]) -> Result<Bytes, OpenError> {
    let shared = Bytes::copy_from_slice(entry);
    let from_a_copy = SEALER.open(CONTEXT, shared.clone(), ACCEPTANCE);
    let in_place = SEALER.open(CONTEXT, Bytes::copy_from_slice(entry), ACCEPTANCE);
    assert_eq!(from_a_copy, in_place);
    assert_eq!(shared, entry);
    in_place.map(|(_, payload)| payload)
}

/// Any bytes are stored: they are not authentic.
pub fn entry(data: &[u8]) {
    assert_eq!(open(data), Err(OpenError::NotAuthentic));
    // And with a beginning that leads further.
    for front in [&header(0)[..], &[&header(0)[..], &forge::derive(OWNER)[32..]].concat()] {
        assert_eq!(open(&[front, data].concat()), Err(OpenError::NotAuthentic));
    }
}

/// A valid entry is changed: each three bytes say where, and how.
pub fn mutated(data: &[u8]) {
    static VALID: LazyLock<Vec<u8>> = LazyLock::new(|| forge::seal(OWNER, &header(0), &NONCE, b"a value"));
    let mut entry = VALID.clone();
    for change in data.chunks_exact(3) {
        let at = usize::from(change[0]) % (entry.len() + 1);
        match change[1] % 4 {
            0 if at < entry.len() => entry[at] ^= change[2],
            1 => entry.insert(at, change[2]),
            2 if at < entry.len() => drop(entry.remove(at)),
            _ => entry.truncate(at.max(1)),
        }
    }
    match open(&entry) {
        Ok(payload) => assert!(entry == *VALID && payload == "a value"),
        Err(error) => assert!(error == OpenError::NotAuthentic && entry != *VALID),
    }
}

/// Any text as a key. What is accepted is 64 digits; no error quotes the text.
pub fn key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match MasterKey::from_hex(text) {
        Ok(_) => assert!(text.trim().len() == 64 && text.trim().bytes().all(|byte| byte.is_ascii_hexdigit())),
        Err(error) => {
            let shown = format!("{error} {error:?}");
            let numbers_aside = |part: &str| !part.bytes().all(|byte| byte.is_ascii_digit());
            let of_a_key = |part: &&str| part.len() >= 8 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            for part in text.split(|c: char| !c.is_ascii_hexdigit()).filter(of_a_key).filter(|part| numbers_aside(part))
            {
                assert!(!shown.contains(part), "{shown}");
            }
            assert!(error != KeyError::NotSet && error != KeyError::SetButEmpty);
        }
    }
}

/// The holder of a valid key seals any bytes as if they were compressed or padded; the first byte says how.
pub fn inflate(data: &[u8]) {
    let Some((flags, payload)) = data.split_first() else { return };
    let entry = forge::seal(OWNER, &header(flags % 8), &NONCE, payload);
    match open(&entry) {
        Ok(inflated) => assert!(inflated.len() <= MAX_INFLATED.max(payload.len())),
        Err(error) => assert!(error == OpenError::Undecodable || flags & 3 == 3 || entry.len() > 1 << 16),
    }
}
