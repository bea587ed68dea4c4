//! From what sled says, or from how it panics, to an error of ours.

use cachekit_core::{BackendError, ErrorKind, Retry};
use std::any::Any;
use std::io;
use std::path::Path;

/// What sled was asked to do when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Open,
    Read,
    SetAside,
    /// The file of a large value, which is nothing to sled.
    StoreValue,
    Write,
}

impl Doing {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "opening",
            Self::Read => "reading",
            Self::SetAside => "setting aside",
            Self::StoreValue => "storing a value in",
            Self::Write => "writing",
        }
    }
}

/// The error for a directory that another process has open.
pub(crate) fn locked(path: &Path) -> BackendError {
    // Temporary, since an instance that is being replaced ends by itself.
    BackendError::new(ErrorKind::Locked, format!("another process has the sled database `{}` open", path.display()))
        .with_retry(Retry::Temporary)
}

/// Whether the files cannot be opened for what is in them, so that opening them again would be for nothing.
pub(crate) fn is_damage(error: &BackendError) -> bool {
    matches!(error.kind(), ErrorKind::ConfigInvalid | ErrorKind::Decode | ErrorKind::Internal)
}

/// The error for one of sled. Every message names the path: a process may have several databases.
pub(crate) fn from_sled(error: sled::Error, path: &Path, doing: Doing) -> BackendError {
    let error = match error {
        sled::Error::Io(error) => return from_io(error, path, doing),
        other => other,
    };
    let kind = match &error {
        sled::Error::Corruption { .. } => ErrorKind::Decode,
        // Another version of sled or another layout of its files.
        sled::Error::Unsupported(_) => ErrorKind::ConfigInvalid,
        _ => ErrorKind::Internal,
    };
    finish(BackendError::new(kind, describe(path, doing, &error)).with_source(error), doing)
}

/// The error for one of the file system.
pub(crate) fn from_io(error: io::Error, path: &Path, doing: Doing) -> BackendError {
    let kind = match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => ErrorKind::Decode,
        io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            ErrorKind::ConfigInvalid
        }
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        io::ErrorKind::QuotaExceeded | io::ErrorKind::StorageFull => ErrorKind::OutOfSpace,
        io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        _ => ErrorKind::Unavailable,
    };
    finish(BackendError::new(kind, describe(path, doing, &error)).with_source(error), doing)
}

/// The error for a panic of sled. It panics on damaged files, so while opening this is damage.
pub(crate) fn from_panic(payload: &(dyn Any + Send), path: &Path, doing: Doing) -> BackendError {
    let said = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    let kind = if doing == Doing::Open { ErrorKind::Decode } else { ErrorKind::Internal };
    finish(BackendError::new(kind, describe(path, doing, &format_args!("sled panicked: {said}"))), doing)
}

pub(crate) fn closed(why: &str) -> BackendError {
    BackendError::new(ErrorKind::Closed, why.to_owned())
}

fn describe(path: &Path, doing: Doing, what: &dyn std::fmt::Display) -> String {
    format!("{} the sled database `{}`: {what}", doing.as_str(), path.display())
}

fn finish(error: BackendError, doing: Doing) -> BackendError {
    if doing == Doing::Write { error.maybe_applied() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_kind_and_names_the_path() {
        let path = Path::new("/var/cache/app");
        let io = |kind| sled::Error::Io(io::Error::new(kind, "it says"));
        for (error, kind) in [
            (io(io::ErrorKind::StorageFull), ErrorKind::OutOfSpace),
            (io(io::ErrorKind::QuotaExceeded), ErrorKind::OutOfSpace),
            (io(io::ErrorKind::PermissionDenied), ErrorKind::PermissionDenied),
            (io(io::ErrorKind::ReadOnlyFilesystem), ErrorKind::ReadOnly),
            (io(io::ErrorKind::IsADirectory), ErrorKind::ConfigInvalid),
            (io(io::ErrorKind::NotADirectory), ErrorKind::ConfigInvalid),
            (io(io::ErrorKind::InvalidData), ErrorKind::Decode),
            (io(io::ErrorKind::Other), ErrorKind::Unavailable),
            (sled::Error::Corruption { at: None, bt: () }, ErrorKind::Decode),
            (sled::Error::Unsupported("old".into()), ErrorKind::ConfigInvalid),
            (sled::Error::ReportableBug("bug".into()), ErrorKind::Internal),
            (sled::Error::CollectionNotFound(sled::IVec::default()), ErrorKind::Internal),
        ] {
            let error = from_sled(error, path, Doing::Open);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains("/var/cache/app") && !error.may_be_applied(), "{error}");
        }
        assert!(from_sled(io(io::ErrorKind::StorageFull), path, Doing::Write).may_be_applied());
        assert!(!from_sled(io(io::ErrorKind::Other), path, Doing::Read).may_be_applied());
    }

    #[test]
    fn a_panic_while_opening_is_damage_and_later_a_bug() {
        let path = Path::new("/p");
        let error = from_panic(&"bad segment", path, Doing::Open);
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(error.context().contains("`/p`: sled panicked: bad segment"), "{error}");
        assert_eq!(from_panic(&String::from("x"), path, Doing::Read).kind(), ErrorKind::Internal);
        assert!(from_panic(&7, path, Doing::Write).may_be_applied());
    }
}
