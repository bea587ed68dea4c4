//! What became of a value: where it came from, and where it went.

use serde::Serialize;
use std::time::Duration;

/// Why a call did less than it would have on a good day. The same words stand in metrics, logs and health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The backend could not be built.
    BuildFailed,
    /// The circuit was open, or half open without a free slot.
    CircuitOpen,
    /// The cache is closed.
    Closed,
    /// The stored bytes were no entry of this key, or did not decode as the type asked for.
    Decode,
    /// The entry was written under another schema version.
    OtherSchema,
    /// A read failed.
    ReadError,
    /// A read did not answer in time; the write after it was skipped.
    ReadTimeout,
    /// The value could not be sealed.
    Seal,
    /// The value did not serialize.
    Serialize,
    /// A set, delete or clear of the key came in between.
    Superseded,
    /// The value is too large.
    TooLarge,
    /// A sealed entry did not authenticate.
    Unauthentic,
    /// The key's last write may not have reached the backend, so it was not asked.
    Unsynced,
    /// A write failed.
    WriteError,
    /// A write did not answer in time; it may have been applied.
    WriteTimeout,
}

impl Reason {
    /// Every reason, in the order of [`Reason::index`].
    pub(crate) const ALL: [Self; 15] = [
        Self::BuildFailed,
        Self::CircuitOpen,
        Self::Closed,
        Self::Decode,
        Self::OtherSchema,
        Self::ReadError,
        Self::ReadTimeout,
        Self::Seal,
        Self::Serialize,
        Self::Superseded,
        Self::TooLarge,
        Self::Unauthentic,
        Self::Unsynced,
        Self::WriteError,
        Self::WriteTimeout,
    ];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// The reason in `snake_case`: a label of a metric, a field of a log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuildFailed => "build_failed",
            Self::CircuitOpen => "circuit_open",
            Self::Closed => "closed",
            Self::Decode => "decode",
            Self::OtherSchema => "other_schema",
            Self::ReadError => "read_error",
            Self::ReadTimeout => "read_timeout",
            Self::Seal => "seal",
            Self::Serialize => "serialize",
            Self::Superseded => "superseded",
            Self::TooLarge => "too_large",
            Self::Unauthentic => "unauthentic",
            Self::Unsynced => "unsynced",
            Self::WriteError => "write_error",
            Self::WriteTimeout => "write_timeout",
        }
    }
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stored {
    /// Only this process has it.
    L1Only(Reason),
    /// No tier has it, and no tier of this process serves the older value.
    Skipped(Reason),
    /// Every tier of this cache has it.
    Stored,
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The function ran, for this caller or for one that it waited for.
    Computed,
    /// This process had it.
    L1,
    /// The backend had it.
    L2,
}

impl Source {
    /// `computed`, `l1` or `l2`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Computed => "computed",
            Self::L1 => "l1",
            Self::L2 => "l2",
        }
    }
}

/// A value, and what it took to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fetched<V> {
    /// How long ago the entry was written; zero for a computed value.
    pub age: Duration,
    /// Why the L2 was of less use than on a good day.
    pub degraded: Option<Reason>,
    /// Where the value came from.
    pub source: Source,
    /// What became of a computed value; `None` for one that was in a tier already.
    pub stored: Option<Stored>,
    /// The value.
    pub value: V,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_listed_in_its_place() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert_eq!(serde_json_like(reason), reason.as_str());
        }
    }

    /// What serde calls a unit variant, without a format at hand.
    fn serde_json_like(reason: Reason) -> String {
        let bytes = rmp_serde::to_vec(&reason).unwrap();
        String::from_utf8(bytes[1..].to_vec()).unwrap()
    }
}
