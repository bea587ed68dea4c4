//! Real servers for the tests of this project: each starts one of its own, on a port or socket nobody else has, and
//! breaks it for real.
//!
//! A server is ready when it answers its own protocol. It stops when its handle is dropped, and also when the test
//! process dies: a small shell waits for that. It writes only into a temporary directory. A server that is not
//! installed is a panic that says what to install; no test is ever skipped for it.
//!
//! `CACHE_REDIS_BIN`, `CACHE_REDIS_CLI_BIN` and `CACHE_MEMCACHED_BIN` name other binaries.
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "for tests only: a server that does not start is a failed test, and its text is the panic's"
)]

mod certificates;
mod cluster;
mod flow;
mod memcached;
mod port;
mod process;
mod proxy;
mod redis;
mod sentinel;

pub use certificates::{Certificates, Leaf};
pub use cluster::RedisCluster;
pub use memcached::{Memcached, MemcachedBuilder};
pub use port::Port;
pub use proxy::{Mode, Proxy};
pub use redis::{RedisBuilder, RedisServer};
pub use sentinel::SentinelTrio;
