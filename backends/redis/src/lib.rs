//! The Redis backend of cachekit: a single server, a cluster, or the master behind sentinels.
//!
//! # URLs
//!
//! ```text
//! redis://[[user]:password@]host[:6379][/db][?options]
//! rediss://...                                            TLS, feature `tls`
//! redis+unix://[[user]:password@]/path/of/socket[?options]
//! redis+cluster://[[user]:password@]host[:6379],host,...[?options]      feature `cluster`
//! redis+sentinel://[[user]:password@]host[:26379],host,.../name[/db][?options]      feature `sentinel`
//! ```
//!
//! `%XX` is the byte with that hexadecimal number; a `/`, `?`, `#`, `@` or `%` in a user name or a password has to be
//! written so. An option that does not exist is an error that names the nearest one. No error and no `Debug` text holds a
//! password.
//!
//! | option | default | effect |
//! |---|---|---|
//! | `ca` | the system's | a file, in PEM, of the authorities that sign servers' certificates |
//! | `client_cert`, `client_key` | none | files, in PEM, of the certificate this client shows, and its key |
//! | `client_info` | `true` | `false`: does not tell the server the library's name, for an access list without `CLIENT SETINFO` |
//! | `connect_timeout_ms` | 1000 | bounds a dial, from name resolution to the first answer |
//! | `db` | 0 | the database, instead of a number in the path |
//! | `down_wait_ms` | 50 | how long an operation waits for a connection that is being dialed |
//! | `keepalive_ms` | 15000 | idle time after which TCP asks whether the server is there, then every 5 s, 3 times; 0: never |
//! | `max_value_bytes` | 33554432 | larger values are refused; at most 536870912 |
//! | `nodelay` | `true` | `false`: small packets wait to be sent together |
//! | `operation_timeout_ms` | 500 | an operation gets 80 % of it, and 16 ms more per MB that it sends |
//! | `protocol` | 3 | RESP3, or RESP2 where the server does not know it; 2: RESP2 |
//! | `sentinel_password`, `sentinel_username` | none | the credentials for the sentinels |
//! | `tls` | `false` | encrypts connections to a cluster, or to the master and the sentinels |
//! | `user_timeout_ms` | 5000 | how long TCP waits for an acknowledgement before it gives up (Linux); 0: about 15 minutes |
//!
//! # What happens when the server does not do well
//!
//! One connection carries all operations. It is dialed when the backend is built, once: a server that is down fails the
//! build. From then on the backend keeps it: when it ends, speaks nonsense, or leaves three operations in a row without an
//! answer, it is dialed anew, after 50 ms, then twice as long each time, up to two seconds, at random around that.
//! Meanwhile an operation waits for 50 ms at most, and fails with the cause of the last dial.
//!
//! | what happens | kind of error | may be applied |
//! |---|---|---|
//! | refused, reset, no such name, no answer to a dial | `Unavailable` | no |
//! | the connection ends with an operation under way | `Unavailable`; a read is tried once more | writes: yes |
//! | no answer in time | `Timeout` | writes: yes |
//! | what comes back is not Redis's protocol | `Protocol` | writes: yes |
//! | LOADING, BUSY, CLUSTERDOWN, TRYAGAIN, MASTERDOWN, too many clients, a cluster that moves slots | `Overloaded` | no |
//! | OOM, MISCONF | `OutOfSpace` | no |
//! | READONLY | `ReadOnly`; the address is resolved anew, once a second at most | no |
//! | WRONGPASS, NOAUTH | `AuthenticationFailed`; dialed on, in case it is repaired | no |
//! | NOPERM | `PermissionDenied` | no |
//! | certificate, database number | `ConfigInvalid` | no |
//!
//! - **Cluster.** While a shard has no master, operations on its keys fail, with `Overloaded` or `Unavailable`. Others
//!   mostly work; at times the driver holds them back while it looks at the topology, and they time out. Batches are sent
//!   key by key, side by side.
//! - **Sentinels** are asked at each dial, all at once, and followed: when one names another master, the connection is
//!   replaced. What an old master acknowledged before it knew is lost, a delete too.
//! - **Restart and failover** lose what the server did not save. An acknowledged `set` may become a miss, and after a
//!   failover an acknowledged `delete` may be undone.
//! - **Timed-out writes** may be applied later, when a server that hung goes on.
//!
//! # What is stored
//!
//! Keys are any text of 1 to 65,536 bytes, as they are; values are stored as they are, with their time to live in whole
//! milliseconds, rounded up. A key that holds something else than a string is a miss, and a `set` overwrites it. `clear` is
//! SCAN and UNLINK, page by page. A lock of the key `k` is the key `{k}:lock`, and its fence `{k}:fence`, which ends 30 days
//! after the last lock; it holds back everyone who uses the same master, and is lost in a failover. `publish` and
//! `subscribe` are those of Redis; each subscription has a connection of its own. For a dead one nobody is told before
//! keepalive finds out, after half a minute.
//!
//! # Changes by others
//!
//! `track`, which `CacheBuilder::track_changes` uses, is `CLIENT TRACKING` in broadcasting mode: over RESP3 only, and not for
//! a cluster. It runs on the connection that carries the operations, so that the server leaves out what this backend changed
//! itself, and each new connection is told again. Two caches that were given one and the same backend object do not hear of
//! each other; those that have it built by a factory do. While somebody tracks, a connection that carries nothing is asked
//! once a second whether it is alive: one that is dead is noticed within 4 s, a reset or a server that ends at once. The
//! prefixes that one backend tracks may be the same, but none may be the beginning of another. The server needs to permit
//! `client|tracking`.
//!
//! # Example
//!
//! ```no_run
//! use cachekit_core::{BackendFactory, Bytes, SetOptions};
//! use cachekit_redis::{RedisConfig, RedisFactory};
//! use std::time::Duration;
//!
//! # async fn run() -> Result<(), cachekit_core::BackendError> {
//! let config = RedisConfig::server("cache.internal", 6379).with_password("hunter2");
//! let backend = RedisFactory::new(config).build().await?;
//! let minute = SetOptions::default().with_ttl(Some(Duration::from_secs(60)));
//! backend.set("users:42", Bytes::from_static(b"Ada"), minute).await?;
//! assert_eq!(backend.get("users:42").await?, Some(Bytes::from_static(b"Ada")));
//! # Ok(())
//! # }
//! ```

mod backend;
mod backoff;
mod batch;
mod channel;
mod clear;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(not(feature = "cluster"))]
#[path = "no_cluster.rs"]
mod cluster;
mod config;
mod dial;
mod error;
mod factory;
mod link;
mod lock;
mod ready;
mod reply;
mod sentinel;
mod supervisor;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod tracking;
mod url;

pub use config::{Protocol, RedisConfig};
pub use factory::{RedisFactory, register};
