//! LZ4 blocks.

use crate::compression::Codec;
use cachekit_core::entry::FLAG_LZ4;

#[derive(Debug)]
pub(crate) struct Lz4;

impl Codec for Lz4 {
    fn flag(&self) -> u8 {
        FLAG_LZ4
    }

    fn bound(&self, len: usize) -> usize {
        lz4_flex::block::get_maximum_output_size(len)
    }

    /// A byte of a block stands for at most 255.
    fn most(&self, len: usize) -> usize {
        len.saturating_mul(255)
    }

    fn compress(&self, payload: &[u8], out: &mut [u8], _: i32) -> Option<usize> {
        lz4_flex::block::compress_into(payload, out).ok()
    }

    fn inflate(&self, compressed: &[u8], out: &mut [u8]) -> Option<usize> {
        lz4_flex::block::decompress_into(compressed, out).ok()
    }
}
