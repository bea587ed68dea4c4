//! Compression of the payload before it is sealed, and inflating it within a bound.
//!
//! ```text
//! u32be(inflated length) ++ LZ4 block or Zstandard frame
//! ```

use bytes::Bytes;
use std::fmt::Debug;

const PREFIX: usize = 4;
/// Below this there is nothing to gain.
const SHORTEST: usize = 64;

/// How payloads are compressed. Those that would not get shorter stay as they are.
///
/// The length of a sealed entry then depends on what is in it. Whoever can choose a part of a value and sees the lengths
/// in the store can guess at the rest of that value, byte by byte: do not compress values that hold a secret next to
/// something that comes from outside. [`Padding`](crate::Padding) makes it harder, not impossible.
#[derive(Clone, Copy, Debug)]
pub struct Compression {
    codec: &'static dyn Codec,
    level: i32,
}

impl Compression {
    /// LZ4: fast, and modest.
    #[cfg(feature = "lz4")]
    #[must_use]
    pub const fn lz4() -> Self {
        Self { codec: &crate::lz4::Lz4, level: 0 }
    }

    /// Zstandard: shorter, and slower. Levels are those of its library, 1 to 22; 3 is usual.
    #[cfg(feature = "zstd")]
    #[must_use]
    pub const fn zstd(level: i32) -> Self {
        Self { codec: &crate::zstandard::Zstandard, level }
    }

    pub(crate) fn flag(self) -> u8 {
        self.codec.flag()
    }

    /// A buffer with as much headroom and the payload of `buffer` compressed behind it, with room for what is appended;
    /// `None` where the payload is better left as it is.
    pub(crate) fn compress(self, buffer: &[u8], headroom: usize, max_inflated: usize, tail: usize) -> Option<Vec<u8>> {
        let payload = buffer.get(headroom..)?;
        if payload.len() < SHORTEST || payload.len() > max_inflated {
            return None;
        }
        let inflated_len = u32::try_from(payload.len()).ok()?;
        let at = headroom + PREFIX;
        let bound = self.codec.bound(payload.len());
        let mut compressed = Vec::with_capacity(at + bound + tail);
        compressed.resize(at + bound, 0);
        let len = self.codec.compress(payload, &mut compressed[at..], self.level)?;
        if PREFIX + len >= payload.len() {
            return None;
        }
        compressed[headroom..at].copy_from_slice(&inflated_len.to_be_bytes());
        compressed.truncate(at + len);
        Some(compressed)
    }
}

/// A compression algorithm.
pub(crate) trait Codec: Debug + Sync {
    /// Its bit in the header.
    fn flag(&self) -> u8;
    /// How long the compressed form can become.
    fn bound(&self, len: usize) -> usize;
    /// The most that `len` compressed bytes can inflate to.
    fn most(&self, len: usize) -> usize;
    /// How many bytes of `out` it took; `None` when it did not work.
    fn compress(&self, payload: &[u8], out: &mut [u8], level: i32) -> Option<usize>;
    /// How many bytes of `out` were filled; `None` when that is no such document or a longer one.
    fn inflate(&self, compressed: &[u8], out: &mut [u8]) -> Option<usize>;
}

/// Those that this build has.
static CODECS: &[&dyn Codec] = &[
    #[cfg(feature = "lz4")]
    &crate::lz4::Lz4,
    #[cfg(feature = "zstd")]
    &crate::zstandard::Zstandard,
];

/// Inflates a payload that the flags say is compressed by this algorithm. Nothing longer than `max_inflated` is
/// allocated. `None` when it does not inflate, or this build does not have the algorithm.
pub(crate) fn inflate(flag: u8, payload: &[u8], max_inflated: usize) -> Option<Bytes> {
    let codec = CODECS.iter().find(|codec| codec.flag() == flag)?;
    let (prefix, compressed) = payload.split_first_chunk::<PREFIX>()?;
    let len = bounded_len(*codec, *prefix, compressed.len(), max_inflated)?;
    let mut inflated = vec![0; len];
    (codec.inflate(compressed, &mut inflated)? == len).then(|| inflated.into())
}

