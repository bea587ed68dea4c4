//! What a failure says: who is to blame, what was expected, and which sentence of the contract it is.

use cachekit_conformance::{Blame, CHECKS, Check, Target, run_all};
use cachekit_core::ErrorKind;
use cachekit_core::testing::{Corruption, Faults, FaultyBackend, MemoryBackend, Op};

fn check(name: &str) -> &'static Check {
    let index = CHECKS.iter().position(|check| check.name() == name);
    &CHECKS[index.unwrap_or(CHECKS.len())]
}

fn failing(faults: &Faults) -> Target {
    let faults = faults.clone();
    Target::new(move || {
        let backend = FaultyBackend::with_faults(MemoryBackend::new(), &faults);
        async move { backend }
    })
}

#[tokio::test]
async fn a_broken_sentence_is_the_backends() {
    let faults = Faults::new();
    faults.corrupt(Corruption::Truncate);
    let failure = check("set_overwrites").run(&failing(&faults)).await.unwrap_err();
    assert_eq!((failure.blame(), failure.check()), (Blame::Backend, "set_overwrites"));
    assert_eq!(
        failure.to_string(),
        "backend: a key that was set again: `get` has to give b\"one\", and gave b\"o\"\n  the contract: `set` stores \
         the value whatever was there before (set_overwrites)"
    );
    assert_eq!(format!("{failure:?}"), failure.to_string(), "a test that returns it prints it like this");
}

#[tokio::test]
async fn an_error_that_nobody_asked_for_is_the_backends() {
    let faults = Faults::new();
    faults.fail_all(Op::Set, ErrorKind::ReadOnly);
    let failure = check("set_then_get").run(&failing(&faults)).await.unwrap_err();
    assert!(failure.to_string().starts_with("backend: set of \"ck"), "{failure}");
    assert!(failure.text().contains("failed with read_only: injected into Set"), "{failure}");
}

#[tokio::test]
async fn a_panic_is_the_backends() {
    let faults = Faults::new();
    faults.panic_next(Op::Health);
    let failure = check("health_answers").run(&failing(&faults)).await.unwrap_err();
    assert!(failure.to_string().starts_with("backend: it panicked: injected into Health"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn silence_is_the_backends() {
    let faults = Faults::new();
    faults.hang(Op::Get);
    let failure = check("missing_key_is_none").run(&failing(&faults)).await.unwrap_err();
    assert!(failure.to_string().contains("did not answer within 15s"), "{failure}");
}

#[tokio::test]
async fn a_closure_that_panics_is_the_suites() {
    let target = Target::new(|| async {
        if MemoryBackend::new().is_empty() {
            panic!("no server on port 6379");
        }
        MemoryBackend::new()
    });
    let report = run_all(&target).await;
    assert_eq!(report.failures().count(), CHECKS.len());
    assert!(report.failures().all(|failure| failure.blame() == Blame::Suite));
    let text = report.to_string();
    assert!(text.starts_with("suite: no backend was made: no server on port 6379 (values_of_all_bytes)"), "{text}");
    assert!(text.ends_with(&format!("0 passed, {} failed", CHECKS.len())), "{text}");
}
