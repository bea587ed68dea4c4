//! Runs a check: a fresh backend, a bound on its time, panics caught, its keys removed afterwards.

use crate::check::Outcome;
use crate::subject::Subject;
use crate::{CHECKS, Check, Failure, Target};
use cachekit_core::Backend;
use futures_util::future::FutureExt;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// What no check comes near, not even on a slow store.
const LONGEST_CHECK: Duration = Duration::from_secs(60);
/// How long the making of a backend may take; a server may have to start.
const LONGEST_MAKE: Duration = Duration::from_secs(60);

impl Check {
    /// Runs the check on a backend that `target` makes. Needs a Tokio runtime with its timer.
    ///
    /// # Errors
    ///
    /// When the backend broke the sentence, or when the kit could not find out.
    pub async fn run(&self, target: &Target) -> Result<(), Failure> {
        self.outcome(target).await.map_err(|failure| failure.of_check(self.name(), self.sentence()))
    }

    async fn outcome(&self, target: &Target) -> Outcome {
        let subject = Subject::new(make(target).await?, target);
        let run = AssertUnwindSafe(self.on(&subject)).catch_unwind();
        let outcome = match tokio::time::timeout(LONGEST_CHECK, run).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(Failure::backend(format!("it panicked: {}", text_of(&*panic)))),
            Err(_) => Err(Failure::backend(format!("the check did not come to an end within {LONGEST_CHECK:?}"))),
        };
        // A store that is shared is left as it was found. What goes wrong here is no part of the sentence.
        let tidy = AssertUnwindSafe(subject.remove_all_keys()).catch_unwind();
        let _ = tokio::time::timeout(LONGEST_CHECK, tidy).await;
        outcome
    }
}

pub(crate) async fn make(target: &Target) -> Result<Arc<dyn Backend>, Failure> {
    // The closure itself may panic too, before there is a future.
    let made = AssertUnwindSafe(async { target.make().await }).catch_unwind();
    match tokio::time::timeout(LONGEST_MAKE, made).await {
        Ok(Ok(backend)) => Ok(backend),
        Ok(Err(panic)) => Err(Failure::suite(format!("no backend was made: {}", text_of(&*panic)))),
        Err(_) => Err(Failure::suite(format!("no backend was made within {LONGEST_MAKE:?}"))),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}

/// What the tests of [`conformance!`](crate::conformance) call. Several threads, since a store that is torn only under
/// parallel calls has to show it.
///
/// # Errors
///
/// As [`Check::run`].
pub fn run_named(name: &str, target: &Target) -> Result<(), Failure> {
    let check = CHECKS
        .iter()
        .find(|check| check.name() == name)
        .ok_or_else(|| Failure::suite(format!("there is no check {name}")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::suite(format!("no Tokio runtime: {error}")))?;
    runtime.block_on(check.run(target))
}
