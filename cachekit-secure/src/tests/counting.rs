//! How often this thread encrypted or decrypted.

use crate::aead::{AeadError, Gcm, RustGcm, TAG_LEN};
use std::cell::Cell;

thread_local! {
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) fn operations() -> u64 {
    OPERATIONS.get()
}

pub(crate) struct CountingGcm(RustGcm);

impl Gcm for CountingGcm {
    fn new(key: &[u8; 32]) -> Self {
        Self(<RustGcm as Gcm>::new(key))
    }

    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> Result<[u8; TAG_LEN], AeadError> {
        OPERATIONS.set(OPERATIONS.get() + 1);
        self.0.seal(nonce, aad, text)
    }

    fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), AeadError> {
        OPERATIONS.set(OPERATIONS.get() + 1);
        self.0.open(nonce, aad, text, tag)
    }
}
