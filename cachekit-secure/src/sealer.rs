//! The one place where entries are sealed and opened.

use crate::aad::{self, Purpose};
use crate::aead::TAG_LEN;
use crate::ciphers::Slot;
use crate::layout::{self, HEADROOM, OVERHEAD, Parts};
use crate::random::NonceSource;
use crate::reason::Reason;
use crate::ring::Ring;
use crate::settings::{FailMode, Settings};
use crate::{compression, export, padding};
use bytes::{Buf, Bytes};
use cachekit_core::entry::{FLAG_LZ4, FLAG_PADDED, FLAG_ZSTD, Header, Suite};
use cachekit_core::{Acceptance, OpenError, SealContext, SealError, Sealer, SealerHealth, Tier};
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// No backend of ours keeps an entry longer than this past its time.
const LONGEST_SLACK_MILLIS: u64 = 2_000;

pub(crate) struct EntrySealer {
    pub(crate) ring: Arc<Ring>,
    pub(crate) settings: Settings,
    pub(crate) random: Arc<dyn NonceSource>,
}

/// Why an entry was not opened, and the slot of the key it names, where there is one.
type NotOpened = (Reason, Option<usize>);

impl EntrySealer {
    pub(crate) fn seal_as(
        &self,
        purpose: Purpose,
        context: SealContext<'_>,
        header: Header,
        buffer: Vec<u8>,
    ) -> Result<Bytes, SealError> {
        let sealed = self.try_seal(purpose, context, header, buffer);
        if let Err(error) = &sealed {
            export::seal_failed(*error);
        }
        sealed
    }

    fn try_seal(
        &self,
        purpose: Purpose,
        context: SealContext<'_>,
        mut header: Header,
        mut buffer: Vec<u8>,
    ) -> Result<Bytes, SealError> {
        if buffer.len() < HEADROOM {
            return Err(SealError::NoRoom);
        }
        (header.suite, header.flags) = (Suite::Sealed, 0);
        let settings = &self.settings;
        if let Some(compression) = settings.compression
            && let Some(shorter) = compression.compress(&buffer, HEADROOM, settings.max_inflated_bytes, TAG_LEN)
        {
            buffer = shorter;
            header.flags |= compression.flag();
        }
        if let Some(padding) = settings.padding {
            padding::pad(padding, &mut buffer, HEADROOM).ok_or(SealError::TooLarge)?;
            header.flags |= FLAG_PADDED;
        }
        let ciphers = self.ring.ciphers(context.tenant, context.namespace).ok_or(SealError::TooLarge)?;
        let Slot { id, cipher } = ciphers.primary().ok_or(SealError::NoKey)?;
        let header_bytes = header.to_bytes();
        let aad = aad::build(purpose, &header_bytes, id, context).ok_or(SealError::TooLarge)?;
        let nonce = self.random.nonce().map_err(|_| SealError::Randomness)?;
        // Exactly: where there is no room for the tag, a buffer twice as large would be kept with the entry.
        buffer.reserve_exact(TAG_LEN);
        let tag = cipher.seal(&nonce, &aad, &mut buffer[HEADROOM..]).map_err(|_| SealError::TooLarge)?;
        layout::write_front(&mut buffer, &header_bytes, id, &nonce);
        buffer.extend_from_slice(&tag);
        if purpose == Purpose::Entry {
            self.ring.saw(&header);
        }
        Ok(buffer.into())
    }

    pub(crate) fn open_as(
        &self,
        purpose: Purpose,
        context: SealContext<'_>,
        entry: Bytes,
        acceptance: Acceptance,
    ) -> Result<(Header, Bytes), OpenError> {
        match self.try_open(purpose, context, entry, acceptance) {
            Ok((header, payload, slot)) => {
                export::open(Reason::Opened, Some(slot), acceptance.tier);
                Ok((header, payload))
            }
            Err((reason, slot)) => {
                export::open(reason, slot, acceptance.tier);
                Err(reason.told())
            }
        }
    }

