//! The contract of `Backend`, sentence by sentence: see `cachekit-conformance`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cachekit_conformance::{Target, conformance, run_all};
use cachekit_core::BackendFactory;
use cachekit_redb::RedbFactory;
use std::sync::LazyLock;
use tempfile::TempDir;

// One file for all checks, which run at the same time and have keys of their own.
static DIRECTORY: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());

fn factory() -> RedbFactory {
    RedbFactory::new(DIRECTORY.path().join("cache.redb"))
}

conformance!(redb, || async { factory().build().await.unwrap() });

/// Suites that run at the same time on one durable store do not see each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_share_one_file() {
    let target = Target::new(|| async { factory().build().await.unwrap() });
    let (one, two) = tokio::join!(run_all(&target), run_all(&target));
    assert!(one.is_clean() && two.is_clean(), "{one}\n{two}");
}
