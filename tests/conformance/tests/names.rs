//! The documentation of the trait and the kit name the same checks, and nothing stands in one alone.

use cachekit_conformance::CHECKS;
use std::collections::BTreeSet;

const TRAIT: &str = include_str!("../../../cachekit-core/src/backend/traits.rs");

/// The names in backticks in parentheses: `(one)` and `(one, two)`.
fn names_in_the_documentation() -> Vec<String> {
    let docs: Vec<&str> =
        TRAIT.lines().filter_map(|line| line.trim_start().strip_prefix("///")).map(str::trim).collect();
    let docs = docs.join(" ");
    let mut names = Vec::new();
    for parenthesis in docs.split('(').skip(1).filter_map(|rest| rest.split(')').next()) {
        let listed: Option<Vec<&str>> =
            parenthesis.split(", ").map(|name| name.strip_prefix('`')?.strip_suffix('`')).collect();
        names.extend(listed.into_iter().flatten().map(str::to_owned));
    }
    names
}

#[test]
fn every_name_is_a_check_and_every_check_is_named() {
    let documented: BTreeSet<String> = names_in_the_documentation().into_iter().collect();
    let checks: BTreeSet<String> = CHECKS.iter().map(|check| check.name().to_owned()).collect();
    let missing: Vec<_> = documented.difference(&checks).collect();
    let unknown: Vec<_> = checks.difference(&documented).collect();
    assert!(missing.is_empty(), "the documentation names checks that the kit does not have: {missing:?}");
    assert!(unknown.is_empty(), "the kit has checks that no sentence names: {unknown:?}");
    assert!(checks.len() >= 50, "the parser found too few: {checks:?}");
}

#[test]
fn no_sentence_is_checked_twice_under_one_name() {
    let names = names_in_the_documentation();
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!(names.len(), distinct.len(), "{names:?}");
    let checks: BTreeSet<&str> = CHECKS.iter().map(|check| check.name()).collect();
    assert_eq!(checks.len(), CHECKS.len());
}

#[test]
fn checks_stand_in_the_order_of_the_documentation() {
    let names: Vec<&str> = CHECKS.iter().map(|check| check.name()).collect();
    assert_eq!(names_in_the_documentation(), names);
}
