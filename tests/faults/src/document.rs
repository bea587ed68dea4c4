//! The table of all faults, as text that is the same in every run.

use crate::cell::Cell;
use std::fmt::Write as _;
use std::path::Path;

/// What one fault of one backend did.
#[derive(Clone, Debug)]
pub struct Row {
    /// The section it belongs to.
    pub backend: &'static str,
    /// The first column.
    pub fault: String,
    /// `get`, `set`, `delete`, `get_or_compute`.
    pub operations: [Cell; 4],
    /// What a process got that started meanwhile.
    pub build: Cell,
    /// How it went on.
    pub recovery: Cell,
}

/// Text that belongs to a section, and its rows.
#[derive(Clone, Debug)]
pub struct Document {
    introduction: &'static str,
    /// Title, text, and whether the rows of that title follow.
    sections: Vec<(&'static str, &'static str)>,
}

const HEAD: &str =
    "| fault | `get` | `set` | `delete` | `get_or_compute` | build | recovery |\n|---|---|---|---|---|---|---|\n";

impl Document {
    /// One that begins so.
    #[must_use]
    pub fn new(introduction: &'static str) -> Self {
        Self { introduction, sections: Vec::new() }
    }

    /// Adds a section with the rows of this backend.
    #[must_use]
    pub fn section(mut self, backend: &'static str, text: &'static str) -> Self {
        self.sections.push((backend, text));
        self
    }

    /// The whole text. Panics when a row has no section, or a section no row.
    #[must_use]
    pub fn render(&self, rows: &[Row]) -> String {
        let mut text = self.introduction.to_owned();
        for row in rows {
            let known = self.sections.iter().any(|(backend, _)| *backend == row.backend);
            assert!(known, "no section for {}", row.backend);
        }
        for (backend, says) in &self.sections {
            let _ = write!(text, "\n## {backend}\n\n{says}\n{HEAD}");
            let mut count = 0;
            for row in rows.iter().filter(|row| row.backend == *backend) {
                let Row { fault, operations: [get, set, delete, compute], build, recovery, .. } = row;
                let _ = writeln!(text, "| {fault} | {get} | {set} | {delete} | {compute} | {build} | {recovery} |");
                count += 1;
            }
            assert!(count > 0, "no row for {backend}");
        }
        text
    }

    /// Writes the text where it differs from what the file holds; the lines that changed.
    ///
    /// # Errors
    ///
    /// When the file differed.
    pub fn update(path: &Path, text: &str) -> Result<(), String> {
        let before = std::fs::read_to_string(path).unwrap_or_default();
        if before == text {
            return Ok(());
        }
        std::fs::write(path, text).expect("the document is writable");
        let mut changes = String::new();
        for (sign, of, other) in [('-', before.as_str(), text), ('+', text, before.as_str())] {
            for line in of.lines().filter(|line| !other.lines().any(|same| same == *line)) {
                let _ = writeln!(changes, "{sign} {line}");
            }
        }
        Err(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(get: &str) -> Row {
        let cell = Cell::text;
        let operations = [cell(get), cell("b"), cell("c"), cell("d")];
        Row { backend: "Store", fault: "dead".to_owned(), operations, build: cell("e"), recovery: cell("f") }
    }

    #[test]
    fn a_changed_outcome_is_written_and_reported() {
        let directory = std::env::temp_dir().join(format!("cachekit-faults-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("faults.md");
        let document = Document::new("# Title\n").section("Store", "Text.\n");
        let first = document.render(&[row("hit")]);
        assert!(first.ends_with("| dead | hit | b | c | d | e | f |\n"), "{first}");
        assert!(Document::update(&path, &first).is_err(), "there was none");
        assert_eq!(Document::update(&path, &first), Ok(()));
        let changes = Document::update(&path, &document.render(&[row("miss")])).unwrap_err();
        assert_eq!(changes, "- | dead | hit | b | c | d | e | f |\n+ | dead | miss | b | c | d | e | f |\n");
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_row_that_is_missing_is_found() {
        let document = Document::new("").section("Store", "").section("Other", "");
        let render = std::panic::AssertUnwindSafe(|| document.render(&[row("hit")]));
        assert!(std::panic::catch_unwind(render).is_err());
    }
}
