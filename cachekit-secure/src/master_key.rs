//! The secret that everything is derived from.

use crate::derive::{Fingerprint, Prk};
use crate::key_text::{self, KeyError};
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// A master key: 32 random bytes that every process which shares the cache knows.
///
/// The bytes themselves are gone as soon as it is made: what is kept is the pseudorandom key that HKDF extracts from
/// them, and that is zeroized when it is dropped. It cannot be copied, compared, printed or serialized.
///
/// ```
/// use cachekit_secure::{KeyError, MasterKey};
///
/// let key = MasterKey::from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")?;
/// assert_eq!(format!("{key:?}"), "MasterKey(..)");
/// assert_eq!(MasterKey::from_hex("0x00").unwrap_err(), KeyError::HexPrefix { length: 4 });
/// # Ok::<(), KeyError>(())
/// ```
pub struct MasterKey {
    prk: Prk,
}

impl MasterKey {
    /// The environment variable that [`Keyring::from_env`](crate::Keyring::from_env) reads.
    pub const VARIABLE: &str = "CACHEKIT_MASTER_KEY";

    /// A key of 32 bytes from a good source of randomness, such as a key management service.
    ///
    /// # Security
    ///
    /// The caller's own copy of the bytes is the caller's to erase.
    #[must_use]
    pub fn from_bytes(mut bytes: [u8; 32]) -> Self {
        let prk = Prk::extract(&bytes);
        bytes.zeroize();
        Self { prk }
    }

    /// A key of exactly 64 hexadecimal digits. Whitespace around them is left away, with a warning in the log.
    ///
    /// # Errors
    ///
    /// For everything else, and for 32 equal bytes. The error never holds a part of the text.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let (bytes, trimmed) = key_text::parse(text)?;
        if trimmed {
            tracing::warn!("there is whitespace around a master key; it was left away");
        }
        Ok(Self { prk: Prk::extract(&bytes) })
    }

    /// The key that an environment variable holds, in the form of [`from_hex`](Self::from_hex). Reading it switches
    /// nothing on: a cache is encrypted because it is built with [`Secure`](crate::Secure).
    ///
    /// # Errors
    ///
    /// When the variable is not set, is empty, is not UTF-8, or is not a key.
    ///
    /// # Security
    ///
    /// The operating system keeps the environment of a process in its memory, where this cannot erase it.
    pub fn from_env(name: &str) -> Result<Self, KeyError> {
        Self::from_hex(&variable(name)?)
    }

    pub(crate) fn prk(&self) -> &Prk {
        &self.prk
    }

    pub(crate) fn into_prk(self) -> Prk {
        self.prk
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.prk.fingerprint()
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(..)")
    }
}

/// The text of a variable that has to be set to something.
pub(crate) fn variable(name: &str) -> Result<Zeroizing<String>, KeyError> {
    let value = std::env::var_os(name).ok_or(KeyError::NotSet)?;
    let bytes = Zeroizing::new(value.into_encoded_bytes());
    if bytes.is_empty() {
        return Err(KeyError::SetButEmpty);
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(error) => Err(KeyError::NotUtf8 { length: bytes.len(), position: error.valid_up_to() }),
    }
}
