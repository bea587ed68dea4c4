//! What stands in the place of a sealer whose ring is bad: no cache is built with it, and nothing passes it.

use crate::KeyringError;
use crate::layout::{HEADROOM, OVERHEAD};
use bytes::Bytes;
use cachekit_core::entry::Header;
use cachekit_core::{Acceptance, OpenError, SealContext, SealError, Sealer, SealerHealth};
use std::borrow::Cow;
use std::error::Error as StdError;

#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) KeyringError);

impl Sealer for Refusal {
    fn check(&self) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Err(Box::new(self.0))
    }

    fn headroom(&self) -> usize {
        HEADROOM
    }

    fn overhead(&self) -> usize {
        OVERHEAD
    }

    fn seal(&self, _: SealContext<'_>, _: Header, _: Vec<u8>) -> Result<Bytes, SealError> {
        Err(SealError::NoKey)
    }

    fn open(&self, _: SealContext<'_>, _: Bytes, _: Acceptance) -> Result<(Header, Bytes), OpenError> {
        Err(OpenError::NotAuthentic)
    }

    fn stored_key(&self, _: &str, _: &str) -> Option<String> {
        None
    }

    fn tenant_of<'a>(&self, _: &'a str) -> Option<Cow<'a, str>> {
        None
    }

    fn fails_closed(&self) -> bool {
        true
    }

    fn health(&self, _: &str) -> SealerHealth {
        SealerHealth::new(true, false, Vec::new())
    }
}
