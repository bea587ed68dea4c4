//! A plain entry: `header ++ xxh3-64(header ++ u32 key length ++ stored key ++ payload)(u64) ++ payload`.
//!
//! The checksum binds the key, so that another key's bytes are a miss.

use super::Header;
use crate::key::Key;
use bytes::{Buf, Bytes};
use xxhash_rust::xxh3::Xxh3;

const CHECKSUM_LEN: usize = 8;
/// What comes before the payload.
pub(crate) const OVERHEAD: usize = Header::LEN + CHECKSUM_LEN;

/// The entry of a payload that stands behind [`OVERHEAD`] bytes of room.
pub(crate) fn finish(mut buffer: Vec<u8>, header: &Header, key: &Key) -> Bytes {
    let header = header.to_bytes();
    let checksum = checksum(&header, key, &buffer[OVERHEAD..]);
    buffer[..Header::LEN].copy_from_slice(&header);
    buffer[Header::LEN..OVERHEAD].copy_from_slice(&checksum.to_be_bytes());
    buffer.into()
}

/// The header and the payload of stored bytes, if they are an entry of this key: not damaged, not of a future version,
/// not another key's.
pub(crate) fn read(mut bytes: Bytes, key: &Key) -> Option<(Header, Bytes)> {
    if bytes.len() < OVERHEAD {
        return None;
    }
    let header = Header::parse(&bytes, super::Suite::Plain)?;
    let header_bytes = bytes.split_to(Header::LEN);
    let stored_checksum = bytes.get_u64();
    (checksum(&header_bytes, key, &bytes) == stored_checksum).then_some((header, bytes))
}

fn checksum(header: &[u8], key: &Key, payload: &[u8]) -> u64 {
    let key = key.stored().as_bytes();
    let mut hash = Xxh3::new();
    hash.update(header);
    // A stored key has at most 1,024 bytes.
    hash.update(&u32::try_from(key.len()).unwrap_or(u32::MAX).to_be_bytes());
    hash.update(key);
    hash.update(payload);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Kind, Suite, Untimely};
    use crate::key::Scope;

    const GOLDEN: &str = "c1500100000101000000000700000199c82cc00000000199c82f09f000000199c83153e03bc029042f23087482a36167651ea46e616d65a5616c696365";
    const WRITTEN_AT: u64 = 1_760_000_000_000;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    fn key() -> Key {
        Scope::of_namespace("users").unwrap().key("42").unwrap()
    }

    fn header() -> Header {
        Header {
            suite: Suite::Plain,
            flags: 0,
            kind: Kind::Value,
            format: 1,
            schema_version: 7,
            written_at: WRITTEN_AT,
            fresh_until: WRITTEN_AT + 150_000,
            expires_at: WRITTEN_AT + 300_000,
        }
    }

    fn read_one(bytes: Vec<u8>) -> Option<(Header, Bytes)> {
        read(bytes.into(), &key())
    }

    #[test]
    fn the_golden_entry_is_written_and_read() {
        let payload = hex("82a36167651ea46e616d65a5616c696365");
        let mut bytes = vec![0; OVERHEAD];
        bytes.extend_from_slice(&payload);
        assert_eq!(finish(bytes, &header(), &key()), hex(GOLDEN));
        assert_eq!(read_one(hex(GOLDEN)), Some((header(), payload.into())));
    }

    #[test]
    fn cut_at_every_length_it_is_corrupt() {
        for len in 0..hex(GOLDEN).len() {
            assert_eq!(read_one(hex(GOLDEN)[..len].to_vec()), None, "{len} bytes");
        }
    }

    #[test]
    fn with_any_bit_flipped_it_is_corrupt() {
        for bit in 0..hex(GOLDEN).len() * 8 {
            let mut bytes = hex(GOLDEN);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_one(bytes), None, "bit {bit}");
        }
    }

    #[test]
    fn another_key_another_schema_and_other_times_are_refused() {
        let other = Scope::of_namespace("users").unwrap().key("43").unwrap();
        assert_eq!(read(hex(GOLDEN).into(), &other), None);
        let check = |schema_version, now| header().check(schema_version, now);
        assert_eq!(check(8, WRITTEN_AT), Err(Untimely::OtherSchema));
        assert_eq!(check(7, WRITTEN_AT + 299_999), Ok(()));
        assert_eq!(check(7, WRITTEN_AT + 300_000), Err(Untimely::Expired));
        assert_eq!(check(7, WRITTEN_AT - 30_000), Ok(()));
        assert_eq!(check(7, WRITTEN_AT - 30_001), Err(Untimely::FromTheFuture));
    }

    #[test]
    fn a_future_version_suite_flag_or_kind_is_refused_even_with_a_right_checksum() {
        for (at, value) in [(2, 2), (3, 1), (4, 1), (5, 0), (5, 3), (5, 4), (7, 1)] {
            let mut bytes = hex(GOLDEN);
            bytes[at] = value;
            let sum = checksum(&bytes[..Header::LEN], &key(), &bytes[OVERHEAD..]);
            bytes[Header::LEN..OVERHEAD].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(read_one(bytes), None, "byte {at} = {value}");
        }
    }
}
