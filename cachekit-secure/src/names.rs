//! Hidden key names: an HMAC in place of the key.

use crate::derive::Prk;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write;
use zeroize::Zeroizing;

/// The key of names. It is not of the ring: names must stay the same when the ring is rotated, or a delete by one
/// process would miss what another one stored.
pub(crate) struct Names {
    /// The key, zero-padded to the block of the hash, which is what HMAC does with a shorter one.
    block: Zeroizing<[u8; 64]>,
}

impl Names {
    pub(crate) fn new(prk: &Prk) -> Self {
        let mut block = Zeroizing::new([0; 64]);
        block[..32].copy_from_slice(&*prk.names_key());
        Self { block }
    }

    /// The prefix, then 64 hexadecimal digits of the HMAC of the whole key.
    pub(crate) fn hide(&self, prefix: &str, key: &str) -> String {
        let mac = <Hmac<Sha256> as KeyInit>::new((&*self.block).into()).chain_update(key).finalize().into_bytes();
        let mut name = String::with_capacity(prefix.len() + 64);
        name.push_str(prefix);
        for byte in mac {
            // Writing to a string does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }
}
