//! A cache over a redb file, on good days and bad ones.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod full_disk;
mod processes;
mod urls;

use cachekit::{Cache, Fetched, registry};
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

/// A cache of the namespace `n` over this file, chosen by its URL as a program would.
fn cache(path: &Path) -> Cache {
    let mut registry = registry();
    cachekit_redb::register(&mut registry).unwrap();
    let factory = registry.factory(&format!("redb://{}", path.display())).unwrap();
    // What is tested here does not depend on speed, and a busy machine has none.
    let patient = Duration::from_secs(20);
    Cache::builder("n").backend(factory).build_timeout(patient).operation_timeout(patient).build().unwrap()
}

async fn fetch(cache: &Cache, key: &str, computed: &str) -> Fetched<String> {
    cache.fetch(key, || async { Ok::<_, Infallible>(computed.to_owned()) }).await.unwrap()
}

async fn close(cache: Cache) {
    cache.close(Duration::from_secs(20)).await.unwrap();
}
