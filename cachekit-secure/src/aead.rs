//! The seam where another provider of AES-256-GCM could stand: ring, aws-lc-rs.

use aes::Aes256Enc;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{AesGcm, Nonce, Tag};

pub(crate) const TAG_LEN: usize = 16;

/// It did not work, and no more than that is said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AeadError;

/// AES-256-GCM with a nonce of 96 bits and a tag of 128.
///
/// The key schedule of an implementation is zeroized when it is dropped.
pub(crate) trait Gcm: Sized {
    fn new(key: &[u8; 32]) -> Self;

    /// Encrypts in place. Fails only for a text or associated data that GCM cannot take.
    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> Result<[u8; TAG_LEN], AeadError>;

    /// Decrypts in place; where the tag is wrong, nothing that `text` then holds may be used.
    fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), AeadError>;
}

/// The one in use: RustCrypto's, on the instructions that the processor has. It never decrypts, so it has no need of the
/// decryption half of a key schedule.
pub(crate) type RustGcm = AesGcm<Aes256Enc, aes::cipher::consts::U12>;

/// What entries are sealed with.
#[cfg(not(test))]
pub(crate) type Provider = RustGcm;
/// The same, and it counts.
#[cfg(test)]
pub(crate) type Provider = crate::tests::counting::CountingGcm;

impl Gcm for RustGcm {
    fn new(key: &[u8; 32]) -> Self {
        <Self as KeyInit>::new(key.into())
    }

    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> Result<[u8; TAG_LEN], AeadError> {
        let nonce: &Nonce<_> = nonce.into();
        let tag = self.encrypt_inout_detached(nonce, aad, text.into()).map_err(|_| AeadError)?;
        Ok(tag.into())
    }

    fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), AeadError> {
        let (nonce, tag): (&Nonce<_>, &Tag) = (nonce.into(), tag.into());
        self.decrypt_inout_detached(nonce, aad, text.into(), tag).map_err(|_| AeadError)
    }
}
