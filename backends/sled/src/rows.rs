//! The names of the rows. One tree holds both kinds, apart by their first byte, so that no key of a user, whatever it
//! holds, meets the index.

use std::ops::{Bound, RangeInclusive};

const DUE: u8 = b'd';
const ENTRY: u8 = b'e';

/// Tells the file of one write from those of every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteId(pub(crate) [u8; 16]);

impl WriteId {
    pub(crate) fn to_hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    pub(crate) fn from_hex(name: &str) -> Option<Self> {
        let id = Self(u128::from_str_radix(name, 16).ok()?.to_be_bytes());
        (id.to_hex() == name).then_some(id)
    }
}

/// The row of an entry: its header, and its value or what its file has to hold.
pub(crate) fn entry(key: &str) -> Vec<u8> {
    [&[ENTRY], key.as_bytes()].concat()
}

/// The key that an entry's row belongs to; `None` when the row is of another kind or no text.
pub(crate) fn key_of_entry(row: &[u8]) -> Option<&str> {
    std::str::from_utf8(row.strip_prefix(&[ENTRY])?).ok()
}

/// The row of the index that says when a key's entry ends.
pub(crate) fn due(deadline_ms: u64, key: &str) -> Vec<u8> {
    [&[DUE], &deadline_ms.to_be_bytes()[..], key.as_bytes()].concat()
}

/// Every row of an entry behind this one; all of them without one.
pub(crate) fn entries_behind(row: Option<&[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let start = row.map_or(Bound::Included(vec![ENTRY]), |row| Bound::Excluded(row.to_vec()));
    (start, Bound::Excluded(vec![ENTRY + 1]))
}

/// Every row of the index up to and including this deadline, the earliest first.
pub(crate) fn due_until(deadline_ms: u64) -> RangeInclusive<Vec<u8>> {
    // No text holds the byte 0xFF.
    vec![DUE]..=[&[DUE], &deadline_ms.to_be_bytes()[..], &[0xFF]].concat()
}

/// The deadline and the key of a row of the index.
pub(crate) fn parse_due(row: &[u8]) -> Option<(u64, &str)> {
    let (deadline, key) = row.strip_prefix(&[DUE])?.split_first_chunk()?;
    Some((u64::from_be_bytes(*deadline), std::str::from_utf8(key).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_index_are_ordered_by_deadline() {
        let range = due_until(300);
        for (deadline, inside) in [(0, true), (255, true), (256, true), (300, true), (301, false), (u64::MAX, false)] {
            for key in ["a", "\u{10FFFF}\u{10FFFF}", "\0"] {
                assert_eq!(range.contains(&due(deadline, key)), inside, "{deadline} {key:?}");
                assert_eq!(parse_due(&due(deadline, key)), Some((deadline, key)));
            }
        }
    }

    #[test]
    fn no_key_reaches_into_another_kind_of_row() {
        for key in ["c", "d\0\0\0\0\0\0\0\0x", "e", "\0", "c0123456789abcdef\0\0\0\0"] {
            let row = entry(key);
            assert_eq!(key_of_entry(&row), Some(key));
            assert!(parse_due(&row).is_none());
        }
        assert_eq!(key_of_entry(&due(1, "k")), None);
    }

    #[test]
    fn an_id_is_a_name_of_one_spelling() {
        let id = WriteId(*b"0123456789abcde\xFF");
        assert_eq!(WriteId::from_hex(&id.to_hex()), Some(id));
        for other in ["", "0", "+0000000000000000000000000000001", "ABCDEF00000000000000000000000000", "g"] {
            assert_eq!(WriteId::from_hex(other), None, "{other}");
        }
    }
}
