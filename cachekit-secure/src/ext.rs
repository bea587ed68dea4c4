//! `.secure(..)` on the builder of a cache.

use crate::Secure;
use cachekit_core::CacheBuilder;

/// Encrypts a cache: `use cachekit_secure::SecureExt`.
pub trait SecureExt {
    /// Seals every entry before it reaches a tier: L1 and L2 hold the same ciphertext, and a cache without an L2 holds
    /// ciphertext too. A cache that has only its factory wrapped in a [`SecureFactory`](crate::SecureFactory) still has
    /// plaintext in L1.
    ///
    /// With a bad ring the cache does not build.
    #[must_use]
    fn secure(self, secure: Secure) -> Self;
}

impl SecureExt for CacheBuilder {
    fn secure(self, secure: Secure) -> Self {
        self.sealer(secure.sealer())
    }
}
