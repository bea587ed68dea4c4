//! Padding, so that a length says less.
//!
//! ```text
//! payload ++ zeros ++ u32be(bytes of padding, these four included)
//! ```

use std::num::NonZeroUsize;

/// What tells how long the padding is.
const TRAILER: usize = 4;
const SMALLEST_POWER: usize = 64;

/// Lengths that entries are padded to. Whoever reads the store then sees the bucket instead of the length; how much that
/// hides depends on how many different values share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding(Buckets);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buckets {
    MultiplesOf(NonZeroUsize),
    PowersOfTwo,
}

impl Padding {
    /// Buckets of this many bytes and their multiples.
    #[must_use]
    pub const fn multiples_of(bytes: NonZeroUsize) -> Self {
        Self(Buckets::MultiplesOf(bytes))
    }

    /// Buckets of 64, 128, 256 bytes, and so on: at most twice the length.
    #[must_use]
    pub const fn powers_of_two() -> Self {
        Self(Buckets::PowersOfTwo)
    }

    /// The length of a payload of `len` bytes after padding; `None` when that cannot be expressed.
    pub(crate) fn padded_len(self, len: usize) -> Option<usize> {
        let least = len.checked_add(TRAILER)?;
        let padded = match self.0 {
            Buckets::MultiplesOf(bytes) => least.checked_next_multiple_of(bytes.get())?,
            Buckets::PowersOfTwo => least.max(SMALLEST_POWER).checked_next_power_of_two()?,
        };
        u32::try_from(padded - len).is_ok().then_some(padded)
    }

    /// The longest payload that is no longer than `room` after padding; `None` when not even an empty one is.
    pub(crate) fn longest_in(self, room: usize) -> Option<usize> {
        let bucket = match self.0 {
            Buckets::MultiplesOf(bytes) => room - room % bytes.get(),
            Buckets::PowersOfTwo if room < SMALLEST_POWER => 0,
            Buckets::PowersOfTwo => 1 << room.ilog2(),
        };
        bucket.checked_sub(TRAILER)
    }
}

/// Pads what stands in `buffer` behind `from`; `None` when the length cannot be expressed.
pub(crate) fn pad(padding: Padding, buffer: &mut Vec<u8>, from: usize) -> Option<()> {
    let len = buffer.len() - from;
    let padded = padding.padded_len(len)?;
    let added = u32::try_from(padded - len).ok()?;
    buffer.resize(from + padded - TRAILER, 0);
    buffer.extend_from_slice(&added.to_be_bytes());
    Some(())
}

/// How long the payload in front of the padding is; `None` when there is no such padding.
pub(crate) fn unpadded_len(padded: &[u8]) -> Option<usize> {
    let trailer = padded.last_chunk::<TRAILER>()?;
    let added = usize::try_from(u32::from_be_bytes(*trailer)).ok()?;
    if added < TRAILER {
        return None;
    }
    padded.len().checked_sub(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [Padding; 3] {
        let multiples = |bytes| Padding::multiples_of(NonZeroUsize::new(bytes).unwrap());
        [multiples(1), multiples(100), Padding::powers_of_two()]
    }

    #[test]
    fn a_payload_of_any_length_comes_back() {
        for padding in both() {
            for len in 0..300 {
                let mut buffer = vec![7; 5 + len];
                pad(padding, &mut buffer, 5).unwrap();
                assert_eq!(buffer.len() - 5, padding.padded_len(len).unwrap());
                assert_eq!(unpadded_len(&buffer[5..]), Some(len));
                assert!(buffer[..5 + len].iter().all(|byte| *byte == 7));
            }
        }
    }

    #[test]
    fn the_buckets_are_the_lengths_there_are() {
        let lengths = |padding: Padding| {
            let mut all: Vec<_> = (0..250).filter_map(|len| padding.padded_len(len)).collect();
            all.dedup();
            all
        };
        assert_eq!(lengths(both()[1]), [100, 200, 300]);
        assert_eq!(lengths(both()[2]), [64, 128, 256]);
    }

    #[test]
    fn the_longest_payload_fits_and_one_more_does_not() {
        for padding in both() {
            for room in 0..700 {
                match padding.longest_in(room) {
                    Some(longest) => {
                        assert!(padding.padded_len(longest).unwrap() <= room, "{padding:?} {room}");
                        assert!(padding.padded_len(longest + 1).unwrap() > room, "{padding:?} {room}");
                    }
                    None => assert!(padding.padded_len(0).unwrap() > room, "{padding:?} {room}"),
                }
            }
        }
    }

    #[test]
    fn what_is_no_padding_is_refused() {
        for bad in [&[][..], &[0; 3], &[0; 4], &[0, 0, 0, 3], &[0, 0, 0, 5], &[0xFF; 8]] {
            assert_eq!(unpadded_len(bad), None, "{bad:?}");
        }
        assert_eq!(unpadded_len(&[0, 0, 0, 4]), Some(0));
    }

    #[test]
    fn what_cannot_be_expressed_is_refused() {
        for padding in both() {
            assert_eq!(padding.padded_len(usize::MAX), None);
            assert_eq!(padding.padded_len(usize::MAX - 4).filter(|len| *len < usize::MAX - 4), None);
        }
        let huge = Padding::multiples_of(NonZeroUsize::new(1 << 40).unwrap());
        assert_eq!(huge.padded_len(0), None);
    }
}
