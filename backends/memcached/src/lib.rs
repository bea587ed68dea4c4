//! The memcached backend of cachekit: one server, or keys spread over many. It speaks the meta protocol, which memcached
//! has since 1.6, over plain TCP.
//!
//! # URLs
//!
//! ```text
//! memcache://host[:11211][,host[:port]...][?options]
//! ```
//!
//! `[::1]:11211` is an IPv6 address. The order of the servers does not matter; their names do, since they decide which
//! server has which key: give every process the same ones. An option that does not exist is an error that names the
//! nearest one. There are no users and no passwords, so a URL with an `@` is refused, and nothing of it is repeated.
//!
//! | option | default | effect |
//! |---|---|---|
//! | `connect_timeout_ms` | 500 | bounds finding a server, from name resolution to its first answer |
//! | `max_connections` | 32 | per server; who finds none free waits for three quarters of an operation's time |
//! | `max_idle_age_ms` | 60000 | a connection that was idle for longer is not used again |
//! | `max_value_bytes` | 1047814 | larger values are refused; for a server with another `-I`, that size less 762 |
//! | `open_after` | 3 | how many failures in a row make a server be left alone |
//! | `open_for_ms` | 1000 | for how long it is left alone before one operation tries it |
//! | `operation_timeout_ms` | 500 | an operation gets 80 % of it, and 16 ms more per MB that it sends |
//! | `resolve_every_ms` | 60000 | how often a host name in use is resolved anew; 0: only after failures |
//!
//! # What happens when a server does not do well
//!
//! All servers are contacted when the backend is built, at once and each once. One that answers is enough; when none does
//! the build fails. A server that is older than 1.6 fails the build, also beside others that are not: a cache must not
//! look as if it worked and be wrong about some of its keys.
//!
//! A key belongs to one server, and stays there: a server that is down costs its keys and no others. Nothing fails over,
//! since two servers that take turns with a key end in serving its older value.
//!
//! Each connection carries one operation, or one batch, at a time, and is closed when that fails, times out or is dropped,
//! so that no late answer meets another question. After three failures in a row all connections to a server are closed,
//! and the next operation resolves its name and dials it. If that fails, or if nothing has succeeded since the last dial,
//! the server is left alone for a second, in which operations on its keys fail at once; then one of them dials again, and
//! the others fail at once until it is through. A call that is dropped after half of its time counts as a failure. A name with several addresses means the first of them, in numerical order, that answers.
//!
//! | what happens | kind of error | may be applied |
//! |---|---|---|
//! | refused, no such name, no connection in time, all connections in use, left alone | `Unavailable` | no |
//! | the connection ends with an operation under way | `Unavailable`; a read is tried once more | writes: yes |
//! | no answer in time | `Timeout` | writes: yes |
//! | what comes back is not memcached's protocol (noise without a line end: `Timeout`) | `Protocol` | writes: yes |
//! | too many open connections | `Overloaded` | no |
//! | out of memory | `OutOfSpace`; the older value is gone | no |
//! | object too large | `TooLarge`; the older value is gone | no |
//! | another `SERVER_ERROR`, which is a proxy's | `Unavailable` | writes: yes |
//! | another `CLIENT_ERROR` | `Protocol`, permanent | no |
//! | older than 1.6, at the build | `ConfigInvalid` | no |
//!
//! - **Acknowledged writes** may be lost: memcached evicts, and forgets everything when it restarts.
//! - **Timed-out writes** may be applied later, when a server that hung goes on.
//! - **A server that comes back** after a cut from the network, without a restart, still has what it had before. Deletes
//!   that failed meanwhile were reported as failed; the cache that asked for them does not believe that server about these
//!   keys, and other processes do.
//!
//! # What is stored
//!
//! A key of at most 200 bytes, all of them visible ASCII, that does not begin with `~` is stored as it is. Any other, with
//! spaces, control characters or other letters, or longer, becomes `~1` and the SHA-256 of the key in base64url: it is
//! never cut, and no byte of it is ever a command. Values are stored as they are, without a copy of the key: what is found
//! under a key and is not that key's entry, cachekit's checksum or seal finds out.
//!
//! A time to live is sent in whole seconds, rounded up, and one more, since the server's clock ticks once in a second: an
//! entry lives for its time at least, and two seconds longer at most. cachekit's own header has the exact time, and its
//! reader keeps it. More than 30 days is sent as a moment, by this machine's clock, and may last another two seconds and
//! what the clocks differ. What would end on 2038-01-18 or later is sent as for ever: memcached acknowledges a later
//! moment, and drops the entry at once.
//!
//! A value that is larger than `max_value_bytes` is not sent; the older value is deleted instead, as memcached does itself
//! with what is larger than its own limit. The default always fits its default of 1 MiB.
//!
//! `get_many`, `set_many` and `delete_many` are one exchange with each server for 1,000 keys or 4 MiB, all servers at
//! once. A lock of the key `k` is `~L` and the SHA-256 of the key, on the server that has the key; it holds a random
//! secret, has no fence, lives for two seconds at least, and is gone when the server restarts or evicts it: it keeps
//! callers from doing the same work twice, and is no protection for what must not happen twice.
//!
//! There is no `clear`, since memcached cannot list its keys, and no `publish`. There is no TLS, no SASL, no Unix socket
//! and no server before 1.6: memcached's older protocols have none of the checks that this one relies on. Keep the servers
//! on a network of their own, or seal the entries.
//!
//! # Example
//!
//! ```no_run
//! use cachekit_core::{BackendFactory, Bytes, SetOptions};
//! use cachekit_memcached::{MemcachedConfig, MemcachedFactory};
//! use std::time::Duration;
//!
//! # async fn run() -> Result<(), cachekit_core::BackendError> {
//! let config = MemcachedConfig::servers([("cache-a.internal", 11211), ("cache-b.internal", 11211)]);
//! let backend = MemcachedFactory::new(config).build().await?;
//! let minute = SetOptions::default().with_ttl(Some(Duration::from_secs(60)));
//! backend.set("users:42", Bytes::from_static(b"Ada"), minute).await?;
//! assert_eq!(backend.get("users:42").await?, Some(Bytes::from_static(b"Ada")));
//! # Ok(())
//! # }
//! ```

mod backend;
mod batch;
mod config;
mod dial;
mod error;
mod factory;
mod key;
mod lock;
mod router;
mod server;
mod ttl;
mod url;

pub use config::MemcachedConfig;
pub use factory::{MemcachedFactory, register};
