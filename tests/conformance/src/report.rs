//! All checks at once, for those who want a list instead of tests.

use crate::{CHECKS, Failure, Target};
use futures_util::stream::{self, StreamExt};
use std::fmt;

/// How many checks run at the same time: most of them wait for an entry to expire.
const AT_ONCE: usize = 16;

/// What every check found.
#[derive(Clone, Debug)]
pub struct Report {
    outcomes: Vec<(&'static str, Result<(), Failure>)>,
}

impl Report {
    /// The names of the checks that passed.
    pub fn passed(&self) -> impl Iterator<Item = &'static str> {
        self.outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(name, _)| *name)
    }

    /// What the others said.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().err())
    }

    /// Whether every check passed.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failures().next().is_none()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in self.failures() {
            writeln!(f, "{failure}")?;
        }
        write!(f, "{} passed, {} failed", self.passed().count(), self.failures().count())
    }
}

/// Runs every check, each on a backend of its own, several at the same time. Needs a Tokio runtime with its timer, and
/// one with several threads to find a store that tears values under parallel calls.
pub async fn run_all(target: &Target) -> Report {
    // Collected first: a closure that returns futures of borrowed checks is not general enough for a stream.
    let runs: Vec<_> = CHECKS.iter().map(|check| async move { (check.name(), check.run(target).await) }).collect();
    Report { outcomes: stream::iter(runs).buffered(AT_ONCE).collect().await }
}
