//! The contract of `Backend`, sentence by sentence: see `cachekit-conformance`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cachekit_core::{Backend, BackendFactory};
use cachekit_sled::{Execution, SledConfig, SledFactory};
use std::sync::Arc;

async fn fresh(execution: Execution) -> Arc<dyn Backend> {
    // The directory outlives the backend on purpose: the kit closes and drops it as it likes.
    let path = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep().join("cache");
    let config = SledConfig::new(path).with_execution(execution);
    SledFactory::new(config).build().await.unwrap()
}

cachekit_conformance::conformance!(spawn_blocking, || fresh(Execution::SpawnBlocking));
cachekit_conformance::conformance!(inline, || fresh(Execution::Inline));
