//! The contract of `Backend`, sentence by sentence, on real servers: see `cachekit-conformance`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cachekit_core::{Backend, BackendFactory, BackendUrl};
use cachekit_memcached::MemcachedFactory;
use cachekit_servers::Memcached;
use std::sync::{Arc, LazyLock};

// Shared by the checks, each of which has keys of its own. They are stopped when the process ends.
static ONE: LazyLock<Memcached> = LazyLock::new(Memcached::start);
static THREE: LazyLock<[Memcached; 3]> = LazyLock::new(|| [(); 3].map(|()| Memcached::start()));

/// A machine that is busy with other tests is no reason to call a backend wrong.
const PATIENT: &str = "operation_timeout_ms=5000&connect_timeout_ms=5000";

async fn build(addresses: &[String]) -> Arc<dyn Backend> {
    let url = BackendUrl::parse(&format!("memcache://{}?{PATIENT}", addresses.join(","))).unwrap();
    MemcachedFactory::from_url(&url).unwrap().build().await.unwrap()
}

cachekit_conformance::conformance!(one, || async { build(&[ONE.address()]).await });
cachekit_conformance::conformance!(three, || async { build(&THREE.each_ref().map(Memcached::address)).await });
