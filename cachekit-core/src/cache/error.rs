//! What a cache refuses to do.

use crate::{BackendError, ErrorKind};
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::Debug;
use std::sync::Arc;

/// What a [`Cache`](crate::Cache) refused or could not do. A backend in trouble is never the reason a read or a computed
/// value is refused; only an invalidation that may not have reached it is an error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{context}")]
pub struct Error {
    kind: ErrorKind,
    maybe_applied: bool,
    context: Cow<'static, str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, maybe_applied: false, context: context.into(), source: None }
    }

    /// An invalidation that the backend did not certainly see.
    pub(crate) fn not_applied(operation: &'static str, cause: BackendError) -> Self {
        Self {
            kind: cause.kind(),
            maybe_applied: cause.may_be_applied(),
            context: format!("{operation}: not applied to the backend: {cause}").into(),
            source: Some(Arc::new(cause)),
        }
    }

    pub(crate) fn with_boxed_source(mut self, source: Box<dyn StdError + Send + Sync>) -> Self {
        self.source = Some(Arc::from(source));
        self
    }

    pub(crate) fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether a delete or clear that failed may nevertheless have reached the backend, or reach it later.
    #[must_use]
    pub fn may_be_applied(&self) -> bool {
        self.maybe_applied
    }
}

impl From<BackendError> for Error {
    /// For settings: a URL or a registration that was refused.
    fn from(error: BackendError) -> Self {
        Self {
            kind: error.kind(),
            maybe_applied: error.may_be_applied(),
            context: error.to_string().into(),
            source: Some(Arc::new(error)),
        }
    }
}

/// Why a call that runs your function gave no value.
///
/// ```
/// # use cachekit_core::{Cache, CallError};
/// # async fn example(cache: Cache) {
/// let result = cache.get_or_compute("answer", || async { Err::<u32, _>("no idea") }).await;
/// assert!(matches!(result, Err(CallError::Function("no idea"))));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum CallError<E> {
    /// The cache refused: an invalid key, a function that asked for its own key, or no runtime for the backend.
    #[error(transparent)]
    Cache(Error),
    /// Your function's own error, unchanged.
    #[error("{0}")]
    Function(#[source] E),
}

impl<E> CallError<E> {
    /// Your function's error, if it was that.
    pub fn into_function(self) -> Option<E> {
        match self {
            Self::Cache(_) => None,
            Self::Function(error) => Some(error),
        }
    }
}
