//! The names of the rows. One tree holds all kinds, apart by their first byte, so that no key of a user, whatever it
//! holds, meets a chunk, the index or the journal.

use std::ops::RangeInclusive;

const CHUNK: u8 = b'c';
const DUE: u8 = b'd';
const ENTRY: u8 = b'e';
/// What all rows of the journal begin with.
pub(crate) const JOURNAL: [u8; 1] = [b'j'];

/// Tells the chunks of one write from those of every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteId(pub(crate) [u8; 16]);

/// The row of an entry: its header, and its value or the manifest of its chunks.
pub(crate) fn entry(key: &str) -> Vec<u8> {
    [&[ENTRY], key.as_bytes()].concat()
}

/// The key that an entry's row belongs to; `None` when the row is of another kind or no text.
pub(crate) fn key_of_entry(row: &[u8]) -> Option<&str> {
    std::str::from_utf8(row.strip_prefix(&[ENTRY])?).ok()
}

/// One part of a value that is too large for one row.
pub(crate) fn chunk(write: WriteId, index: u32) -> Vec<u8> {
    [&[CHUNK], &write.0[..], &index.to_be_bytes()].concat()
}

/// The row that names chunks which are being written or removed.
pub(crate) fn journal(change: WriteId) -> Vec<u8> {
    [&JOURNAL[..], &change.0].concat()
}

/// The row of the index that says when a key's entry ends.
pub(crate) fn due(deadline_ms: u64, key: &str) -> Vec<u8> {
    [&[DUE], &deadline_ms.to_be_bytes()[..], key.as_bytes()].concat()
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
            assert!(!row.starts_with(b"c"));
        }
        assert_eq!(key_of_entry(&chunk(WriteId([0; 16]), 0)), None);
    }
}
