//! What one call got, in words that are the same in every run.

use cachekit::{CallError, Error, Fetched, Source, Stored};
use std::time::Duration;

/// The operation timeout, which is the default's.
pub const OPERATION: Duration = Duration::from_millis(500);

/// What a busy machine may add to any bound.
pub const GRACE: Duration = Duration::from_millis(400);

/// Who waits for an answer in vain waits for at least 400 ms, and nobody else for more than 100, but for the machine.
const AT_ONCE: Duration = Duration::from_millis(350);

/// How long a call took. The later ones include the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speed {
    /// Less than 350 ms.
    AtOnce,
    /// It waited for an answer in vain, or for a connection that is given no more time than an answer.
    OneTimeout,
    /// It waited for a connection in vain.
    Connect,
}

impl Speed {
    /// Of a call that took so long.
    #[must_use]
    pub fn of(took: Duration) -> Self {
        match took {
            _ if took < AT_ONCE => Self::AtOnce,
            _ if took < OPERATION + GRACE => Self::OneTimeout,
            _ => Self::Connect,
        }
    }
}

impl Speed {
    /// As an outcome goes on that came so fast. Most came at once, so that is not said.
    #[must_use]
    pub fn after(self) -> &'static str {
        match self {
            Self::AtOnce => "",
            Self::OneTimeout => " after one timeout",
            Self::Connect => " after the connect timeout",
        }
    }

    /// What is said of outcomes of which none took longer.
    #[must_use]
    pub fn at_most(self) -> &'static str {
        match self {
            Self::AtOnce => "at once",
            Self::OneTimeout => "at most one timeout",
            Self::Connect => "at most the connect timeout",
        }
    }
}

/// What a call got, and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The outcome.
    pub words: String,
    /// The time it took.
    pub speed: Speed,
}

pub(crate) fn of_stored(stored: Stored) -> String {
    match stored {
        Stored::L1Only(reason) => format!("L1 only ({})", reason.as_str()),
        Stored::Skipped(reason) => format!("skipped ({})", reason.as_str()),
        Stored::Stored => "stored".to_owned(),
    }
}

pub(crate) fn of_deleted(deleted: &Result<bool, Error>) -> String {
    match deleted {
        Ok(true) => "deleted".to_owned(),
        Ok(false) => "nothing there".to_owned(),
        Err(error) if error.may_be_applied() => format!("error {}, may be applied", error.kind().as_str()),
        Err(error) => format!("error {}", error.kind().as_str()),
    }
}

pub(crate) fn of_fetched<V>(fetched: &Fetched<V>) -> String {
    let stored = match (fetched.source, fetched.stored) {
        (Source::L1, _) => return "hit (L1)".to_owned(),
        (Source::L2, _) => return "hit".to_owned(),
        (_, Some(stored)) => stored,
        (_, None) => return "computed".to_owned(),
    };
    match (fetched.degraded, stored) {
        (Some(why), Stored::L1Only(same) | Stored::Skipped(same)) if why == same => {
            format!("computed, {}", of_stored(stored))
        }
        (Some(why), stored) => format!("computed ({}), {}", why.as_str(), of_stored(stored)),
        (None, stored) => format!("computed, {}", of_stored(stored)),
    }
}

/// What the function said, or a panic: nothing else may reach a caller who computes.
pub(crate) fn function_error<V, E>(result: Result<V, CallError<E>>) -> E {
    match result {
        Err(CallError::Function(error)) => error,
        Err(CallError::Cache(error)) => panic!("the cache kept the function's error to itself: {error}"),
        Ok(_) => panic!("a value came from a function that has none"),
    }
}
