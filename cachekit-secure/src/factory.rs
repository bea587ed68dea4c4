//! A factory whose backends are wrapped.

use crate::door::Door;
use crate::{KeyringError, Secure, SecureBackend};
use cachekit_core::{Backend, BackendError, BackendFactory, async_trait};
use std::sync::Arc;

/// Wraps any factory: what it builds is wrapped in a [`SecureBackend`].
///
/// A cache over it has ciphertext in its L2 and plaintext in its L1: give the cache itself the [`Secure`] to have
/// ciphertext in both.
#[derive(Debug)]
pub struct SecureFactory<F> {
    inner: F,
    door: Door,
}

impl<F: BackendFactory> SecureFactory<F> {
    /// Wraps a factory.
    ///
    /// # Errors
    ///
    /// When the ring is not usable.
    pub fn new(inner: F, secure: &Secure) -> Result<Self, KeyringError> {
        Ok(Self { inner, door: Door::new(secure.entry_sealer()?) })
    }

    /// Binds all entries to this namespace. Default: the empty one.
    #[must_use]
    pub fn with_namespace(mut self, namespace: &str) -> Self {
        self.door.namespace = namespace.into();
        self
    }

    /// Binds all entries to this tenant, whatever their keys say. Default: what [`Secure::tenant`] finds, or the empty
    /// one.
    #[must_use]
    pub fn with_tenant(mut self, tenant: &str) -> Self {
        self.door.tenant = Some(tenant.into());
        self
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<F: BackendFactory> BackendFactory for SecureFactory<F> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        Ok(Arc::new(SecureBackend::with_door(self.inner.build().await?, self.door.clone())))
    }
}
