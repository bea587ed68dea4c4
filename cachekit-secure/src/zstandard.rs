//! Zstandard frames.

use crate::compression::Codec;
use cachekit_core::entry::FLAG_ZSTD;

#[derive(Debug)]
pub(crate) struct Zstandard;

impl Codec for Zstandard {
    fn flag(&self) -> u8 {
        FLAG_ZSTD
    }

    fn bound(&self, len: usize) -> usize {
        zstd::zstd_safe::compress_bound(len)
    }

    /// A run of any length takes a few bytes.
    fn most(&self, _: usize) -> usize {
        usize::MAX
    }

    fn compress(&self, payload: &[u8], out: &mut [u8], level: i32) -> Option<usize> {
        zstd::bulk::compress_to_buffer(payload, out, level).ok()
    }

    fn inflate(&self, compressed: &[u8], out: &mut [u8]) -> Option<usize> {
        zstd::bulk::decompress_to_buffer(compressed, out).ok()
    }
}
