//! From a path or a URL to a backend.

use crate::backend::{RedbBackend, blocking};
use crate::error::error;
use crate::store::Store;
use cachekit_core::{Backend, BackendError, BackendFactory, BackendUrl, ErrorKind, Registry, async_trait};
use std::path::PathBuf;
use std::sync::Arc;

/// Opens the file when the cache first needs it. Within a process all backends of one path share one database, and the
/// settings of the first hold.
#[derive(Clone, Debug)]
pub struct RedbFactory {
    path: PathBuf,
    cache_bytes: usize,
}

impl RedbFactory {
    /// A factory of backends over this file, which is created when it is missing. Nothing is touched yet.
    ///
    /// A relative path is taken from the directory that is current now.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // redb's own default is 1 GiB.
        Self { path: std::path::absolute(&path).unwrap_or(path), cache_bytes: 64 << 20 }
    }

    /// How much memory redb may use for pages of the file, in bytes (default 64 MiB).
    #[must_use]
    pub fn with_cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// A factory for `redb:///absolute/path` or `redb://relative/path`, with `?cache_bytes=` if need be.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when the path is empty, or an option is wrong.
    pub fn from_url(url: &BackendUrl) -> Result<Self, BackendError> {
        let path = BackendUrl::decode(url.expose_place())?;
        if path.is_empty() {
            return Err(error(ErrorKind::ConfigInvalid, "`redb://` takes the path of a file"));
        }
        let mut factory = Self::new(path);
        for option in url.options("redb", &["cache_bytes"])? {
            factory.cache_bytes = option.bytes()?;
        }
        Ok(factory)
    }
}

#[async_trait]
impl BackendFactory for RedbFactory {
    fn name(&self) -> &'static str {
        "redb"
    }

    /// # Errors
    ///
    /// [`Locked`](ErrorKind::Locked) when another process has the file open;
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when it is no file of redb's, and without a Tokio runtime; what the
    /// file system says otherwise.
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        let Self { path, cache_bytes } = self.clone();
        let store = blocking(move |_| Store::open(&path, cache_bytes)).await?;
        Ok(Arc::new(RedbBackend::new(store)))
    }
}

/// Registers the scheme `redb`.
///
/// # Errors
///
/// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when the scheme is taken.
pub fn register(registry: &mut Registry) -> Result<(), BackendError> {
    registry.register("redb", |url| Ok(Arc::new(RedbFactory::from_url(url)?)))
}
