//! The list of checks.

use crate::Failure;
use crate::checks;
use crate::subject::Subject;
use futures_util::future::BoxFuture;
use std::fmt;

pub(crate) type Outcome = Result<(), Failure>;

/// One check: a sentence of the contract and how to find out.
#[derive(Clone, Copy)]
pub struct Check {
    name: &'static str,
    sentence: &'static str,
    function: fn(&Subject) -> BoxFuture<'_, Outcome>,
}

impl Check {
    /// The name, as it stands in the documentation of the trait `Backend`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it enforces.
    #[must_use]
    pub const fn sentence(&self) -> &'static str {
        self.sentence
    }

    pub(crate) fn on<'a>(&self, subject: &'a Subject) -> BoxFuture<'a, Outcome> {
        (self.function)(subject)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish_non_exhaustive()
    }
}

macro_rules! list {
    (() $($group:ident $name:ident $sentence:literal;)*) => {
        /// Every check, in the order of the trait's documentation.
        pub const CHECKS: &[Check] = &[$(Check {
            name: stringify!($name),
            sentence: $sentence,
            function: |subject| Box::pin(checks::$group::$name(subject)),
        }),*];
    };
}
crate::__each_check!([list]());
