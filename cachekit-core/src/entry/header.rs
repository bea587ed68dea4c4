//! The 36 bytes that every entry begins with, plain or sealed.

use bytes::Buf;

/// Which protection follows the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// A checksum: it finds corruption and mix-ups, not attackers.
    Plain,
    /// Authenticated encryption, by `cachekit-secure`.
    Sealed,
}

impl Suite {
    /// The magic bytes and the suite byte. 0xC1 is the one byte that MessagePack never uses, so no foreign MessagePack
    /// document looks like an entry.
    const fn bytes(self) -> ([u8; 2], u8) {
        match self {
            Self::Plain => ([0xC1, 0x50], 0),
            Self::Sealed => ([0xC1, 0x53], 1),
        }
    }
}

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The function found nothing, and that is worth remembering.
    Absent,
    /// A value.
    Value,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Value => 1,
            Self::Absent => 2,
        }
    }
}

/// The payload was compressed with LZ4.
pub const FLAG_LZ4: u8 = 1;
/// The payload was compressed with Zstandard.
pub const FLAG_ZSTD: u8 = 2;
/// The payload was padded.
pub const FLAG_PADDED: u8 = 4;
const FLAGS: u8 = FLAG_LZ4 | FLAG_ZSTD | FLAG_PADDED;

/// The times and formats of an entry: what any node may know of it without decoding it.
///
/// ```text
/// magic(2) version(1) suite(1) flags(1) kind(1) format(1) 0(1)
/// schema_version(u32) written_at(u64 ms) fresh_until(u64 ms) expires_at(u64 ms, MAX = never)      big-endian
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "the layout is frozen: another field is another version")]
pub struct Header {
    /// Which protection follows.
    pub suite: Suite,
    /// How the payload was transformed: [`FLAG_LZ4`], [`FLAG_ZSTD`], [`FLAG_PADDED`]. A plain entry has none.
    pub flags: u8,
    /// What the entry holds.
    pub kind: Kind,
    /// The wire format: 0 raw, 1 MessagePack with named fields, 2 JSON, from 128 a codec of the user's.
    pub format: u8,
    /// The version of the user's types.
    pub schema_version: u32,
    /// When it was written, in milliseconds since the Unix epoch.
    pub written_at: u64,
    /// Until when nobody needs to refresh it, likewise.
    pub fresh_until: u64,
    /// From when it must not be served, likewise; `u64::MAX`: never.
    pub expires_at: u64,
}

/// Why an authentic entry may not be served. Each is a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Untimely {
    /// Its time has passed.
    Expired,
    /// Written in the future, by a clock more than 30 s ahead of ours.
    FromTheFuture,
    /// Written under another schema version.
    OtherSchema,
}

impl Header {
    /// How many bytes a header has.
    pub const LEN: usize = 36;
    const VERSION: u8 = 1;
    /// How far the writer's clock may be ahead of ours.
    const MAX_CLOCK_SKEW_MILLIS: u64 = 30_000;

    /// The header as it is stored.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let (magic, suite) = self.suite.bytes();
        bytes[..2].copy_from_slice(&magic);
        bytes[2..7].copy_from_slice(&[Self::VERSION, suite, self.flags, self.kind.byte(), self.format]);
        bytes[8..12].copy_from_slice(&self.schema_version.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.written_at.to_be_bytes());
        bytes[20..28].copy_from_slice(&self.fresh_until.to_be_bytes());
        bytes[28..36].copy_from_slice(&self.expires_at.to_be_bytes());
        bytes
    }

    /// The header that stands at the beginning of these bytes, for a reader that expects this suite. `None` for
    /// everything that is not exactly what [`to_bytes`](Self::to_bytes) writes: which suite to expect is never read
    /// from the bytes.
    #[must_use]
    pub fn parse(mut bytes: &[u8], suite: Suite) -> Option<Self> {
        let (magic, suite_byte) = suite.bytes();
        if bytes.len() < Self::LEN || bytes[..4] != [magic[0], magic[1], Self::VERSION, suite_byte] || bytes[7] != 0 {
            return None;
        }
        let allowed = if suite == Suite::Plain { 0 } else { FLAGS };
        let (flags, format) = (bytes[4], bytes[6]);
        let both_compressions = flags & FLAG_LZ4 != 0 && flags & FLAG_ZSTD != 0;
        if flags & !allowed != 0 || both_compressions {
            return None;
        }
        let kind = match bytes[5] {
            1 => Kind::Value,
            2 => Kind::Absent,
            _ => return None,
        };
        bytes.advance(8);
        Some(Self {
            suite,
            flags,
            kind,
            format,
            schema_version: bytes.get_u32(),
            written_at: bytes.get_u64(),
            fresh_until: bytes.get_u64(),
            expires_at: bytes.get_u64(),
        })
    }

    /// Whether the entry may be served at this wall time by a reader of this schema version.
    ///
    /// # Errors
    ///
    /// Why it may not.
    pub const fn check(&self, schema_version: u32, now: u64) -> Result<(), Untimely> {
        if self.schema_version != schema_version {
            return Err(Untimely::OtherSchema);
        }
        if self.written_at > now.saturating_add(Self::MAX_CLOCK_SKEW_MILLIS) {
            return Err(Untimely::FromTheFuture);
        }
        if self.expires_at <= now {
            return Err(Untimely::Expired);
        }
        Ok(())
    }
}
