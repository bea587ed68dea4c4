//! How a backend comes to be.

use crate::{Backend, BackendError};
use async_trait::async_trait;
use std::fmt::Debug;
use std::sync::Arc;

/// Builds a [`Backend`]: opens the file, dials the server.
///
/// # Contract
///
/// For implementors: constructing a factory does no I/O and cannot fail for want of a server. [`build`](Self::build) is
/// one attempt: it retries nothing, and returns the first error as it is. It may be called again after it failed, and
/// after a backend it built said [`Closed`](crate::ErrorKind::Closed); calls never overlap for one cache. The future may
/// be dropped at any await point, which must leave nothing behind that hinders the next attempt.
///
/// For callers: core calls it on the first operation that needs the backend, bounds it by the build timeout, catches
/// its panics and reports one failure per failed attempt to the circuit breaker.
///
/// ```
/// use cachekit_core::{Backend, BackendError, BackendFactory, async_trait};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Unreachable;
///
/// #[async_trait]
/// impl BackendFactory for Unreachable {
///     fn name(&self) -> &'static str {
///         "unreachable"
///     }
///     async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
///         Err(BackendError::new(cachekit_core::ErrorKind::Unavailable, "nobody listens"))
///     }
/// }
/// ```
#[async_trait]
pub trait BackendFactory: Debug + Send + Sync + 'static {
    /// The name of the backend it builds, as in [`Backend::name`].
    fn name(&self) -> &'static str;

    /// One attempt to build the backend.
    ///
    /// # Errors
    ///
    /// Whatever kept the backend from being built.
    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError>;
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<F: BackendFactory + ?Sized> BackendFactory for Arc<F> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    async fn build(&self) -> Result<Arc<dyn Backend>, BackendError> {
        (**self).build().await
    }
}
