//! HKDF-SHA-256: from a master key to the key of one tenant's entries in one namespace.
//!
//! ```text
//! PRK     = HKDF-Extract(salt = "cachekit-secure/1", ikm = master key)
//! OKM(48) = HKDF-Expand(PRK, "cachekit-secure/1 entry" ++ lp32(tenant) ++ lp32(namespace))
//!         = entry key (32) ++ key id (16)
//! ```
//!
//! The key id commits to the entry key, since it comes from the same expansion: no entry is valid under two keys.

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

const SALT: &[u8] = b"cachekit-secure/1";
const ENTRY: &[u8] = b"cachekit-secure/1 entry";
const FINGERPRINT: &[u8] = b"cachekit-secure/1 fingerprint";
const NAMES: &[u8] = b"cachekit-secure/1 names";

pub(crate) const KEY_ID_LEN: usize = 16;
pub(crate) type KeyId = [u8; KEY_ID_LEN];
/// Tells master keys apart without being any secret of theirs.
pub(crate) type Fingerprint = [u8; 16];

/// A pseudorandom key: what is left of a master key. Boxed, so that it is never moved on the heap and left behind.
pub(crate) struct Prk(Box<Zeroizing<[u8; 32]>>);

impl Prk {
    pub(crate) fn extract(master: &[u8; 32]) -> Self {
        let mut prk = Box::new(Zeroizing::new([0; 32]));
        hkdf_extract(SALT, master, &mut prk);
        Self(prk)
    }

    /// The key of one tenant's entries in one namespace, and its id. `None` when a name is too long to express.
    pub(crate) fn entry_key(&self, tenant: &str, namespace: &str) -> Option<(Zeroizing<[u8; 32]>, KeyId)> {
        let (tenant_len, namespace_len) = (lp32(tenant)?, lp32(namespace)?);
        let info = [ENTRY, &tenant_len, tenant.as_bytes(), &namespace_len, namespace.as_bytes()];
        let okm = self.expand::<48>(&info)?;
        let mut key = Zeroizing::new([0; 32]);
        let mut id = [0; KEY_ID_LEN];
        key.copy_from_slice(&okm[..32]);
        id.copy_from_slice(&okm[32..]);
        Some((key, id))
    }

    /// The key that hides the names of entries. In place of what never happens stands another secret, not a known key.
    pub(crate) fn names_key(&self) -> Zeroizing<[u8; 32]> {
        self.expand(&[NAMES]).unwrap_or_else(|| Zeroizing::clone(&self.0))
    }

    /// Without a fingerprint, which never happens, two keys would be taken for one, and the ring refused.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.expand(&[FINGERPRINT]).map_or_else(Default::default, |okm| *okm)
    }

    /// `None` never happens: the lengths are constants far below 255 blocks, and the key is as long as the hash.
    fn expand<const LEN: usize>(&self, info: &[&[u8]]) -> Option<Zeroizing<[u8; LEN]>> {
        let mut okm = Zeroizing::new([0; LEN]);
        hkdf_expand(&self.0[..], info, &mut *okm)?;
        Some(okm)
    }
}

/// HKDF-Extract with SHA-256.
pub(crate) fn hkdf_extract(salt: &[u8], ikm: &[u8], prk: &mut [u8; 32]) {
    let (mut output, _) = Hkdf::<Sha256>::extract(Some(salt), ikm);
    prk.copy_from_slice(&output);
    output.zeroize();
}

/// HKDF-Expand with SHA-256; `None` for more than 255 blocks, or a key shorter than the hash.
pub(crate) fn hkdf_expand(prk: &[u8], info: &[&[u8]], okm: &mut [u8]) -> Option<()> {
    Hkdf::<Sha256>::from_prk(prk).ok()?.expand_multi_info(info, okm).ok()
}

/// The length of a text as a big-endian u32, which goes in front of it so that no two sequences of texts are one.
pub(crate) fn lp32(text: &str) -> Option<[u8; 4]> {
    Some(u32::try_from(text.len()).ok()?.to_be_bytes())
}
