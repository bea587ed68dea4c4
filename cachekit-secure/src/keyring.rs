//! The master keys of a fleet at one time: one seals, older ones still open.

use crate::derive::Fingerprint;
use crate::key_text::KeyError;
use crate::master_key::{MasterKey, variable};
use std::fmt;

/// The most keys that only open.
const MAX_PREVIOUS: usize = 3;

/// One key that seals, and at most three older ones that only open.
///
/// To rotate, put the new key in front and the old one behind, in every process; remove the old one when
/// [`health`](crate::Secure::health) of every process says that nothing needs it any more.
///
/// ```
/// use cachekit_secure::{Keyring, MasterKey, Secure};
///
/// let (old, new) = (MasterKey::from_bytes([1; 32]), MasterKey::from_bytes([2; 32]));
/// let secure = Secure::new(Keyring::new(new).previous(old));
/// secure.check()?;
/// # Ok::<(), cachekit_secure::KeyringError>(())
/// ```
#[must_use]
pub struct Keyring {
    /// The primary, then the previous ones.
    pub(crate) keys: Vec<MasterKey>,
}

/// Why a keyring is not usable. It holds nothing of any key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The same key is among the previous ones twice. Positions count from 1.
    #[error("previous key {second} is the same as previous key {first}")]
    Duplicate {
        /// Where it stands first.
        first: usize,
        /// Where it stands again.
        second: usize,
    },
    /// The key that seals already only opened, or was removed, in this process. Rotation goes forward only, since a key
    /// that somebody retired may have been retired for a reason.
    #[error("the primary key was retired before in this process")]
    NotForward,
    /// A key of [`MasterKey::VARIABLE`] or [`Keyring::PREVIOUS_VARIABLE`] is bad.
    #[error("{}", match position {
        0 => "the primary key is bad".to_owned(),
        position => format!("previous key {position} is bad"),
    })]
    Key {
        /// 0 is the primary key, 1 the first of the previous ones.
        position: usize,
        /// What is wrong with it.
        source: KeyError,
    },
    /// The key that seals is also among the previous ones. Positions count from 1.
    #[error("previous key {position} is the primary key")]
    PrimaryAmongPrevious {
        /// Where it stands.
        position: usize,
    },
    /// There are more previous keys than an old one is ever needed for.
    #[error("{count} previous keys, where {MAX_PREVIOUS} are the most")]
    TooManyPrevious {
        /// How many there are.
        count: usize,
    },
}

impl Keyring {
    /// The environment variable of the previous keys, newest first, with commas in between.
    pub const PREVIOUS_VARIABLE: &str = "CACHEKIT_PREVIOUS_MASTER_KEYS";

    /// A ring of one key, which seals and opens.
    pub fn new(primary: MasterKey) -> Self {
        Self { keys: vec![primary] }
    }

    /// Adds an older key, which only opens. The newest first.
    pub fn previous(mut self, key: MasterKey) -> Self {
        self.keys.push(key);
        self
    }

    /// The ring that the environment holds: [`MasterKey::VARIABLE`], and [`Keyring::PREVIOUS_VARIABLE`] if it is set.
    ///
    /// # Errors
    ///
    /// When a variable is bad, or the first is not set. A variable that is set, but empty, is bad.
    pub fn from_env() -> Result<Self, KeyringError> {
        let bad = |position| move |source| KeyringError::Key { position, source };
        let mut ring = Self::new(MasterKey::from_env(MasterKey::VARIABLE).map_err(bad(0))?);
        let previous = match variable(Self::PREVIOUS_VARIABLE) {
            Err(KeyError::NotSet) => return Ok(ring),
            previous => previous.map_err(bad(1))?,
        };
        for (position, text) in (1..).zip(previous.split(',')) {
            ring = ring.previous(MasterKey::from_hex(text).map_err(bad(position))?);
        }
        ring.check()?;
        Ok(ring)
    }

    pub(crate) fn check(&self) -> Result<Vec<Fingerprint>, KeyringError> {
        let previous = self.keys.len().saturating_sub(1);
        if previous > MAX_PREVIOUS {
            return Err(KeyringError::TooManyPrevious { count: previous });
        }
        let fingerprints: Vec<_> = self.keys.iter().map(MasterKey::fingerprint).collect();
        for (second, fingerprint) in fingerprints.iter().enumerate() {
            match fingerprints[..second].iter().position(|earlier| earlier == fingerprint) {
                Some(0) => return Err(KeyringError::PrimaryAmongPrevious { position: second }),
                Some(first) => return Err(KeyringError::Duplicate { first, second }),
                None => {}
            }
        }
        Ok(fingerprints)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("previous", &self.keys.len().saturating_sub(1)).finish_non_exhaustive()
    }
}
