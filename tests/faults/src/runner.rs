//! Runs scenarios a few at a time: each waits most of its time, but starts servers of its own.

use crate::document::Row;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

type Body = Box<dyn Fn() -> Vec<Row> + Send + Sync>;

/// One story: servers, faults, and the rows it adds.
pub struct Scenario {
    name: String,
    body: Body,
}

impl Scenario {
    /// A story with a runtime of its own.
    pub fn new<F: Future<Output = Vec<Row>>>(
        name: impl Into<String>,
        story: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        let thread = name.clone();
        let body = move || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).thread_name(&thread).enable_all().build().expect("a runtime");
            runtime.block_on(story())
        };
        Self { name, body: Box::new(body) }
    }

    /// What it is called by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scenario").field(&self.name).finish()
    }
}

/// The rows of all scenarios in their order. What a scenario noted on its way is printed when it fails, and always for
/// the talkative.
///
/// # Errors
///
/// The names of those that panicked; the panics themselves went to the standard error.
pub fn run(scenarios: &[Scenario], at_once: usize, talkative: bool) -> Result<Vec<Row>, Vec<String>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Vec<Row>>>> = scenarios.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some(scenario) = scenarios.get(at) else { return };
                    let start = Instant::now();
                    // Named, so that what it says and how it fails can be told from the others.
                    let thread = std::thread::Builder::new().name(scenario.name.clone());
                    let rows = std::thread::scope(|own| {
                        thread.spawn_scoped(own, || (scenario.body)()).expect("a thread").join().ok()
                    });
                    if rows.is_none() || talkative {
                        print_notes(&scenario.name);
                    }
                    let ended = if rows.is_some() { "ok" } else { "FAILED" };
                    println!("{ended} {} ({:.1} s)", scenario.name, start.elapsed().as_secs_f64());
                    *results[at].lock().expect("nobody panics with it") = rows;
                }
            });
        }
    });
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for (scenario, result) in scenarios.iter().zip(results) {
        match result.into_inner().expect("nobody panicked with it") {
            Some(its) => rows.extend(its),
            None => failed.push(scenario.name.clone()),
        }
    }
    if failed.is_empty() { Ok(rows) } else { Err(failed) }
}

/// What scenarios said so far, each under its name.
static NOTES: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// A line about the scenario that runs on this thread. It is of interest when it fails.
pub(crate) fn note(text: fmt::Arguments<'_>) {
    let of = std::thread::current().name().unwrap_or("main").to_owned();
    NOTES.lock().unwrap_or_else(PoisonError::into_inner).push((of, text.to_string()));
}

fn print_notes(of: &str) {
    let notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    notes.iter().filter(|(name, _)| name == of).for_each(|(name, text)| println!("   {name}: {text}"));
}
