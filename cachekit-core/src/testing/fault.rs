//! What can go wrong, and with which operation.

use crate::ErrorKind;
use bytes::Bytes;
use std::time::Duration;

/// An operation of a [`Backend`](crate::Backend).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `clear`
    Clear,
    /// `close`
    Close,
    /// `delete`
    Delete,
    /// `delete_many`
    DeleteMany,
    /// `exists`
    Exists,
    /// `extend`
    Extend,
    /// `get`
    Get,
    /// `get_many`
    GetMany,
    /// `health`
    Health,
    /// `publish`
    Publish,
    /// `set`
    Set,
    /// `set_many`
    SetMany,
    /// `subscribe`
    Subscribe,
    /// `touch`
    Touch,
    /// `track`
    Track,
    /// `try_lock`
    TryLock,
    /// `ttl`
    Ttl,
    /// `unlock`
    Unlock,
}

impl Op {
    /// Every operation, in alphabetical order.
    pub const ALL: [Self; 18] = [
        Self::Clear,
        Self::Close,
        Self::Delete,
        Self::DeleteMany,
        Self::Exists,
        Self::Extend,
        Self::Get,
        Self::GetMany,
        Self::Health,
        Self::Publish,
        Self::Set,
        Self::SetMany,
        Self::Subscribe,
        Self::Touch,
        Self::Track,
        Self::TryLock,
        Self::Ttl,
        Self::Unlock,
    ];

    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// Whether it brings values, which can be corrupt.
    pub(super) const fn reads_values(self) -> bool {
        matches!(self, Self::Get | Self::GetMany)
    }
}

/// What happens to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is carried out, and then reported as failed, possibly applied: the answer was lost.
    ApplyThenFail(ErrorKind),
    /// The values it brings are damaged. Only `get` and `get_many` bring any.
    Corrupt(Corruption),
    /// It takes this much longer, by Tokio's clock.
    Delay(Duration),
    /// It fails and nothing is carried out.
    Fail(ErrorKind),
    /// It is reported as done, or as a miss, and nothing is carried out. Of `get`, `set`, `delete` and `clear`.
    Lie,
    /// It never answers, not even after [`Faults::heal`](super::Faults::heal).
    Hang,
    /// It panics.
    Panic,
    /// The first half of the value is written, and the whole reported. Only `set` writes one.
    TornWrite,
    /// It brings the value of this key instead. Only `get` and `get_many` bring any.
    WrongValue(String),
}

/// How a value is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corruption {
    /// The lowest bit of the byte in the middle is flipped. An empty value stays as it is.
    FlipBit,
    /// The second half is missing.
    Truncate,
}

impl Corruption {
    pub(super) fn apply(self, value: &Bytes) -> Bytes {
        let middle = value.len() / 2;
        match self {
            Self::Truncate => value.slice(..middle),
            Self::FlipBit => {
                let mut damaged = value.to_vec();
                if let Some(byte) = damaged.get_mut(middle) {
                    *byte ^= 1;
                }
                damaged.into()
            }
        }
    }
}
