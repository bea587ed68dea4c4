//! The README's backend is the one that passes: its text is the file that is tested here.

#[path = "heap.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is written to be read")]
mod heap;

use cachekit_conformance::conformance;

conformance!(the_readme, || async { heap::Heap::default() });

#[test]
fn the_readme_shows_this_very_backend() {
    let readme = include_str!("../../../../README.md");
    let shown =
        readme.split("```rust\n").filter_map(|block| block.split("```").next()).find(|b| b.contains("struct Heap"));
    assert_eq!(shown, Some(include_str!("heap.rs")));
}
