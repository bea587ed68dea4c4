//! Every fault of a real server, and what a cache over it does: asserted, and written to `docs/faults.md`.
//!
//! With an argument it runs only the scenarios whose name contains it, and writes nothing.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and this one reports by itself"
)]

mod certificates;
mod failover;
mod kinds;
mod memcached;
mod memory;
mod outages;
mod refusals;
mod sled;
mod text;
mod wires;

use cachekit_faults::{Document, Scenario};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Each starts servers of its own, and waits most of its time.
const AT_ONCE: usize = 3;

fn scenarios() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    // The longest first, whose rows find their sections by themselves.
    scenarios.extend(failover::scenarios());
    scenarios.extend(outages::scenarios(kinds::REDIS));
    scenarios.extend(wires::scenarios(kinds::REDIS));
    scenarios.extend(refusals::scenarios());
    scenarios.extend(memory::scenarios());
    scenarios.extend([outages::killed_scenario(kinds::REDIS_TLS), wires::frozen_scenario(kinds::REDIS_TLS)]);
    scenarios.extend(certificates::scenarios());
    scenarios.extend(outages::scenarios(kinds::MEMCACHED));
    scenarios.extend(wires::scenarios(kinds::MEMCACHED));
    scenarios.extend(memcached::scenarios());
    scenarios.extend(sled::scenarios());
    scenarios
}

fn main() -> ExitCode {
    if memory::run_child() || sled::run_child() {
        return ExitCode::SUCCESS;
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut scenarios = scenarios();
    if let Some(wanted) = &wanted {
        scenarios.retain(|scenario| scenario.name().contains(wanted));
    }
    if std::env::args().any(|argument| argument == "--list") {
        scenarios.iter().for_each(|scenario| println!("{}: test", scenario.name()));
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    let rows = match cachekit_faults::run(&scenarios, AT_ONCE, wanted.is_some()) {
        Ok(rows) => rows,
        Err(failed) => {
            eprintln!("failed: {}", failed.join(", "));
            return ExitCode::FAILURE;
        }
    };
    println!("{} scenarios, {} rows, {:.1} s", scenarios.len(), rows.len(), start.elapsed().as_secs_f64());
    if wanted.is_some() || memory::is_by_hand() {
        return ExitCode::SUCCESS;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/faults.md");
    match Document::update(&path, &text::document().render(&rows)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(changes) => {
            eprintln!("docs/faults.md was not what happened. It is now; look at what changed:\n{changes}");
            ExitCode::FAILURE
        }
    }
}
