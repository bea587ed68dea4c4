//! The one place where a value becomes the bytes that tiers hold, and where such bytes are opened again.

use super::outcome::Reason;
use super::place::Place;
use super::unsynced::Barrier;
use super::{Cache, Cacheable};
use crate::entry::{Header, Kind, Suite, Untimely, plain};
use crate::l1::{self, Absent, Slot};
use crate::seal::{Acceptance, OpenError, Tier};
use crate::ttl::Lifetime;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// An entry ready to be stored.
pub(super) struct Entry {
    /// For the L2; not made where there is none.
    pub(super) bytes: Option<Bytes>,
    pub(super) len: usize,
    /// For L1; not made where there is none, or where it does not fit.
    pub(super) slot: Option<Arc<Slot>>,
    pub(super) ttl: Lifetime,
}

/// What L1 of a cache with a sealer holds in place of a value.
pub(super) struct Sealed(pub(super) Bytes);

/// An entry that was opened. `None` in place of a value: the function found nothing when it was written.
pub(super) struct Opened<V> {
    pub(super) value: Option<V>,
    pub(super) age: Duration,
    /// What is left of its life; `None` is for ever.
    pub(super) lives: Option<Duration>,
}

/// Why stored bytes are not served.
pub(super) enum Unusable {
    /// A miss, for this reason.
    Degraded(Reason),
    /// Somebody may have tampered with them, and the sealer wants that to be an error.
    NotAuthentic,
}

impl Cache {
    /// Encodes a value, or `None` for "nothing", seals it where there is a sealer, and checks its size.
    pub(super) fn prepare<V: Cacheable>(
        &self,
        place: &Place<'_>,
        value: Option<&V>,
        ttl: Lifetime,
    ) -> Result<Entry, Reason> {
        let shared = &*self.shared;
        let ttl = shared.jitter.apply(ttl);
        shared.outlives(ttl.millis());
        if shared.l2.is_none() && shared.sealer.is_none() {
            // Only the length is of use.
            let payload = value.map_or(Ok(0), |value| shared.encoding.encoded_len(value));
            let len = plain::OVERHEAD + payload.map_err(|_| Reason::Serialize)?;
            return self.entry(place, value, None, len, ttl);
        }
        let (headroom, tail) = match &shared.sealer {
            None => (plain::OVERHEAD, 0),
            Some(sealer) => (sealer.headroom(), sealer.overhead() - sealer.headroom()),
        };
        let mut buffer = vec![0; headroom];
        if let Some(value) = value {
            shared.encoding.encode(value, &mut buffer, tail).map_err(|_| Reason::Serialize)?;
        }
        let written_at = shared.clock.wall_millis();
        shared.latest_written_at.fetch_max(written_at, Ordering::Relaxed);
        let expires_at = ttl.ends_at(written_at);
        let header = Header {
            suite: Suite::Plain,
            flags: 0,
            kind: if value.is_some() { Kind::Value } else { Kind::Absent },
            format: if value.is_some() { shared.encoding.format() } else { 0 },
            schema_version: shared.schema_version,
            written_at,
            fresh_until: expires_at,
            expires_at,
        };
        let bytes = match &shared.sealer {
            None => plain::finish(buffer, &header, &place.key),
            Some(sealer) => sealer.seal(self.seal_context(place), header, buffer).map_err(|_| Reason::Seal)?,
        };
        let len = bytes.len();
        self.entry(place, value, Some(bytes), len, ttl)
    }

    fn entry<V: Cacheable>(
        &self,
        place: &Place<'_>,
        value: Option<&V>,
        bytes: Option<Bytes>,
        len: usize,
        ttl: Lifetime,
    ) -> Result<Entry, Reason> {
        if len > self.shared.max_value_bytes {
            return Err(Reason::TooLarge);
        }
        let slot = self.slot(place, value, bytes.as_ref(), len, ttl.duration(), Duration::ZERO);
        if slot.is_none() && self.shared.l2.is_none() {
            // The only tier there is cannot hold it.
            return Err(Reason::TooLarge);
        }
        Ok(Entry { bytes, len, slot, ttl })
    }

