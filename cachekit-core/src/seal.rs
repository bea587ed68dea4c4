//! What a cache asks of a sealer: authenticated encryption of whole entries. `cachekit-secure` has the one there is.

use crate::entry::{Header, Untimely};
use bytes::Bytes;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::Debug;

/// Whose entry it is. All three are authenticated, so that no entry opens in the place of another.
#[derive(Clone, Copy)]
#[allow(clippy::exhaustive_structs, reason = "the layout is frozen: another field is another version")]
pub struct SealContext<'a> {
    /// The namespace of the cache; may be empty where a backend is used without a cache.
    pub namespace: &'a str,
    /// The key exactly as the backend stores it: the hidden name where names are hidden.
    pub stored_key: &'a str,
    /// The tenant; empty where there is only one.
    pub tenant: &'a str,
}

/// Where the bytes of an entry were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// This process's memory.
    L1,
    /// The backend.
    L2,
}

/// What a reader accepts. Never read from the entry.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "a reader that forgot one of these would accept too much")]
pub struct Acceptance {
    /// The longest entry, in bytes as stored.
    pub max_stored_len: usize,
    /// The wall time, in milliseconds since the Unix epoch.
    pub now: u64,
    /// The version of the reader's types.
    pub schema_version: u32,
    /// Where the entry was found; only for the counters.
    pub tier: Tier,
}

/// Seals entries when they are written and opens them when they are read.
///
/// # Contract
///
/// For implementors: an entry that [`open`](Self::open) returns is authentic, was written for exactly this context, and
/// is timely. Nothing in the entry's bytes chooses how it is read. No method blocks, and none panics, whatever the bytes
/// are. `Debug` shows no secret.
///
/// For callers: there is one place that seals and one that opens; what a tier holds came out of [`seal`](Self::seal).
/// Leave [`headroom`](Self::headroom) bytes free in front of the payload, and [`overhead`](Self::overhead) in the
/// buffer's capacity, and the payload is not copied.
pub trait Sealer: Debug + Send + Sync + 'static {
    /// Whether the sealer can be used at all; asked once, when the cache is built, which fails with this error.
    ///
    /// # Errors
    ///
    /// Why not: a bad ring of keys.
    fn check(&self) -> Result<(), Box<dyn StdError + Send + Sync>>;

    /// How many bytes to leave free in front of the payload.
    fn headroom(&self) -> usize;

    /// By how much a sealed entry is longer than its payload, padding and compression apart.
    fn overhead(&self) -> usize;

    /// Seals the payload that stands behind the headroom of `buffer`. The sealer sets `suite` and `flags` of the header.
    /// The caller checks the size of the result.
    ///
    /// # Errors
    ///
    /// Nothing was sealed, and nothing may be stored.
    fn seal(&self, context: SealContext<'_>, header: Header, buffer: Vec<u8>) -> Result<Bytes, SealError>;

    /// The header and the payload of a sealed entry, in this order: its size is bounded, its key looked up, it is
    /// authenticated, its times and its schema version are checked, it is inflated within a bound. Decrypts in place when
    /// nobody else holds the bytes, else into one copy.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    fn open(
        &self,
        context: SealContext<'_>,
        entry: Bytes,
        acceptance: Acceptance,
    ) -> Result<(Header, Bytes), OpenError>;

    /// The name to store an entry under instead of `key`, which begins with `prefix` and so does the name; `None`: names
    /// are not hidden.
    fn stored_key(&self, prefix: &str, key: &str) -> Option<String>;

    /// The tenant that a key given by the user belongs to, where the sealer was told how to find it. The tenant that a
    /// caller names itself goes first.
    fn tenant_of<'a>(&self, key: &'a str) -> Option<Cow<'a, str>>;

    /// Whether an entry that is not authentic is an error instead of a miss.
    fn fails_closed(&self) -> bool;

    /// The keys in use for a namespace, for a status page.
    fn health(&self, namespace: &str) -> SealerHealth;
}

/// Why an entry was not sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The sealer has no usable key.
    #[error("there is no usable key")]
    NoKey,
    /// The caller left too little room in front of the payload.
    #[error("the buffer has no room for the header")]
    NoRoom,
    /// The operating system gave no random bytes.
    #[error("no random bytes")]
    Randomness,
    /// The payload or a name is longer than the format can express.
    #[error("too large to seal")]
    TooLarge,
}

impl SealError {
    /// A label of a metric.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoKey => "no_key",
            Self::NoRoom => "no_room",
            Self::Randomness => "randomness",
            Self::TooLarge => "too_large",
        }
    }
}

/// Why an entry was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is not one of ours for this context, for whatever reason: there is one text for all of them, and no way to
    /// tell them apart here. A miss, or an error where [`Sealer::fails_closed`].
    #[error("the entry did not authenticate")]
    NotAuthentic,
    /// It is authentic, but does not inflate. A miss.
    #[error("the entry is authentic and cannot be decoded")]
    Undecodable,
    /// It is authentic, and may not be served any more, or not by us. A miss.
    #[error("the entry is authentic and may not be served")]
    Untimely(Untimely),
}

/// The keys of a sealer, for a status page. It holds no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealerHealth {
    /// Whether an entry that is not authentic is an error instead of a miss.
    pub fails_closed: bool,
    /// Whether the previous keys can be removed: in this process none of them has opened an entry for as long as any
    /// entry lives. `false` when there is none to remove, and when nothing was written yet.
    pub previous_keys_can_be_dropped: bool,
    /// One for each key: the one that seals, then those that only open.
    pub slots: Vec<KeySlot>,
}

/// A key of a sealer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySlot {
    /// The first 8 hexadecimal digits of the key's id for this namespace and the empty tenant.
    pub key_id: String,
    /// How many entries it has opened since the ring was installed, of all namespaces that share the ring.
    pub opened: u64,
}

impl SealerHealth {
    /// What a sealer in this mode reports.
    #[must_use]
    pub const fn new(fails_closed: bool, previous_keys_can_be_dropped: bool, slots: Vec<KeySlot>) -> Self {
        Self { fails_closed, previous_keys_can_be_dropped, slots }
    }
}

impl KeySlot {
    /// A key with this id, shortened, that has opened so many entries.
    #[must_use]
    pub const fn new(key_id: String, opened: u64) -> Self {
        Self { key_id, opened }
    }
}
