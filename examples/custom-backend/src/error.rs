//! From what redb says to an error of the contract.

use cachekit_core::{BackendError, ErrorKind, Retry};
use std::io;
use std::path::Path;

pub(crate) fn error(kind: ErrorKind, context: &'static str) -> BackendError {
    BackendError::new(kind, context)
}

/// Every message names the file: a process may have several.
pub(crate) fn from_redb(path: &Path, error: redb::Error) -> BackendError {
    use redb::Error::*;
    let kind = match &error {
        Corrupted(_) => ErrorKind::Decode,
        DatabaseAlreadyOpen => ErrorKind::Locked,
        DatabaseClosed | PreviousIo => ErrorKind::Closed,
        LockProtocolMismatch | UpgradeRequired(_) => ErrorKind::ConfigInvalid,
        Io(error) => from_io(error.kind()),
        _ => ErrorKind::Internal,
    };
    let context = format!("the redb file `{}`: {error}", path.display());
    let error = BackendError::new(kind, context).with_source(error);
    // Whoever holds the file may be an instance that is being replaced.
    if kind == ErrorKind::Locked { error.with_retry(Retry::Temporary) } else { error }
}

fn from_io(kind: io::ErrorKind) -> ErrorKind {
    use io::ErrorKind::*;
    match kind {
        FileTooLarge | QuotaExceeded | StorageFull => ErrorKind::OutOfSpace,
        // Not a file of redb's.
        InvalidData | IsADirectory | NotADirectory => ErrorKind::ConfigInvalid,
        PermissionDenied => ErrorKind::PermissionDenied,
        ReadOnlyFilesystem => ErrorKind::ReadOnly,
        _ => ErrorKind::Unavailable,
    }
}
