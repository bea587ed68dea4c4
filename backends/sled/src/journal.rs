//! What a row of the journal holds while chunks are being written or removed: enough for the next opener to remove the
//! ones that belong to no entry, should this process be killed meanwhile.
//!
//! `checksum(8) added(20) gone(20) key`; no chunks are zeros.

use crate::record::Chunks;
use xxhash_rust::xxh3::xxh3_64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journal<'a> {
    /// The chunks that become those of the key.
    pub(crate) added: Option<Chunks>,
    /// The chunks that were.
    pub(crate) gone: Option<Chunks>,
    pub(crate) key: &'a str,
}

impl<'a> Journal<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let encoded = |chunks: Option<Chunks>| chunks.map_or([0; 20], |chunks| chunks.encode());
        let covered = [&encoded(self.added)[..], &encoded(self.gone), self.key.as_bytes()].concat();
        [&xxh3_64(&covered).to_be_bytes()[..], &covered].concat()
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (checksum, covered) = bytes.split_first_chunk()?;
        if u64::from_be_bytes(*checksum) != xxh3_64(covered) {
            return None;
        }
        let (added, rest) = covered.split_first_chunk()?;
        let (gone, key) = rest.split_first_chunk()?;
        let decoded = |bytes| Chunks::decode(bytes).filter(|chunks| chunks.count > 0);
        Some(Self { added: decoded(added), gone: decoded(gone), key: std::str::from_utf8(key).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::WriteId;

    #[test]
    fn what_was_encoded_comes_back_and_damage_is_found_out() {
        let chunks = |byte, count| Some(Chunks { write: WriteId([byte; 16]), count });
        for (added, gone) in [(None, None), (chunks(1, 2), None), (None, chunks(3, 4)), (chunks(1, 2), chunks(3, 4))] {
            let journal = Journal { added, gone, key: "a key" };
            let bytes = journal.encode();
            assert_eq!(Journal::decode(&bytes), Some(journal));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Journal::decode(&flipped), None, "bit {bit}");
            }
        }
    }
}
