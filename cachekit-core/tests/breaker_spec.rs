//! The specification of the breaker, row by row: each test starts with the number of its row.
#![cfg(all(feature = "breaker", not(cachekit_loom)))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "breaker/clock.rs"]
mod clock;
#[path = "breaker/rig.rs"]
mod rig;

#[path = "breaker/spec/boundaries.rs"]
mod boundaries;
#[path = "breaker/spec/call.rs"]
mod call;
#[path = "breaker/spec/closed.rs"]
mod closed;
#[path = "breaker/spec/config.rs"]
mod config;
#[path = "breaker/spec/gauge.rs"]
mod gauge;
#[path = "breaker/spec/half_open.rs"]
mod half_open;
#[path = "breaker/spec/open.rs"]
mod open;
#[path = "breaker/spec/outcomes.rs"]
mod outcomes;
#[path = "breaker/spec/recovery.rs"]
mod recovery;
#[path = "breaker/spec/threads.rs"]
mod threads;
