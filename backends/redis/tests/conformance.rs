//! The contract of `Backend`, sentence by sentence, on real servers: see `cachekit-conformance`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cachekit_core::BackendFactory;
use cachekit_core::{Backend, BackendUrl};
use cachekit_redis::RedisFactory;
use cachekit_servers::{Certificates, Leaf, RedisCluster, RedisServer, SentinelTrio};
use std::sync::{Arc, LazyLock};

// Shared by the checks, each of which has keys of its own. They are stopped when the process ends.
static PLAIN: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
static SOCKET: LazyLock<RedisServer> = LazyLock::new(|| RedisServer::builder().unix().password("canary").start());
static CERTIFICATES: LazyLock<Certificates> = LazyLock::new(|| Certificates::new(Leaf::Good));
static TLS: LazyLock<RedisServer> = LazyLock::new(|| RedisServer::builder().tls(&CERTIFICATES).start());
static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);
static TRIO: LazyLock<SentinelTrio> = LazyLock::new(SentinelTrio::start);

/// A machine that is busy with other tests is no reason to call a backend wrong.
const PATIENT: &str = "operation_timeout_ms=5000&connect_timeout_ms=5000&max_value_bytes=4194304";

async fn build(url: String) -> Arc<dyn Backend> {
    RedisFactory::from_url(&BackendUrl::parse(&url).unwrap()).unwrap().build().await.unwrap()
}

cachekit_conformance::conformance!(single, || build(format!("{}?{PATIENT}", PLAIN.url())));
cachekit_conformance::conformance!(resp2, || build(format!("{}?{PATIENT}&protocol=2", PLAIN.url())));
cachekit_conformance::conformance!(unix, || build(format!("{}?{PATIENT}", SOCKET.url())));
cachekit_conformance::conformance!(tls, || build(format!(
    "{}?{PATIENT}&ca={}",
    TLS.url(),
    CERTIFICATES.ca().display()
)));
cachekit_conformance::conformance!(cluster, || build(format!("{}?{PATIENT}", CLUSTER.url())));
cachekit_conformance::conformance!(sentinel, || build(format!("{}?{PATIENT}", TRIO.url())));
