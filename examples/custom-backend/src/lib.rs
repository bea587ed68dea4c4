//! Entries in one file on the local disk, kept by redb.
//!
//! The README says what it promises; the chapter `docs/guide/custom-backend.md` of cachekit builds it step by step.
//!
//! ```
//! use cachekit_core::{BackendFactory, Bytes, SetOptions};
//! use cachekit_redb::RedbFactory;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("cache.redb");
//! let backend = RedbFactory::new(path).build().await?;
//! backend.set("users:42", Bytes::from_static(b"Ada"), SetOptions::default()).await?;
//! assert_eq!(backend.get("users:42").await?, Some(Bytes::from_static(b"Ada")));
//! # Ok(())
//! # }
//! ```

mod backend;
mod error;
mod factory;
mod store;
mod tables;

#[cfg(test)]
mod store_tests;

pub use factory::{RedbFactory, register};
