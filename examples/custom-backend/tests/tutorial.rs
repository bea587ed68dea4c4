//! The chapter `docs/guide/custom-backend.md` is this crate: each of its blocks of code stands in one of the files here,
//! and so does the code of the README.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

fn files(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs" || end == "toml") && !path.ends_with("tutorial.rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// The blocks of a language, each with the number of its first line.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<(usize, Vec<&'t str>)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(of) = line.strip_prefix("```") {
            let block = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
            assert!(["rust", "text", "toml"].contains(&of), "line {}: a block of {of:?}", number + 1);
            if of == language {
                blocks.push((number + 2, block));
            }
        }
    }
    blocks
}

/// Lines without what all of them are indented by.
fn dedented<'t>(lines: &[&'t str]) -> Vec<&'t str> {
    let indent = |line: &&&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.is_empty()).map(|line| indent(&line)).min().unwrap_or_default();
    lines.iter().map(|line| line.get(least..).unwrap_or_default()).collect()
}

#[test]
fn every_block_of_the_chapter_is_cut_out_of_this_crate() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let chapter = fs::read_to_string(home.join("../../docs/guide/custom-backend.md")).unwrap();
    let readme = fs::read_to_string(home.join("README.md")).unwrap();
    let mut sources = Vec::new();
    files(home, &mut sources);
    let sources: Vec<Vec<&str>> = sources.iter().map(|source| source.lines().collect()).collect();
    let (rust, toml) = (blocks(&chapter, "rust"), blocks(&chapter, "toml"));
    assert!(rust.len() > 20 && toml.len() > 1, "{} and {} blocks were found", rust.len(), toml.len());
    for (line, block) in rust.iter().chain(&toml).chain(&blocks(&readme, "rust")) {
        assert!(!block.is_empty(), "line {line}: an empty block");
        let is_here = |source: &Vec<&str>| source.windows(block.len()).any(|window| dedented(window) == *block);
        assert!(sources.iter().any(is_here), "line {line}: this is in no file of the crate:\n{}", block.join("\n"));
    }
}
