//! From a configuration or a URL to a backend.

use crate::MemcachedConfig;
use crate::backend::{MemcachedBackend, NAME};
use crate::dial::Resolver;
use crate::url::{SCHEME, parse};
use cachekit_core::{Backend, BackendError, BackendFactory, BackendUrl, Registry, async_trait};
use std::sync::Arc;

/// Connects when the cache first needs it.
#[derive(Clone, Debug)]
pub struct MemcachedFactory {
    config: MemcachedConfig,
}

impl MemcachedFactory {
    /// A factory of backends with this configuration. Nothing is contacted; what is wrong with the configuration is
    /// found by [`build`](BackendFactory::build).
    #[must_use]
    pub fn new(config: MemcachedConfig) -> Self {
        Self { config }
    }

    /// A factory for a URL; see the [crate](crate) for its form and options.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](cachekit_core::ErrorKind::ConfigInvalid) that names what is wrong, and never a password.
    pub fn from_url(url: &BackendUrl) -> Result<Self, BackendError> {
        Ok(Self::new(parse(url)?))
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &MemcachedConfig {
        &self.config
    }
}

#[async_trait]
impl BackendFactory for MemcachedFactory {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Contacts all servers at once, and waits for their first answers. One that answers is enough: operations on the
    /// keys of the others fail until they are there.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](cachekit_core::ErrorKind::Unavailable) when none answers within
    /// [`connect_timeout`](MemcachedConfig::connect_timeout),
    /// [`Overloaded`](cachekit_core::ErrorKind::Overloaded) when all have their most connections,
    /// [`Protocol`](cachekit_core::ErrorKind::Protocol) when something else than memcached answers,
    /// [`ConfigInvalid`](cachekit_core::ErrorKind::ConfigInvalid) for a setting that is wrong, for a server that is older
    /// than memcached 1.6, and without a Tokio runtime.
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        self.config.validate()?;
        Ok(Arc::new(MemcachedBackend::connect(self.config.clone(), Resolver::system()).await?))
    }
}

/// Registers the scheme `memcache`.
///
/// # Errors
///
/// [`ConfigInvalid`](cachekit_core::ErrorKind::ConfigInvalid) when it is taken.
pub fn register(registry: &mut Registry) -> Result<(), BackendError> {
    registry.register(SCHEME, |url| Ok(Arc::new(MemcachedFactory::from_url(url)?)))
}
