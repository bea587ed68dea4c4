//! From a configuration or a URL to a backend.

use crate::SledConfig;
use crate::backend::{NAME, SledBackend, runtime};
use crate::config::Execution;
use crate::databases::Database;
use crate::lifetime::{SystemTimes, Time};
use cachekit_core::{Backend, BackendError, BackendFactory, BackendUrl, ErrorKind, Registry, async_trait};
use std::sync::Arc;
use std::thread;
use tokio::sync::oneshot;

/// Opens the database when the cache first needs it.
///
/// All backends of one path in a process share one database; the first one's cache, flush and sweep settings hold.
#[derive(Debug)]
pub struct SledFactory {
    config: SledConfig,
    time: Arc<dyn Time>,
}

impl SledFactory {
    /// A factory of backends with this configuration. No file is touched; what is wrong with the configuration is found
    /// by [`build`](BackendFactory::build).
    ///
    /// A relative path is taken from the directory that is current now.
    #[must_use]
    pub fn new(config: SledConfig) -> Self {
        Self { config: config.with_absolute_path(), time: Arc::new(SystemTimes) }
    }

    /// A factory for `sled:///absolute/path` or `sled://relative/path`, with [options](crate#options) behind a `?`. In
    /// the path, `%XX` stands for the byte with that hexadecimal number; nothing else is special but `?`.
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when the path is empty or an option is unknown, given twice or out
    /// of bounds.
    pub fn from_url(url: &BackendUrl) -> Result<Self, BackendError> {
        let config = SledConfig::from_url(url)?;
        config.validate()?;
        Ok(Self::new(config))
    }

    /// With the clocks of a test.
    #[cfg(test)]
    pub(crate) fn with_time(mut self, time: Arc<dyn Time>) -> Self {
        self.time = time;
        self
    }
}

#[async_trait]
impl BackendFactory for SledFactory {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Creates the directory if it is missing, and opens it or joins whoever in this process has it open. A damaged one is
    /// set aside for a fresh one, unless [`SledConfig::strict`].
    ///
    /// # Errors
    ///
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) without a Tokio runtime (unless [`Execution::Inline`]), for a setting
    /// out of bounds and a path that is not a directory; [`Decode`](ErrorKind::Decode), [`Timeout`](ErrorKind::Timeout) or
    /// `ConfigInvalid` with `strict` when the directory is damaged; [`Locked`](ErrorKind::Locked) when another process
    /// has it open; [`OutOfSpace`](ErrorKind::OutOfSpace), [`PermissionDenied`](ErrorKind::PermissionDenied) and
    /// [`ReadOnly`](ErrorKind::ReadOnly) as the file system says; [`Unavailable`](ErrorKind::Unavailable) for its other
    /// errors; [`Overloaded`](ErrorKind::Overloaded) when there is no thread, or sled hangs in too many already.
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        self.config.validate()?;
        if self.config.execution() == Execution::SpawnBlocking {
            runtime()?;
        }
        let (config, time) = (self.config.clone(), self.time.clone());
        // Not `spawn_blocking`: on damaged files sled may take for ever, and the end of a runtime waits for such a job.
        // When nobody waits for the result any more, the database closes again by itself.
        let (done, opened) = oneshot::channel();
        thread::Builder::new()
            .name("cachekit-sled-open".to_owned())
            .spawn(move || done.send(Database::open(&config, time)))
            .map_err(|error| BackendError::new(ErrorKind::Overloaded, "no thread to open on").with_source(error))?;
        let database =
            opened.await.map_err(|_| BackendError::new(ErrorKind::Internal, "the opening of sled panicked"))??;
        Ok(Arc::new(SledBackend::new(database, &self.config)))
    }
}

/// Registers the scheme `sled`.
///
/// # Errors
///
/// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when the scheme is taken.
pub fn register(registry: &mut Registry) -> Result<(), BackendError> {
    registry.register("sled", |url| Ok(Arc::new(SledFactory::from_url(url)?)))
}
