//! What the wrappers share: a sealer with the namespace and the tenant that were set on the wrapper.

use crate::aad::Purpose;
use crate::layout::{HEADROOM, OVERHEAD};
use crate::sealer::EntrySealer;
use bytes::Bytes;
use cachekit_core::entry::{Header, Kind, Suite};
use cachekit_core::{Acceptance, BackendError, ErrorKind, OpenError, SealContext, SealError, Sealer, Tier};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The one text, whatever the reason is.
const NOT_AUTHENTIC: &str = "the entry did not authenticate";
/// Messages are for those who listen now; an older one that somebody sends again is not taken.
const MESSAGE_LIFE: Duration = Duration::from_secs(300);
/// Raw bytes, of no schema.
const FORMAT: u8 = 0;
const SCHEMA_VERSION: u32 = 0;

#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) sealer: Arc<EntrySealer>,
    pub(crate) namespace: Arc<str>,
    pub(crate) tenant: Option<Arc<str>>,
}

impl Door {
    pub(crate) fn new(sealer: EntrySealer) -> Self {
        Self { sealer: Arc::new(sealer), namespace: "".into(), tenant: None }
    }

    /// The key to store an entry of `key` under.
    pub(crate) fn stored_key<'a>(&self, key: &'a str) -> Result<Cow<'a, str>, BackendError> {
        match self.sealer.stored_key("", key) {
            // The name of the empty key is not empty.
            Some(_) if key.is_empty() => Err(BackendError::new(ErrorKind::KeyInvalid, "the key is empty")),
            Some(hidden) => Ok(Cow::Owned(hidden)),
            None => Ok(Cow::Borrowed(key)),
        }
    }

    pub(crate) fn hides_names(&self) -> bool {
        self.sealer.settings.names.is_some()
    }

    /// The longest payload whose entry has at most `max_stored` bytes.
    pub(crate) fn max_payload(&self, max_stored: usize) -> usize {
        let room = max_stored.saturating_sub(OVERHEAD);
        match self.sealer.settings.padding {
            Some(padding) => padding.longest_in(room).unwrap_or(0),
            None => room,
        }
    }

    pub(crate) fn seal(
        &self,
        key: &str,
        stored_key: &str,
        value: &[u8],
        ttl: Option<Duration>,
    ) -> Result<Bytes, BackendError> {
        self.seal_as(Purpose::Entry, self.tenant_of(key), stored_key, value, ttl)
    }

    pub(crate) fn seal_message(&self, channel: &str, payload: &[u8]) -> Result<Bytes, BackendError> {
        self.seal_as(Purpose::Message, self.own_tenant(), channel, payload, Some(MESSAGE_LIFE))
    }

    fn seal_as(
        &self,
        purpose: Purpose,
        tenant: Cow<'_, str>,
        stored_key: &str,
        payload: &[u8],
        ttl: Option<Duration>,
    ) -> Result<Bytes, BackendError> {
        let mut buffer = Vec::with_capacity(OVERHEAD + payload.len());
        buffer.resize(HEADROOM, 0);
        buffer.extend_from_slice(payload);
        let (written_at, expires_at) = self.sealer.settings.time.now_and_end(ttl);
        let header = Header {
            suite: Suite::Sealed,
            flags: 0,
            kind: Kind::Value,
            format: FORMAT,
            schema_version: SCHEMA_VERSION,
            written_at,
            fresh_until: expires_at,
            expires_at,
        };
        let context = SealContext { namespace: &self.namespace, stored_key, tenant: &tenant };
        self.sealer.seal_as(purpose, context, header, buffer).map_err(not_sealed)
    }

    /// The value of stored bytes; `None`: they are a miss.
    pub(crate) fn open(
        &self,
        key: &str,
        stored_key: &str,
        entry: Bytes,
        max_stored_len: usize,
    ) -> Result<Option<Bytes>, BackendError> {
        match self.open_as(Purpose::Entry, self.tenant_of(key), stored_key, entry, max_stored_len) {
            Ok(value) => Ok(value),
            Err(OpenError::NotAuthentic) if self.sealer.fails_closed() => {
                Err(BackendError::new(ErrorKind::DecryptionAuthentication, NOT_AUTHENTIC))
            }
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn open_message(&self, channel: &str, message: Bytes) -> Option<Bytes> {
        self.open_as(Purpose::Message, self.own_tenant(), channel, message, usize::MAX).ok().flatten()
    }

    fn open_as(
        &self,
        purpose: Purpose,
        tenant: Cow<'_, str>,
        stored_key: &str,
        entry: Bytes,
        max_stored_len: usize,
    ) -> Result<Option<Bytes>, OpenError> {
        let now = self.sealer.settings.time.now();
        let context = SealContext { namespace: &self.namespace, stored_key, tenant: &tenant };
        let acceptance = Acceptance { max_stored_len, now, schema_version: SCHEMA_VERSION, tier: Tier::L2 };
        let (header, payload) = self.sealer.open_as(purpose, context, entry, acceptance)?;
        // What a cache with the same keys and names wrote is authentic, and not for us.
        Ok((header.kind == Kind::Value && header.format == FORMAT).then_some(payload))
    }

    fn tenant_of<'a>(&'a self, key: &'a str) -> Cow<'a, str> {
        match &self.tenant {
            Some(tenant) => Cow::Borrowed(tenant),
            None => self.sealer.tenant_of(key).unwrap_or_default(),
        }
    }

    /// That of what belongs to no key.
    fn own_tenant(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.tenant.as_deref().unwrap_or_default())
    }
}

fn not_sealed(error: SealError) -> BackendError {
    let kind = match error {
        SealError::TooLarge => ErrorKind::TooLarge,
        _ => ErrorKind::Internal,
    };
    BackendError::new(kind, "the value was not sealed, and not written").with_source(error)
}
