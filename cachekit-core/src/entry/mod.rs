//! The bytes of an entry: the one envelope, whatever backend holds it.
//!
//! An application has no use for it. A sealer does, and so does whoever looks into a store by hand.

mod header;
#[cfg(feature = "cache")]
pub(crate) mod plain;

pub use header::{FLAG_LZ4, FLAG_PADDED, FLAG_ZSTD, Header, Kind, Suite, Untimely};
