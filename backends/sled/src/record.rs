//! The bytes of an entry's row.
//!
//! Big-endian: `version(1)=1 shape(1) written_ms(8) deadline_ms(8) checksum(8) body`. The shape says what the body is:
//! 0 the value itself, 2 what stands in a file of its own, `write_id(16) length(8) checksum(8)`. A record's checksum
//! covers the key too, so a row under a wrong key is found out; a file's covers the whole value.

use crate::lifetime::Lifetime;
use crate::rows::WriteId;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const VERSION: u8 = 1;
const WHOLE: u8 = 0;
const FILED: u8 = 2;
/// Where the checksum stands: behind what it covers of the header.
const CHECKSUM_AT: usize = 18;
pub(crate) const HEADER_BYTES: usize = CHECKSUM_AT + 8;
const FILED_BYTES: usize = 32;

/// Which file holds a large value, and how to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filed {
    pub(crate) write: WriteId,
    pub(crate) length: u64,
    pub(crate) checksum: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    Whole(&'a [u8]),
    Filed(Filed),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) lifetime: Lifetime,
    pub(crate) body: Body<'a>,
}

impl<'a> Record<'a> {
    pub(crate) fn encode(&self, key: &str) -> Vec<u8> {
        let mut row = Vec::with_capacity(HEADER_BYTES + self.body_bytes());
        row.push(VERSION);
        row.push(if matches!(self.body, Body::Whole(_)) { WHOLE } else { FILED });
        row.extend(self.lifetime.written_ms.to_be_bytes());
        row.extend(self.lifetime.deadline_ms.to_be_bytes());
        row.extend([0; 8]);
        match self.body {
            Body::Whole(value) => row.extend(value),
            Body::Filed(filed) => {
                row.extend(filed.write.0);
                row.extend(filed.length.to_be_bytes());
                row.extend(filed.checksum.to_be_bytes());
            }
        }
        let checksum = checksum(key, &row[..CHECKSUM_AT], &row[HEADER_BYTES..]);
        row[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_be_bytes());
        row
    }

    /// `None` for everything that [`encode`](Self::encode) did not make for this key.
    pub(crate) fn decode(key: &str, row: &'a [u8]) -> Option<Self> {
        let (covered, rest) = row.split_at_checked(CHECKSUM_AT)?;
        let (stored, body) = rest.split_first_chunk()?;
        if covered[0] != VERSION || u64::from_be_bytes(*stored) != checksum(key, covered, body) {
            return None;
        }
        let (written_ms, times) = covered[2..].split_first_chunk()?;
        let deadline_ms = times.try_into().ok()?;
        let lifetime =
            Lifetime { written_ms: u64::from_be_bytes(*written_ms), deadline_ms: u64::from_be_bytes(deadline_ms) };
        let body = match covered[1] {
            WHOLE => Body::Whole(body),
            FILED => Body::Filed(Filed::decode(body)?),
            _ => return None,
        };
        Some(Self { lifetime, body })
    }

    pub(crate) fn body_bytes(&self) -> usize {
        match self.body {
            Body::Whole(value) => value.len(),
            Body::Filed(_) => FILED_BYTES,
        }
    }

    /// The file of its value, if it is a large one.
    pub(crate) fn filed(&self) -> Option<Filed> {
        match self.body {
            Body::Filed(filed) => Some(filed),
            Body::Whole(_) => None,
        }
    }
}

impl Filed {
    fn decode(body: &[u8]) -> Option<Self> {
        let (write, rest) = body.split_first_chunk()?;
        let (length, checksum) = rest.split_first_chunk()?;
        Some(Self {
            write: WriteId(*write),
            length: u64::from_be_bytes(*length),
            checksum: u64::from_be_bytes(checksum.try_into().ok()?),
        })
    }

    /// Whether this is the value that was written.
    pub(crate) fn vouches_for(&self, value: &[u8]) -> bool {
        value.len() as u64 == self.length && value_checksum(value) == self.checksum
    }
}

pub(crate) fn value_checksum(value: &[u8]) -> u64 {
    xxh3_64(value)
}

fn checksum(key: &str, header: &[u8], body: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    // The length first, so that no byte can pass from the key to what follows it.
    hasher.update(&(key.len() as u64).to_be_bytes());
    hasher.update(key.as_bytes());
    hasher.update(header);
    hasher.update(body);
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Lifetime = Lifetime { written_ms: 1_760_000_000_000, deadline_ms: 1_760_000_060_000 };

    fn records() -> [Record<'static>; 3] {
        let filed = Filed { write: WriteId([7; 16]), length: 1 << 20, checksum: 0x1234_5678 };
        [
            Record { lifetime: LIFETIME, body: Body::Whole(b"") },
            Record { lifetime: LIFETIME, body: Body::Whole(b"hello") },
            Record { lifetime: LIFETIME, body: Body::Filed(filed) },
        ]
    }

    #[test]
    fn golden_bytes() {
        let hex: String = records()[1].encode("users:42").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "010000000199c82cc00000000199c82daa603a4734dba8781fa668656c6c6f");
    }

    #[test]
    fn what_was_encoded_comes_back() {
        for record in records() {
            assert_eq!(Record::decode("k", &record.encode("k")), Some(record));
        }
    }

    #[test]
    fn every_flipped_bit_every_cut_and_every_other_key_is_found_out() {
        for record in records() {
            let row = record.encode("key");
            for bit in 0..row.len() * 8 {
                let mut flipped = row.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Record::decode("key", &flipped), None, "bit {bit}");
            }
            for len in 0..row.len() {
                assert_eq!(Record::decode("key", &row[..len]), None, "cut to {len}");
            }
            for key in ["", "ke", "key1", "Key", "yek"] {
                assert_eq!(Record::decode(key, &row), None, "{key}");
            }
        }
    }
}
