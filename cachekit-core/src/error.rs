//! What went wrong at the boundary between core and a backend.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// What went wrong, whoever found it. Shared by [`BackendError`] and, with the feature `cache`, by `Error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server refused the credentials.
    AuthenticationFailed,
    /// The circuit breaker did not admit the call; nothing was contacted.
    CircuitOpen,
    /// The backend or the cache was closed.
    Closed,
    /// A setting is wrong: a URL, a bound, a certificate, or a runtime that is missing.
    ConfigInvalid,
    /// Stored bytes could not be decoded, or a value could not be encoded.
    Decode,
    /// A sealed entry did not authenticate.
    DecryptionAuthentication,
    /// A bug: a panic that was caught, or a broken invariant.
    Internal,
    /// The key is empty, too long, or holds a control character.
    KeyInvalid,
    /// Somebody else holds it: a database opened by another process, a key being computed by this very call.
    Locked,
    /// No room left to store the value.
    OutOfSpace,
    /// The server is there but refuses work for now (loading, busy, a limit reached).
    Overloaded,
    /// The credentials are good but do not allow this operation.
    PermissionDenied,
    /// The peer answered something that is not its protocol.
    Protocol,
    /// The server accepts no writes.
    ReadOnly,
    /// No answer in time.
    Timeout,
    /// The value is larger than what the backend or the cache holds.
    TooLarge,
    /// The time to live is zero.
    TtlInvalid,
    /// The backend cannot be reached.
    Unavailable,
    /// The backend cannot do this; a capability bit says so beforehand.
    Unsupported,
}

impl ErrorKind {
    /// The kind in `snake_case`: a label of a metric, a field of a log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthenticationFailed => "authentication_failed",
            Self::CircuitOpen => "circuit_open",
            Self::Closed => "closed",
            Self::ConfigInvalid => "config_invalid",
            Self::Decode => "decode",
            Self::DecryptionAuthentication => "decryption_authentication",
            Self::Internal => "internal",
            Self::KeyInvalid => "key_invalid",
            Self::Locked => "locked",
            Self::OutOfSpace => "out_of_space",
            Self::Overloaded => "overloaded",
            Self::PermissionDenied => "permission_denied",
            Self::Protocol => "protocol",
            Self::ReadOnly => "read_only",
            Self::Timeout => "timeout",
            Self::TooLarge => "too_large",
            Self::TtlInvalid => "ttl_invalid",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
        }
    }

    /// Whether trying the same again later can succeed without anybody changing anything.
    const fn default_retry(self) -> Retry {
        match self {
            Self::Overloaded | Self::Protocol | Self::Timeout | Self::Unavailable => Retry::Temporary,
            _ => Retry::Permanent,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the same call may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Somebody has to change something first: a setting, a key, a value.
    Permanent,
    /// It may succeed by itself later.
    Temporary,
}

/// An error of a [`Backend`](crate::Backend) or a [`BackendFactory`](crate::BackendFactory).
///
/// It is cheap to clone, since everyone who waited for a shared build attempt gets the same one. Never put a secret
/// into the context or the source: a URL goes through [`BackendUrl`](crate::BackendUrl), which prints without it.
///
/// ```
/// use cachekit_core::{BackendError, ErrorKind};
///
/// let error = BackendError::new(ErrorKind::Timeout, "no answer to SET within 400 ms").maybe_applied();
/// assert_eq!(error.kind(), ErrorKind::Timeout);
/// assert!(error.is_temporary() && error.may_be_applied());
/// assert_eq!(error.to_string(), "timeout: no answer to SET within 400 ms (the write may have been applied)");
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind}: {context}{}", if *maybe_applied { " (the write may have been applied)" } else { "" })]
pub struct BackendError {
    kind: ErrorKind,
    retry: Retry,
    maybe_applied: bool,
    context: Cow<'static, str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl BackendError {
    /// An error of this kind; `context` says what was tried and what came back, in words for a person.
    ///
    /// [`Overloaded`](ErrorKind::Overloaded), [`Protocol`](ErrorKind::Protocol), [`Timeout`](ErrorKind::Timeout) and
    /// [`Unavailable`](ErrorKind::Unavailable) start as temporary, every other kind as permanent.
    pub fn new(kind: ErrorKind, context: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, retry: kind.default_retry(), maybe_applied: false, context: context.into(), source: None }
    }

    /// Adds the error this one came from.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Overrides whether the same call may succeed later.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Marks a write that timed out or was cut in flight: it may have reached the store, or reach it later.
    #[must_use]
    pub fn maybe_applied(mut self) -> Self {
        self.maybe_applied = true;
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.retry == Retry::Temporary
    }

    /// Whether a write that failed may nevertheless have reached the store.
    #[must_use]
    pub fn may_be_applied(&self) -> bool {
        self.maybe_applied
    }

    /// What was tried and what came back.
    #[must_use]
    pub fn context(&self) -> &str {
        &self.context
    }
}