/// The length that the prefix says, if it is within the bound and can come out of so many compressed bytes.
fn bounded_len(codec: &dyn Codec, prefix: [u8; PREFIX], compressed_len: usize, max_inflated: usize) -> Option<usize> {
    let len = usize::try_from(u32::from_be_bytes(prefix)).ok()?;
    (len <= max_inflated && len <= codec.most(compressed_len)).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes as many bytes of any payload as its level says, and remembers nothing of it.
    #[derive(Debug)]
    struct Fake;

    impl Codec for Fake {
        fn flag(&self) -> u8 {
            0
        }
        fn bound(&self, len: usize) -> usize {
            len + 10
        }
        fn most(&self, len: usize) -> usize {
            len
        }
        fn compress(&self, payload: &[u8], out: &mut [u8], level: i32) -> Option<usize> {
            assert_eq!(out.len(), payload.len() + 10);
            let len = usize::try_from(level).ok()?;
            out[..len].fill(0xEE);
            Some(len)
        }
        fn inflate(&self, _: &[u8], _: &mut [u8]) -> Option<usize> {
            None
        }
    }

    fn compress(payload: usize, level: i32, max_inflated: usize) -> Option<Vec<u8>> {
        let buffer = [vec![1; 5], vec![2; payload]].concat();
        Compression { codec: &Fake, level }.compress(&buffer, 5, max_inflated, 16)
    }

    #[test]
    fn the_length_goes_in_front_and_there_is_room_behind() {
        let compressed = compress(100, 50, 100).unwrap();
        assert_eq!(compressed, [&[0; 5][..], &[0, 0, 0, 100], &[0xEE; 50]].concat());
        assert_eq!(compressed.capacity(), 5 + 4 + 110 + 16);
    }

    #[test]
    fn what_is_short_or_long_or_does_not_get_shorter_is_left_as_it_is() {
        assert!(compress(64, 10, 1_000).is_some());
        assert!(compress(63, 10, 1_000).is_none());
        assert!(compress(100, 10, 99).is_none());
        assert!(compress(100, 95, 100).is_some());
        assert!(compress(100, 96, 100).is_none());
        assert!(compress(100, 97, 100).is_none());
        assert!(compress(100, -1, 100).is_none(), "the codec failed");
        let too_short = Compression { codec: &Fake, level: 1 }.compress(&[0; 4], 5, 100, 16);
        assert_eq!(too_short, None);
    }

    /// Before anything is allocated.
    #[test]
    fn a_length_is_bounded_by_the_setting_and_by_what_there_is() {
        let bounded = |compressed_len, max| bounded_len(&Fake, 10_u32.to_be_bytes(), compressed_len, max);
        assert_eq!((bounded(10, 10), bounded(11, 11), bounded(99, 99)), (Some(10), Some(10), Some(10)));
        assert_eq!((bounded(9, 10), bounded(10, 9), bounded(0, 0)), (None, None, None));
    }

    #[cfg(feature = "lz4")]
    #[test]
    fn an_inflated_length_is_believed_within_its_bounds_only() {
        use cachekit_core::entry::FLAG_LZ4;
        // One byte of literals, then the longest run that a few bytes can make.
        let mut block = vec![0; 1_000];
        let len = crate::lz4::Lz4.compress(&[7; 20_000], &mut block, 0);
        assert_eq!(len, None, "it wants room for the worst case");
        block.resize(crate::lz4::Lz4.bound(20_000), 0);
        let len = crate::lz4::Lz4.compress(&[7; 20_000], &mut block, 0).unwrap();
        block.truncate(len);
        let most = block.len() * 255;
        let inflated = |len: usize, max| {
            let payload = [&u32::try_from(len).unwrap().to_be_bytes()[..], &block].concat();
            inflate(FLAG_LZ4, &payload, max)
        };
        assert_eq!(inflated(20_000, 20_000).unwrap(), vec![7; 20_000]);
        assert_eq!(inflated(20_000, 19_999), None);
        assert_eq!(inflated(19_999, 1 << 20), None);
        assert_eq!(inflated(20_001, 1 << 20), None);
        assert_eq!(inflated(most + 1, usize::MAX), None);
        assert_eq!(inflate(FLAG_LZ4, &[0; 3], 100), None);
        assert_eq!(inflate(0, &[0; 10], 100), None, "no such algorithm");
        let literal = [&[0, 0, 0, 5][..], b"\x50hello"].concat();
        assert_eq!(inflate(FLAG_LZ4, &literal, 5).unwrap(), "hello");
    }
}
