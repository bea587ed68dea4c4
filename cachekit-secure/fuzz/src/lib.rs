//! The functions that are fuzzed. `tests/fuzz_corpus.rs` runs them too, over the corpus and seeded mutations of it.

#[allow(dead_code, reason = "the tests use the other half")]
mod forge;
pub mod targets;
