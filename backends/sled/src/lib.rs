//! The embedded backend of cachekit: entries in a directory on the local disk, kept by sled 0.34.7.
//!
//! It suits one process on one machine that wants its cache to be warm after a restart, with no server to run.
//!
//! # What you should know about sled
//!
//! - Its last stable release is 0.34.7, of September 2021, and this crate is pinned to it. Bugs that were found since
//!   have not been fixed in a release. Keep in it what you can lose: a cache.
//! - An acknowledged write is in memory. Up to [`flush_every`](SledConfig::flush_every) (500 ms) of writes are lost when
//!   the process is killed; none after [`close`](cachekit_core::Backend::close). On Linux sled's flush does not wait for
//!   `fsync`, so nothing is promised after a power loss or a crash of the operating system.
//! - One process has the directory open at a time. Another one gets [`Locked`](cachekit_core::ErrorKind::Locked), which
//!   names the path. Within a process everyone who names the same directory shares one database.
//! - On a damaged directory sled panics where others return errors. The panics are caught, though their messages still go
//!   to the panic hook; with `panic = "abort"` in your profile they end the process. With about one damaged directory in
//!   a thousand, where pages were being merged, it loops for ever instead: an operation, or the opening, never answers,
//!   and until the process ends the directory cannot be opened anew.
//! - Its file takes two to ten times the room of its entries, and hardly ever shrinks; what deleted ones leave is used
//!   again by later ones. Measured with values of 300 KiB: 80 to 90 MiB for 29 MiB, from the fourth overwrite of each to
//!   the 25th; 25 to 55 MiB for 6 MiB, overwritten 100 times. Kills do not add to it. An empty database has 2 MiB.
//!
//! # What it does about it
//!
//! Each row has a checksum over its key and its bytes, so damage and mix-ups are misses. A value over about 16 KiB is
//! stored in chunks, and rows change in an order that leaves an entry as it was or as it became whenever the process
//! dies. Rows and keys are so short that sled never makes a file of its own for a page: a killed process would leave
//! those for ever. After each MiB that was written a writer waits for the disk (mostly a few milliseconds, sometimes
//! tens); sled by itself took 340 MiB of memory and 560 MiB of a slow disk for 6 MiB of entries.
//!
//! Times to live are exact to 1 ms by the wall clock and survive a restart; expired entries are removed from the disk
//! every [`sweep_every`](SledConfig::sweep_every) (30 s). Blocking calls run on Tokio's blocking threads, at most 32 at
//! once ([`Execution`]). After a failed write or a panic of sled every operation is
//! [`Closed`](cachekit_core::ErrorKind::Closed), so that the cache builds the backend anew.
//!
//! Keys are any text of 1 to 1,024 bytes. Locks keep out callers in this process only, and have no fence. There is no
//! publishing.
//!
//! # Example
//!
//! ```
//! use cachekit_core::{BackendFactory, Bytes, SetOptions};
//! use cachekit_sled::{SledConfig, SledFactory};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("cache");
//! let factory = SledFactory::new(SledConfig::new(&path));
//! let backend = factory.build().await?;
//! let minute = SetOptions::default().with_ttl(Some(Duration::from_secs(60)));
//! backend.set("users:42", Bytes::from_static(b"Ada"), minute).await?;
//! backend.close().await?;
//!
//! let backend = factory.build().await?;
//! assert_eq!(backend.get("users:42").await?, Some(Bytes::from_static(b"Ada")));
//! # Ok(())
//! # }
//! ```

mod backend;
mod cancel;
mod config;
mod databases;
mod error;
mod factory;
mod journal;
mod lifetime;
mod lock;
mod record;
mod rows;
mod store;
mod sweep;
mod unique;

pub use config::{Execution, SledConfig};
pub use factory::{SledFactory, register};
