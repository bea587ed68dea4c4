//! The embedded backend of cachekit: entries in a directory on the local disk, kept by sled 0.34.7.
//!
//! It suits one process on one machine that wants its cache to be warm after a restart, with no server to run.
//!
//! # Options
//!
//! Of a URL: `sled:///var/cache/app?max_bytes=268435456&strict=true`. [`SledConfig`] has the same, and says more.
//!
//! | option | default | |
//! |---|---|---|
//! | `cache_capacity` | 67108864 | bytes of sled's page cache; the process uses a multiple |
//! | `execution` | `spawn_blocking` | or `inline`: faster, but blocks the thread that polls |
//! | `flush_every_ms` | 500 | how often what is in memory is written to the file: what a killed process loses at most |
//! | `max_bytes` | 1073741824 | what all live entries may take; over it, those that end soonest are removed; 0 is no limit |
//! | `max_value_bytes` | 16777216 | larger values are refused |
//! | `min_free_bytes` | 5 % of the file system, from 256 MiB to 5 GiB, at most a quarter | what stays free of it; a write that would leave less is refused |
//! | `open_timeout_ms` | 3000 | and a second for each 64 MiB of the file: what takes longer to open counts as damaged |
//! | `strict` | `false` | `true`: a damaged directory is left alone and cannot be opened |
//! | `sweep_every_ms` | 30000 | how often expired entries are removed from the disk |
//!
//! # What you should know about sled
//!
//! - Its last stable release is 0.34.7, of September 2021, and this crate is pinned to it. Bugs that were found since
//!   have not been fixed in a release. Keep in it what you can lose: a cache.
//! - An acknowledged write is in memory. Up to [`flush_every`](SledConfig::flush_every) (500 ms) of writes are lost when
//!   the process is killed; none after [`close`](cachekit_core::Backend::close). Nothing is promised after a power loss
//!   or a crash of the operating system.
//! - One process has the directory open at a time. Another one gets [`Locked`](cachekit_core::ErrorKind::Locked), which
//!   names the path. Within a process everyone who names the same directory shares one database.
//! - On damaged files sled panics where others return errors. The panics are caught, though their messages still go to
//!   the panic hook; with `panic = "abort"` in your profile they end the process. With about one damaged directory in a
//!   thousand it loops for ever instead.
//!
//! # What it does about it
//!
//! **Somebody else's directory.** A cache's directory holds a file `cachekit.lock`. One that is not empty and does not is
//! [`ConfigInvalid`](cachekit_core::ErrorKind::ConfigInvalid), and nothing in it is touched.
//!
//! **Damage.** A directory that cannot be opened for what is in it, within
//! [`open_timeout`](SledConfig::open_timeout), is renamed to `<path>.corrupt-<unix seconds>`, and an empty one takes its
//! place; so is one in which later sled finds damage, panics, returns a row that was not written so, or does not come
//! back from a call for 12 s. The operation that meets the damage fails, those after it are
//! [`Closed`](cachekit_core::ErrorKind::Closed), and the cache builds the backend anew. One such directory is kept for
//! each path; when it cannot be renamed, a mounted volume for example, its contents go into one of that name within it.
//! It is logged once as a warning, and is the detail `set_aside` of the backend's health. A thread that sled never comes
//! back from cannot be stopped: it keeps a processor busy until the process ends, is counted in the detail
//! `hung_threads`, and at eight of them nothing is opened any more; on Tokio's threads it also keeps a runtime from
//! shutting down. What another process has open is never set aside. [`strict`](SledConfig::strict) turns all of it into
//! errors of the build.
//!
//! **Large values.** A value over about 8 KiB has a file of its own below `values/`, written before its row and removed
//! after the row that replaced it has reached the disk. In sled's log they would be rewritten with every page around
//! them and take many times their room. So 100 overwrites of 6 MiB in values of 300 KiB take 6.3 MiB. A kill at any point
//! leaves the older value or the newer one; files that no row refers to are removed after the next opening. Each row has
//! a checksum over its key and its bytes, and each value one, so damage and mix-ups are misses.
//!
//! **Size.** Live bytes are counted here (`live_bytes` in the health), and kept under
//! [`max_bytes`](SledConfig::max_bytes) by removing the entries that end soonest, then those without an end, in the order
//! of their keys. When sled's file is over 64 MiB and twice its rows, they are copied into a new one in the background,
//! with reads and writes going on.
//!
//! **A full disk.** A write that would leave less than [`min_free_bytes`](SledConfig::min_free_bytes) is
//! [`OutOfSpace`](cachekit_core::ErrorKind::OutOfSpace), which for a cache is a write to L1 only; the next one that fits
//! is stored. When the disk is full nevertheless and sled itself cannot write, it writes nothing any more until it is
//! opened anew: reads go on, writes are `OutOfSpace`, and as soon as there is room the backend is `Closed` and built
//! anew. The last writes before that may be lost then; they are removed, so that none of them turns into what was there
//! before.
//!
//! Times to live are exact to 1 ms by the wall clock and survive a restart; expired entries are removed from the disk
//! every [`sweep_every`](SledConfig::sweep_every). Blocking calls run on Tokio's blocking threads, at most 32 at once
//! ([`Execution`]); opening and closing have threads of their own.
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
mod directory;
mod error;
mod evict;
mod factory;
mod failure;
mod lifetime;
mod lock;
mod opening;
mod quarantine;
mod rebuild;
mod record;
mod reopening;
mod rows;
mod space;
mod store;
mod table;
mod unique;
mod upkeep;
mod usage;
mod values;
mod watch;

pub use config::{Execution, SledConfig};
pub use factory::{SledFactory, register};

#[cfg(test)]
mod documented {
    /// The first column of a table of options.
    fn options(text: &str) -> Vec<&str> {
        let rows = text.lines().map(|line| line.trim_start_matches("//! ")).skip_while(|line| *line != "|---|---|---|");
        let rows = rows.skip(1).take_while(|line| line.starts_with("| `"));
        rows.map(|row| row.split('`').nth(1).unwrap_or_default()).collect()
    }

    #[test]
    fn the_tables_list_the_options_there_are() {
        for text in [include_str!("lib.rs"), include_str!("../README.md")] {
            assert_eq!(options(text), crate::config::OPTIONS);
        }
    }
}
