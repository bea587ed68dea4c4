//! The proof that a lock was taken.

use std::fmt;

/// What [`Backend::try_lock`](crate::Backend::try_lock) hands out: whoever holds it may extend or release the lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LockToken {
    key: String,
    secret: String,
    fence: Option<u64>,
}

impl LockToken {
    /// The token of a lock on `key`. `secret` is what the store compares, and is unique per acquisition; `fence` grows
    /// with every acquisition, where the backend can promise that.
    pub fn new(key: impl Into<String>, secret: impl Into<String>, fence: Option<u64>) -> Self {
        Self { key: key.into(), secret: secret.into(), fence }
    }

    /// The key that is locked, as it was given.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What the store compares.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// A number that is larger than that of every earlier holder: hand it to the resource the lock protects.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }
}

impl fmt::Debug for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockToken").field("key", &self.key).field("fence", &self.fence).finish_non_exhaustive()
    }
}
