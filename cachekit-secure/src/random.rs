//! Where nonces come from: the operating system, every time.
//!
//! No counter, no generator of the thread, no seed of the process: `fork` and clones of a virtual machine repeat those.

use crate::xaes::{NONCE_LEN, Nonce};

/// It gave nothing.
#[derive(Debug)]
pub(crate) struct NoRandomness;

/// A source of nonces; tests have others.
pub(crate) trait NonceSource: Send + Sync + 'static {
    fn nonce(&self) -> Result<Nonce, NoRandomness>;
}

pub(crate) struct SystemRandom;

impl NonceSource for SystemRandom {
    fn nonce(&self) -> Result<Nonce, NoRandomness> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| NoRandomness)?;
        Ok(nonce)
    }
}
