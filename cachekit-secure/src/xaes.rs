//! XAES-256-GCM, as C2SP specifies it: AES-256-GCM under a key of its own for every nonce.
//!
//! A random nonce of 192 bits has no practical limit of writes. One of 96 bits would have to be rotated before 2^32
//! writes of the whole fleet.

use crate::aead::{AeadError, Gcm, Provider, TAG_LEN};
use aes::Aes256Enc;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use std::marker::PhantomData;
use zeroize::{Zeroize, Zeroizing};

pub(crate) const NONCE_LEN: usize = 24;
pub(crate) type Nonce = [u8; NONCE_LEN];

/// XAES-256-GCM over a provider of AES-256-GCM.
pub(crate) struct Xaes<G = Provider> {
    cipher: Aes256Enc,
    /// The CMAC subkey K1.
    subkey: Zeroizing<[u8; 16]>,
    gcm: PhantomData<fn() -> G>,
}

impl<G: Gcm> Xaes<G> {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        let cipher = Aes256Enc::new(key.into());
        let mut block = aes::Block::default();
        cipher.encrypt_block(&mut block);
        let mut subkey = Zeroizing::new([0; 16]);
        let mut carry = 0;
        for (out, byte) in subkey.iter_mut().zip(&block).rev() {
            *out = (byte << 1) | carry;
            carry = byte >> 7;
        }
        // Multiplied, not branched on: it comes from the key.
        subkey[15] ^= 0x87 * carry;
        block.zeroize();
        Self { cipher, subkey, gcm: PhantomData }
    }

    pub(crate) fn seal(&self, nonce: &Nonce, aad: &[u8], text: &mut [u8]) -> Result<[u8; TAG_LEN], AeadError> {
        let (first, last) = halves(nonce);
        G::new(&self.key_for(&first)).seal(&last, aad, text)
    }

    pub(crate) fn open(
        &self,
        nonce: &Nonce,
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), AeadError> {
        let (first, last) = halves(nonce);
        G::new(&self.key_for(&first)).open(&last, aad, text, tag)
    }

    /// The key under which the second half of the nonce is the nonce.
    fn key_for(&self, first: &[u8; 12]) -> Zeroizing<[u8; 32]> {
        let mut blocks = [aes::Block::default(); 2];
        for (counter, block) in (1..).zip(&mut blocks) {
            block[..4].copy_from_slice(&[0, counter, b'X', 0]);
            block[4..].copy_from_slice(first);
            block.iter_mut().zip(&*self.subkey).for_each(|(byte, subkey)| *byte ^= subkey);
        }
        self.cipher.encrypt_blocks(&mut blocks);
        let mut key = Zeroizing::new([0; 32]);
        key[..16].copy_from_slice(&blocks[0]);
        key[16..].copy_from_slice(&blocks[1]);
        blocks.iter_mut().for_each(|block| block.zeroize());
        key
    }
}

fn halves(nonce: &Nonce) -> ([u8; 12], [u8; 12]) {
    let (mut first, mut last) = ([0; 12], [0; 12]);
    first.copy_from_slice(&nonce[..12]);
    last.copy_from_slice(&nonce[12..]);
    (first, last)
}