    /// An entry as L1 holds it: the value itself, or the sealed bytes where there is a sealer. Made before any lock is
    /// taken, since `Clone` is the user's code.
    pub(super) fn slot<V: Cacheable>(
        &self,
        place: &Place<'_>,
        value: Option<&V>,
        bytes: Option<&Bytes>,
        len: usize,
        lives: Option<Duration>,
        age: Duration,
    ) -> Option<Arc<Slot>> {
        let shared = &*self.shared;
        let weight = l1::weight(&place.key, len);
        shared.l1.as_ref().filter(|l1| l1.fits(weight))?;
        let untracked = shared.tracking.as_ref().and_then(|tracking| tracking.most());
        if untracked == Some(Duration::ZERO) {
            return None;
        }
        let lives = [lives, shared.l1_max_ttl, untracked].into_iter().flatten().min();
        let now = shared.clock.now();
        Some(match (&shared.sealer, bytes, value) {
            (Some(_), Some(bytes), _) => Arc::new(Slot::new(Sealed(bytes.clone()), weight, now, lives, age)),
            // There is no plaintext to fall back on.
            (Some(_), None, _) => return None,
            (None, _, Some(value)) => Arc::new(Slot::new(value.clone(), weight, now, lives, age)),
            (None, _, None) => Arc::new(Slot::new(Absent, weight, now, lives, age)),
        })
    }

    /// The header and the payload of an entry, if it may be served; `None` when its time has simply passed. Whether to
    /// expect a plain or a sealed entry is the cache's setting and never the bytes' choice.
    pub(super) fn open(
        &self,
        place: &Place<'_>,
        bytes: Bytes,
        tier: Tier,
        barrier: &Barrier,
    ) -> Result<Option<(Header, Bytes)>, Unusable> {
        let shared = &*self.shared;
        let degraded = |reason| Err(Unusable::Degraded(reason));
        let now = shared.clock.wall_millis();
        let opened = match &shared.sealer {
            None if bytes.len() > shared.max_value_bytes => return degraded(Reason::TooLarge),
            None => match plain::read(bytes, &place.key) {
                None => return degraded(Reason::Decode),
                Some((header, payload)) => header.check(shared.schema_version, now).map(|()| (header, payload)),
            },
            Some(sealer) => {
                let (max_stored_len, schema_version) = (shared.max_value_bytes, shared.schema_version);
                let acceptance = Acceptance { max_stored_len, now, schema_version, tier };
                match sealer.open(self.seal_context(place), bytes, acceptance) {
                    Ok(opened) => Ok(opened),
                    Err(OpenError::Untimely(untimely)) => Err(untimely),
                    Err(OpenError::Undecodable) => return degraded(Reason::Decode),
                    Err(OpenError::NotAuthentic) if sealer.fails_closed() => return Err(Unusable::NotAuthentic),
                    Err(OpenError::NotAuthentic) => return degraded(Reason::Unauthentic),
                }
            }
        };
        match opened {
            Ok((header, _)) if barrier.hides(header.written_at) => degraded(Reason::Unsynced),
            Ok(opened) => Ok(Some(opened)),
            Err(Untimely::Expired) => Ok(None),
            Err(Untimely::FromTheFuture) => degraded(Reason::Decode),
            Err(Untimely::OtherSchema) => degraded(Reason::OtherSchema),
        }
    }

    /// The value of an entry as the type that the caller asks for.
    pub(super) fn open_as<V: Cacheable>(
        &self,
        place: &Place<'_>,
        bytes: Bytes,
        tier: Tier,
        barrier: &Barrier,
    ) -> Result<Option<Opened<V>>, Unusable> {
        let shared = &*self.shared;
        let Some((header, payload)) = self.open(place, bytes, tier, barrier)? else { return Ok(None) };
        let value = match header.kind {
            Kind::Absent => None,
            Kind::Value if header.format != shared.encoding.format() => return Err(Unusable::Degraded(Reason::Decode)),
            Kind::Value => Some(shared.encoding.decode(&payload).map_err(|_| Unusable::Degraded(Reason::Decode))?),
        };
        let now = shared.clock.wall_millis();
        let age = Duration::from_millis(now.saturating_sub(header.written_at));
        let left = header.expires_at.saturating_sub(now);
        let lives = (header.expires_at != u64::MAX).then(|| Duration::from_millis(left));
        // Another process's entries may live longer than those of this one.
        shared.outlives(lives.map_or(u64::MAX, |_| left));
        Ok(Some(Opened { value, age, lives }))
    }
}
