//! What stands in the public interface of the backends, and what must not.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

const DRIVERS: [(&str, &str); 3] = [("memcached", "memcache"), ("redis", "redis"), ("sled", "sled")];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Everything behind `pub `, to the end of the signature, the field or the `use`. What is reachable and what is `pub` are the
/// same in this workspace: a lint sees to it.
fn public(source: &str) -> impl Iterator<Item = &str> {
    let starts = source.match_indices("pub ").map(|(at, _)| at);
    let own_line = move |at: &usize| source[..*at].rsplit('\n').next().is_none_or(|before| before.trim().is_empty());
    starts.filter(own_line).map(|at| {
        let rest = &source[at..];
        &rest[..rest.find(['{', ';', '=']).unwrap_or(rest.len())]
    })
}

/// The names that a file takes from the driver, and the driver itself.
fn of_the_driver<'a>(source: &'a str, driver: &'a str) -> Vec<&'a str> {
    let prefix = format!("use {driver}::");
    let imports = source.match_indices(&prefix).map(|(at, _)| &source[at + prefix.len()..]);
    let types = imports.flat_map(|rest| words(&rest[..rest.find(';').unwrap_or(0)]));
    types.filter(|name| name.starts_with(char::is_uppercase)).collect()
}

fn violations(source: &str, driver: &str) -> Vec<String> {
    let names = of_the_driver(source, driver);
    let path = format!("{driver}::");
    let foreign = |signature: &&str| {
        signature.contains(&path)
            || words(signature).any(|word| names.contains(&word) && !signature.starts_with("pub use"))
    };
    public(source).filter(foreign).map(str::to_owned).collect()
}

/// A new major version of a driver is then no new major version of ours.
#[test]
fn u086_no_type_of_a_driver_is_public() {
    for (backend, driver) in DRIVERS {
        let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("backends").join(backend).join("src"));
        assert!(files.len() > 5);
        for file in files {
            let found = violations(&fs::read_to_string(&file).unwrap(), driver);
            assert!(found.is_empty(), "{}: {found:?}", file.display());
        }
    }
}

#[test]
fn the_search_finds_what_it_looks_for() {
    let source = "use redis::{Cmd, aio::ConnectionLike};\npub fn a(c: Cmd) {}\npub fn b() -> redis::Value;\n    pub c: Cmd,\n\
                  pub use redis::Client;\npub(crate) fn d(c: Cmd) {}\nfn e(c: Cmd) {}\npub fn f(c: Command) {}\n";
    assert_eq!(violations(source, "redis").len(), 4, "{:?}", violations(source, "redis"));
}
