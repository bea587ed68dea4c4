//! The kit on backends that are wrong on purpose: each fails exactly the checks that are recorded for it.

#![expect(clippy::panic, clippy::unwrap_used, reason = "test code, which Clippy knows only inside a test function")]

mod batches;
mod calls;
mod clears;
mod dropped;
mod entries;
mod keys;
mod locks;
mod messages;
mod table;
mod times;
mod touches;
mod tracking;
mod twist;
mod values;

use cachekit_conformance::{Blame, CHECKS, Target, run_all};
use futures_util::stream::{self, StreamExt};
use std::collections::BTreeSet;
use table::{Case, WRONG};

/// How many backends are tested at the same time: most of their checks wait.
const AT_ONCE: usize = 20;

/// What is wrong with the outcome of a case; nothing when it failed as recorded.
async fn surprise(case: &Case) -> Option<String> {
    let make = case.make;
    let report = run_all(&Target::new(move || async move { make() })).await;
    let failed: BTreeSet<&str> = report.failures().map(|failure| failure.check()).collect();
    let recorded: BTreeSet<&str> = case.fails.iter().copied().collect();
    let blames_the_suite = report.failures().any(|failure| failure.blame() == Blame::Suite);
    (failed != recorded || blames_the_suite).then(|| format!("{}: fails {failed:?}\n{report}\n", case.name))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fails_exactly_what_is_recorded_for_it() {
    // Tasks of their own: on one thread they would stop each other's clocks.
    let runs: Vec<_> = WRONG.iter().map(|case| async { tokio::spawn(surprise(case)).await.unwrap() }).collect();
    let surprises: Vec<String> =
        stream::iter(runs).buffer_unordered(AT_ONCE).filter_map(|surprise| async { surprise }).collect().await;
    assert!(surprises.is_empty(), "{} surprises\n{}", surprises.len(), surprises.join("\n"));
}

#[test]
fn every_check_is_failed_by_some_backend() {
    let failed: BTreeSet<&str> = WRONG.iter().flat_map(|case| case.fails).copied().collect();
    let checks: BTreeSet<&str> = CHECKS.iter().map(|check| check.name()).collect();
    assert_eq!(failed, checks);
}

/// Those that no backend can break without breaking another sentence too.
const NEVER_ALONE: [&str; 0] = [];

#[test]
fn every_check_is_failed_alone_by_some_backend() {
    let alone: BTreeSet<&str> =
        WRONG.iter().filter(|case| case.fails.len() == 1).flat_map(|case| case.fails).copied().collect();
    let checks = CHECKS.iter().map(|check| check.name());
    let never: Vec<&str> = checks.filter(|name| !alone.contains(name)).collect();
    assert_eq!(never, NEVER_ALONE);
}

#[test]
fn names_are_distinct() {
    let names: BTreeSet<&str> = WRONG.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), WRONG.len());
}
