//! How the opening of an entry ended: a bounded label of a counter, and nothing that a caller is told.

use cachekit_core::OpenError;
use cachekit_core::entry::Untimely;

/// Why an entry was not opened, or that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Expired,
    FromTheFuture,
    Malformed,
    Opened,
    OtherSchema,
    Plaintext,
    TagMismatch,
    TooLarge,
    TooShort,
    Undecodable,
    UnknownKey,
}

impl Reason {
    /// All that a caller is told: whoever holds the store must not learn from us what is wrong with its bytes.
    pub(crate) const fn told(self) -> OpenError {
        match self {
            Self::Expired => OpenError::Untimely(Untimely::Expired),
            Self::FromTheFuture => OpenError::Untimely(Untimely::FromTheFuture),
            Self::OtherSchema => OpenError::Untimely(Untimely::OtherSchema),
            Self::Undecodable => OpenError::Undecodable,
            _ => OpenError::NotAuthentic,
        }
    }
}

impl From<Untimely> for Reason {
    fn from(untimely: Untimely) -> Self {
        match untimely {
            Untimely::FromTheFuture => Self::FromTheFuture,
            Untimely::OtherSchema => Self::OtherSchema,
            _ => Self::Expired,
        }
    }
}
