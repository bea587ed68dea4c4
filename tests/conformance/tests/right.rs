//! Backends that keep the contract pass every check, alone, shared and in parallel.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cachekit_conformance::{Target, conformance, run_all};
use cachekit_core::testing::{FaultyBackend, MemoryBackend, MemoryFactory};
use cachekit_core::{Backend, BackendFactory, MigratingFactory};
use std::sync::{Arc, LazyLock};

conformance!(memory, || async { MemoryBackend::new() });

conformance!(behind_an_arc, || async { Arc::new(MemoryBackend::new()) as Arc<dyn Backend> });

conformance!(faulty_without_faults, || async { FaultyBackend::new(MemoryBackend::new()) });

conformance!(migrating, || async {
    MigratingFactory::new(MemoryFactory::default(), MemoryFactory::default()).build().await.unwrap()
});

/// U200: suites that run at the same time on one store do not see each other, and leave nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_share_one_store() {
    let store = MemoryBackend::new();
    store.insert_raw("foreign", "kept");
    let target = {
        let store = store.clone();
        Target::new(move || {
            let connection = store.clone();
            async move { connection }
        })
    };
    let (one, two) = tokio::join!(run_all(&target), run_all(&target));
    assert!(one.is_clean() && two.is_clean(), "{one}\n{two}");
    // Those of checks that closed their connection stay: it can no longer delete.
    let left: Vec<String> =
        store.keys().into_iter().filter(|key| !key.ends_with(":key") && !key.ends_with(":second")).collect();
    assert_eq!(left, ["foreign"]);
}

/// Backends on one store, so that there are others to be told of.
static SHARED: LazyLock<MemoryBackend> = LazyLock::new(MemoryBackend::new);

conformance!(on_one_store, || async { SHARED.clone() });

mod smallest;

// What only stores bytes, as the smallest third-party backend does: every optional ability is `Unsupported`.
conformance!(smallest_backend, || async { smallest::Smallest::exact() });

/// `ttl_slack` is granted: a store that is two seconds late, and says so, keeps the contract.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_slack_is_granted() {
    let report = run_all(&Target::new(|| async { smallest::Smallest::coarse() })).await;
    assert!(report.is_clean(), "{report}");
}
