//! What becomes of a store when sled fails: whether it is of use any more, and whether its files are.

use crate::error::{Doing, closed, from_panic, from_sled};
use crate::store::Store;
use crate::watch::Call;
use cachekit_core::{BackendError, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What ends an attempt: sled, or a rule of ours that has nothing to do with the state of the database.
pub(crate) enum Failure {
    Refused(BackendError),
    Sled(sled::Error),
}

/// Why a store is of no use any more.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) error: BackendError,
    pub(crate) why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The files are not to be opened again: corruption, a panic, or a call that never returned.
    Damage,
    /// There was no room left. Sled answers every later write with the same error, and reads as before.
    Full,
    /// Sled keeps the first error of a write and answers every later one with it. Opening the files anew helps.
    Other,
}

impl Store {
    /// Runs something that calls sled, which panics where others return an error.
    pub(crate) fn attempt<T>(
        &self,
        doing: Doing,
        run: impl FnOnce(&Call<'_>) -> Result<T, Failure>,
    ) -> Result<T, BackendError> {
        if let Some(failed) = self.failed.get()
            && !(failed.why == Why::Full && doing == Doing::Read)
        {
            return Err(self.refusal(failed));
        }
        let call = self.calls.begin();
        match catch_unwind(AssertUnwindSafe(|| run(&call))) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(Failure::Refused(error))) => Err(error),
            Ok(Err(Failure::Sled(error))) => {
                let error = from_sled(error, self.path(), doing);
                let why = match error.kind() {
                    ErrorKind::ConfigInvalid | ErrorKind::Decode | ErrorKind::Internal => Why::Damage,
                    ErrorKind::OutOfSpace => Why::Full,
                    _ if self.space.is_scarce() => Why::Full,
                    _ => Why::Other,
                };
                if why == Why::Damage || doing == Doing::Write {
                    self.fail(error.clone(), why);
                }
                Err(error)
            }
            Err(panic) => {
                let error = from_panic(&*panic, self.path(), doing);
                self.fail(error.clone(), if self.space.is_scarce() { Why::Full } else { Why::Damage });
                Err(error)
            }
        }
    }

    /// Why nobody can use it; while the disk is full, reads can.
    pub(crate) fn failure(&self) -> Option<&Failed> {
        self.failed.get().filter(|failed| failed.why != Why::Full || self.space.is_enough_for_sled())
    }

    /// The operation that finds this out is not the worse for it, but there may be more.
    pub(crate) fn damaged(&self, what: String) {
        self.fail(BackendError::new(ErrorKind::Decode, what), Why::Damage);
    }

    /// Some call will never return. Those who wait for it are told, and nobody calls again.
    pub(crate) fn give_up(&self) {
        let what = format!("the sled database `{}` does not answer", self.path().display());
        self.fail(BackendError::new(ErrorKind::Internal, what), Why::Damage);
        self.given_up.send_replace(true);
    }

    fn fail(&self, error: BackendError, why: Why) {
        let _ = self.failed.set(Failed { error, why });
    }

    fn refusal(&self, failed: &Failed) -> BackendError {
        if failed.why == Why::Full && !self.space.is_enough_for_sled() {
            return BackendError::new(
                ErrorKind::OutOfSpace,
                format!("sled stopped when the file system of `{}` was full, and it still is", self.path().display()),
            );
        }
        closed(&format!("it failed before: {}", failed.error))
    }

    /// What happens when sled panics.
    #[cfg(test)]
    pub(crate) fn panic_inside(&self) -> BackendError {
        self.attempt::<()>(Doing::Write, |_| panic!("a test made sled panic")).unwrap_err()
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Refused(error)
    }
}

impl From<sled::Error> for Failure {
    fn from(error: sled::Error) -> Self {
        Self::Sled(error)
    }
}
