//! The wrapper keeps the contract of every backend, in each of its configurations.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit_conformance::conformance;
use cachekit_core::testing::{FaultyBackend, MemoryBackend, MemoryFactory};
use cachekit_core::{Backend, BackendFactory};
use cachekit_secure::{Compression, Padding, SecureBackend, SecureFactory};
use std::sync::Arc;
use support::{master, secure};

conformance!(sealed_memory, || async { SecureBackend::new(MemoryBackend::new(), &secure()).unwrap() });

conformance!(with_everything, || async {
    let secure = secure()
        .fail_closed()
        .compression(Compression::lz4())
        .padding(Padding::powers_of_two())
        .hide_key_names(master(9))
        .tenant(|key| key.split(':').next().unwrap_or_default().into());
    SecureBackend::new(MemoryBackend::new(), &secure).unwrap().with_namespace("users")
});

conformance!(behind_an_arc, || async {
    let inner = Arc::new(FaultyBackend::new(MemoryBackend::new())) as Arc<dyn Backend>;
    Arc::new(SecureBackend::new(inner, &secure()).unwrap().with_tenant("acme")) as Arc<dyn Backend>
});

conformance!(from_a_factory, || async {
    let factory = SecureFactory::new(MemoryFactory::new(&MemoryBackend::new()), &secure()).unwrap();
    factory.with_namespace("users").build().await.unwrap()
});
