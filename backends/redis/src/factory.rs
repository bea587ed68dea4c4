//! From a configuration or a URL to a backend.

use crate::RedisConfig;
use crate::backend::{NAME, RedisBackend};
use crate::supervisor::Supervisor;
use crate::url::{SCHEMES, parse};
use cachekit_core::{Backend, BackendError, BackendFactory, BackendUrl, Registry, async_trait};
use std::sync::Arc;

/// Connects when the cache first needs it.
#[derive(Clone, Debug)]
pub struct RedisFactory {
    config: RedisConfig,
}

impl RedisFactory {
    /// A factory of backends with this configuration. Nothing is contacted; what is wrong with the configuration is
    /// found by [`build`](BackendFactory::build).
    #[must_use]
    pub fn new(config: RedisConfig) -> Self {
        Self { config }
    }

    /// A factory for a URL; see the [crate](crate) for its form and options.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](cachekit_core::ErrorKind::ConfigInvalid) that names what is wrong, and never the password.
    pub fn from_url(url: &BackendUrl) -> Result<Self, BackendError> {
        Ok(Self::new(parse(url)?))
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &RedisConfig {
        &self.config
    }
}

#[async_trait]
impl BackendFactory for RedisFactory {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Dials once, and waits for the answer to a PING. From then on the backend keeps the connection by itself.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](cachekit_core::ErrorKind::Unavailable) when nobody answers within
    /// [`connect_timeout`](RedisConfig::connect_timeout),
    /// [`AuthenticationFailed`](cachekit_core::ErrorKind::AuthenticationFailed) for a wrong or a missing password,
    /// [`Overloaded`](cachekit_core::ErrorKind::Overloaded) while the server loads its data or has its most clients,
    /// [`ConfigInvalid`](cachekit_core::ErrorKind::ConfigInvalid) for a setting, a certificate or a database that is
    /// wrong, and without a Tokio runtime.
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        self.config.validate()?;
        Ok(Arc::new(RedisBackend::new(Supervisor::start(self.config.clone()).await?)))
    }
}

/// Registers the schemes `redis` and `redis+unix`, and those of the features: `rediss`, `redis+cluster`,
/// `redis+sentinel`.
///
/// # Errors
///
/// [`ConfigInvalid`](cachekit_core::ErrorKind::ConfigInvalid) when a scheme is taken.
pub fn register(registry: &mut Registry) -> Result<(), BackendError> {
    for (scheme, compiled_in) in SCHEMES {
        if compiled_in {
            registry.register(scheme, |url| Ok(Arc::new(RedisFactory::from_url(url)?)))?;
        }
    }
    Ok(())
}
