//! The functions that are fuzzed. `tests/fuzz_corpus.rs` runs them too, over the corpus and seeded mutations of it.

mod forge;
pub mod targets;
