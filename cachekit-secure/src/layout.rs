//! Where the parts of a sealed entry are.
//!
//! ```text
//! header (36) ++ key id (16) ++ nonce (24) ++ ciphertext ++ tag (16)
//! ```

use crate::aead::TAG_LEN;
use crate::derive::{KEY_ID_LEN, KeyId};
use crate::reason::Reason;
use crate::xaes::{NONCE_LEN, Nonce};
use cachekit_core::entry::{Header, Suite};

const ID_END: usize = Header::LEN + KEY_ID_LEN;
/// What stands in front of the ciphertext.
pub(crate) const HEADROOM: usize = ID_END + NONCE_LEN;
/// By how much an entry is longer than its payload.
pub(crate) const OVERHEAD: usize = HEADROOM + TAG_LEN;

/// The parts of a sealed entry that are read before it is decrypted. None of them is authentic yet.
pub(crate) struct Parts {
    pub(crate) header: Header,
    pub(crate) header_bytes: [u8; Header::LEN],
    pub(crate) id: KeyId,
    pub(crate) nonce: Nonce,
    pub(crate) tag: [u8; TAG_LEN],
}

/// Bounds the size, then takes the entry apart.
pub(crate) fn parse(entry: &[u8], max_len: usize) -> Result<Parts, Reason> {
    if entry.len() > max_len {
        return Err(Reason::TooLarge);
    }
    if entry.len() < OVERHEAD {
        return Err(if Header::parse(entry, Suite::Plain).is_some() { Reason::Plaintext } else { Reason::TooShort });
    }
    let Some(header) = Header::parse(entry, Suite::Sealed) else {
        let plain = Header::parse(entry, Suite::Plain).is_some();
        return Err(if plain { Reason::Plaintext } else { Reason::Malformed });
    };
    Ok(Parts {
        header,
        header_bytes: part(entry, 0),
        id: part(entry, Header::LEN),
        nonce: part(entry, ID_END),
        tag: part(entry, entry.len() - TAG_LEN),
    })
}

/// The entry is at least [`OVERHEAD`] long, and so the part is inside.
fn part<const LEN: usize>(entry: &[u8], at: usize) -> [u8; LEN] {
    let mut part = [0; LEN];
    part.copy_from_slice(&entry[at..at + LEN]);
    part
}

/// Fills in what stands in front of the ciphertext. The buffer is at least [`HEADROOM`] long.
pub(crate) fn write_front(buffer: &mut [u8], header: &[u8; Header::LEN], id: &KeyId, nonce: &Nonce) {
    buffer[..Header::LEN].copy_from_slice(header);
    buffer[Header::LEN..ID_END].copy_from_slice(id);
    buffer[ID_END..HEADROOM].copy_from_slice(nonce);
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachekit_core::entry::Kind;

    fn header(suite: Suite) -> Header {
        let (written_at, fresh_until, expires_at) = (1, 2, 3);
        Header { suite, flags: 0, kind: Kind::Value, format: 1, schema_version: 0, written_at, fresh_until, expires_at }
    }

    fn entry(suite: Suite, len: usize) -> Vec<u8> {
        let mut entry = header(suite).to_bytes().to_vec();
        entry.extend(36..=255);
        entry.truncate(len);
        entry
    }

    fn reason(entry: &[u8], max_len: usize) -> Option<Reason> {
        parse(entry, max_len).err()
    }

    #[test]
    fn the_parts_are_where_they_are() {
        assert_eq!((HEADROOM, OVERHEAD), (76, 92));
        let entry = entry(Suite::Sealed, 93);
        let parts = parse(&entry, 93).ok().unwrap();
        assert_eq!(parts.header, header(Suite::Sealed));
        assert_eq!(parts.header_bytes, entry[..36]);
        assert_eq!((parts.id[0], parts.id[15]), (36, 51));
        assert_eq!((parts.nonce[0], parts.nonce[23]), (52, 75));
        assert_eq!((parts.tag[0], parts.tag[15]), (77, 92));
        let mut front = [0; 76];
        write_front(&mut front, &parts.header_bytes, &parts.id, &parts.nonce);
        assert_eq!(front, entry[..76]);
    }

    #[test]
    fn the_bounds_are_exact() {
        assert_eq!(reason(&entry(Suite::Sealed, 92), 92), None);
        assert_eq!(reason(&entry(Suite::Sealed, 92), 91), Some(Reason::TooLarge));
        assert_eq!(reason(&entry(Suite::Sealed, 91), 92), Some(Reason::TooShort));
        assert_eq!(reason(&[], 0), Some(Reason::TooShort));
        assert_eq!(reason(&[0xC1; 92], 92), Some(Reason::Malformed));
        assert_eq!(reason(&entry(Suite::Plain, 92), 92), Some(Reason::Plaintext));
        assert_eq!(reason(&entry(Suite::Plain, 44), 92), Some(Reason::Plaintext));
    }
}
