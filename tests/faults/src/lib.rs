//! What the fault scenarios are made of: caches that check every answer they get, and the table that the answers become.
//!
//! A scenario lets a real server fail in one way and asks caches that stand on it. Everything a cache says is put into
//! stable words ([`Seen`]) and checked on the way: no wrong value, no value older than what the cache was told, no call
//! that takes too long, no lost or repeated run of the function. The words become the rows of `docs/faults.md`.
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::print_stdout,
    clippy::unreachable,
    clippy::unwrap_used,
    reason = "for tests only: what must not happen is a panic that says what happened"
)]

mod cell;
mod document;
mod fleet;
mod ledger;
mod load;
mod runner;
mod seen;
mod service;
mod skip_clock;
mod stage;

pub use cell::Cell;
pub use document::{Document, Row};
pub use fleet::{Answers, Fleet, Recovery};
pub use ledger::{Ledger, Value};
pub use load::{Load, Loaded};
pub use runner::{Scenario, run};
pub use seen::{GRACE, OPERATION, Seen, Speed};
pub use service::{Op, Service};
pub use skip_clock::SkipClock;
pub use stage::Stage;
