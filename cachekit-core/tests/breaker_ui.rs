//! What the compiler refuses, so that no test at run time has to.
#![cfg(all(feature = "breaker", not(cachekit_loom)))]

/// S02, S03, S04 and S06 (values that are no count or no duration), S08 (another configuration type), S65 (a second
/// report).
#[test]
fn s02_s03_s04_s06_s08_s65_are_compile_errors() {
    trybuild::TestCases::new().compile_fail("tests/ui_breaker/*.rs");
}