    fn try_open(
        &self,
        purpose: Purpose,
        context: SealContext<'_>,
        entry: Bytes,
        acceptance: Acceptance,
    ) -> Result<(Header, Bytes, usize), NotOpened> {
        let parts = layout::parse(&entry, acceptance.max_stored_len).map_err(|reason| (reason, None))?;
        let ciphers = self.ring.ciphers(context.tenant, context.namespace).ok_or((Reason::UnknownKey, None))?;
        let (number, slot) = ciphers.find(&parts.id).ok_or((Reason::UnknownKey, None))?;
        let not_opened = |reason| (reason, Some(number));
        let aad = aad::build(purpose, &parts.header_bytes, &parts.id, context)
            .ok_or_else(|| not_opened(Reason::TagMismatch))?;
        let payload = decrypt(slot, &parts, &aad, entry).map_err(not_opened)?;
        let header = parts.header;
        if purpose == Purpose::Entry {
            self.ring.saw(&header);
        }
        if let Err(untimely) = header.check(acceptance.schema_version, acceptance.now) {
            let overlived = acceptance.now.saturating_sub(header.expires_at) > LONGEST_SLACK_MILLIS;
            if overlived && acceptance.tier == Tier::L2 {
                export::overlived();
            }
            return Err(not_opened(untimely.into()));
        }
        let payload = self.restore(&header, payload).ok_or_else(|| not_opened(Reason::Undecodable))?;
        ciphers.opened(number, &self.settings.time);
        Ok((header, payload, number))
    }

    /// Undoes what was done to an authentic payload before it was sealed.
    fn restore(&self, header: &Header, mut payload: Bytes) -> Option<Bytes> {
        if header.flags & FLAG_PADDED != 0 {
            payload.truncate(padding::unpadded_len(&payload)?);
        }
        match header.flags & (FLAG_LZ4 | FLAG_ZSTD) {
            0 => Some(payload),
            flag => compression::inflate(flag, &payload, self.settings.max_inflated_bytes),
        }
    }
}

/// In place when nobody else holds the bytes, else into the one copy that is needed then.
fn decrypt(slot: &Slot, parts: &Parts, aad: &[u8], entry: Bytes) -> Result<Bytes, Reason> {
    let end = entry.len() - TAG_LEN;
    let open = |text: &mut [u8]| slot.cipher.open(&parts.nonce, aad, text, &parts.tag).map_err(|_| Reason::TagMismatch);
    match entry.try_into_mut() {
        Ok(mut entry) => {
            open(&mut entry[HEADROOM..end])?;
            entry.truncate(end);
            entry.advance(HEADROOM);
            Ok(entry.freeze())
        }
        Err(shared) => {
            let mut text = shared[HEADROOM..end].to_vec();
            open(&mut text)?;
            Ok(text.into())
        }
    }
}

impl Sealer for EntrySealer {
    fn check(&self) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Ok(())
    }

    fn headroom(&self) -> usize {
        HEADROOM
    }

    fn overhead(&self) -> usize {
        OVERHEAD
    }

    fn seal(&self, context: SealContext<'_>, header: Header, buffer: Vec<u8>) -> Result<Bytes, SealError> {
        self.seal_as(Purpose::Entry, context, header, buffer)
    }

    fn open(
        &self,
        context: SealContext<'_>,
        entry: Bytes,
        acceptance: Acceptance,
    ) -> Result<(Header, Bytes), OpenError> {
        self.open_as(Purpose::Entry, context, entry, acceptance)
    }

    fn stored_key(&self, prefix: &str, key: &str) -> Option<String> {
        Some(self.settings.names.as_ref()?.hide(prefix, key))
    }

    fn tenant_of<'a>(&self, key: &'a str) -> Option<Cow<'a, str>> {
        Some(self.settings.tenant.as_ref()?(key))
    }

    fn fails_closed(&self) -> bool {
        self.settings.fail_mode == FailMode::Closed
    }

    fn health(&self, namespace: &str) -> SealerHealth {
        self.ring.health(namespace, self.fails_closed(), self.settings.time.now())
    }
}

impl fmt::Debug for EntrySealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntrySealer").field("settings", &self.settings).finish_non_exhaustive()
    }
}
