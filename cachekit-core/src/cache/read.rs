//! Reading: L1, then L2, and never past an entry's time.

use super::activity::Fill;
use super::outcome::{Fetched, Reason, Source};
use super::{Cache, Cacheable, Error, Shared};
use crate::ErrorKind;
use crate::entry::{Header, Kind, Untimely, plain};
use crate::key::{Key, Lookup};
use crate::l1::{self, Absent, Displaced, Slot};
use crate::l2::Session;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// What a read of the L2 brought.
pub(super) enum Read<V> {
    /// An entry; `None`: the function found nothing when it was written.
    Found(Fetched<Option<V>>),
    /// Nothing that may be served. `degraded` says why, unless there simply was nothing.
    Missing { degraded: Option<Reason>, timed_out: bool },
}

impl Cache {
    /// The value of a key, if a tier has it. An outage of the backend is a miss.
    ///
    /// # Errors
    ///
    /// [`KeyInvalid`](ErrorKind::KeyInvalid); [`ConfigInvalid`](ErrorKind::ConfigInvalid) when the backend is needed and
    /// there is no Tokio runtime.
    pub async fn get<V: Cacheable>(&self, key: &str) -> Result<Option<V>, Error> {
        if let Some(value) = self.shared.hit_in_l1(self.scope.lookup(key)) {
            return Ok(value);
        }
        // Apart, so that the future of a hit stays small.
        Box::pin(self.get_past_l1(key)).await
    }

    /// Whether [`get`](Self::get) would find a value, of whatever type.
    ///
    /// # Errors
    ///
    /// As `get`.
    pub async fn exists(&self, key: &str) -> Result<bool, Error> {
        let shared = &*self.shared;
        if let Some(slot) = shared.l1.as_ref().and_then(|l1| l1.get(self.scope.lookup(key))) {
            return Ok(l1::downcast::<Absent>(&slot).is_none());
        }
        let key = self.scope.key(key)?;
        let Some(l2) = shared.l2()? else { return Ok(false) };
        if shared.must_not_read(&key) {
            return Ok(false);
        }
        let Ok(mut session) = l2.open().await else { return Ok(false) };
        let (bytes, _) = shared.ask(&mut session, &key).await;
        session.succeeded();
        let entry = bytes.ok().flatten().and_then(|bytes| self.parse(&key, bytes).ok().flatten());
        Ok(entry.is_some_and(|(header, _)| header.kind == Kind::Value))
    }

    async fn get_past_l1<V: Cacheable>(&self, key: &str) -> Result<Option<V>, Error> {
        let shared = &*self.shared;
        let key = self.scope.key(key)?;
        let l2 = shared.l2()?;
        let Some(l2) = l2.filter(|_| !shared.must_not_read(&key)) else {
            shared.events.missed();
            return Ok(None);
        };
        let fill = shared.activity.fill(&key);
        let Ok(mut session) = l2.open().await else {
            shared.events.missed();
            return Ok(None);
        };
        let read = self.read_l2(&mut session, &fill).await;
        session.succeeded();
        match read {
            Read::Found(fetched) => {
                shared.events.answered(Source::L2);
                Ok(fetched.value)
            }
            Read::Missing { .. } => {
                shared.events.missed();
                Ok(None)
            }
        }
    }

    /// Reads and decodes, and fills L1 with exactly what is left of the entry's life.
    pub(super) async fn read_l2<V: Cacheable>(&self, session: &mut Session<'_>, fill: &Fill<'_>) -> Read<V> {
        let shared = &*self.shared;
        let key = fill.key();
        let (bytes, timed_out) = shared.ask(session, key).await;
        let found = match bytes {
            Err(reason) => return Read::Missing { degraded: Some(reason), timed_out },
            Ok(None) => return Read::Missing { degraded: None, timed_out: false },
            Ok(Some(bytes)) => self.decode::<V>(key, bytes),
        };
        match found {
            Ok(Some(entry)) => {
                let Decoded { value, encoded_len, age, lives } = entry;
                let slot = shared.slot(key, value.as_ref(), encoded_len, lives, age);
                fill.commit(|| shared.insert_into_l1(key, slot.as_ref()));
                Read::Found(Fetched { age, degraded: None, source: Source::L2, stored: None, value })
            }
            Ok(None) => Read::Missing { degraded: None, timed_out: false },
            Err(reason) => {
                shared.events.degraded(reason);
                Read::Missing { degraded: Some(reason), timed_out: false }
            }
        }
    }

    fn decode<V: Cacheable>(&self, key: &Key, bytes: Bytes) -> Result<Option<Decoded<V>>, Reason> {
        let shared = &*self.shared;
        let encoded_len = bytes.len();
        let now = shared.clock.wall_millis();
        let Some((header, payload)) = self.parse(key, bytes)? else { return Ok(None) };
        let value = match header.kind {
            Kind::Absent => None,
            Kind::Value if header.format != shared.encoding.format() => return Err(Reason::Decode),
            Kind::Value => Some(shared.encoding.decode(&payload).map_err(|_| Reason::Decode)?),
        };
        let age = Duration::from_millis(now.saturating_sub(header.written_at));
        let left = header.expires_at - now.min(header.expires_at);
        let lives = (header.expires_at != u64::MAX).then(|| Duration::from_millis(left));
        Ok(Some(Decoded { value, encoded_len, age, lives }))
    }

    /// The header and the payload, if the entry may be served; `None` when its time has simply passed.
    fn parse(&self, key: &Key, bytes: Bytes) -> Result<Option<(Header, Bytes)>, Reason> {
        let shared = &*self.shared;
        if bytes.len() > shared.max_value_bytes {
            return Err(Reason::TooLarge);
        }
        let (header, payload) = plain::read(bytes, key).ok_or(Reason::Decode)?;
        match header.check(shared.schema_version, shared.clock.wall_millis()) {
            Ok(()) if shared.unsynced.was_cleared(&self.scope, header.written_at, shared.clock.now()) => {
                Err(Reason::Unsynced)
            }
            Ok(()) => Ok(Some((header, payload))),
            Err(Untimely::Expired) => Ok(None),
            Err(Untimely::FromTheFuture) => Err(Reason::Decode),
            Err(Untimely::OtherSchema) => Err(Reason::OtherSchema),
        }
    }
}

struct Decoded<V> {
    value: Option<V>,
    encoded_len: usize,
    age: Duration,
    lives: Option<Duration>,
}

impl Shared {
    /// What L1 says to a reader that only wants the value, counted if it is a hit. The outer `None` is a miss.
    pub(super) fn hit_in_l1<V: Cacheable>(&self, lookup: Lookup<'_>) -> Option<Option<V>> {
        let slot = self.l1.as_ref()?.get(lookup)?;
        let value = self.value_of::<V>(&slot)?;
        self.events.answered(Source::L1);
        Some(value)
    }

    /// The same with the entry's age.
    pub(super) fn fetch_from_l1<V: Cacheable>(&self, lookup: Lookup<'_>) -> Option<Fetched<Option<V>>> {
        let slot = self.l1.as_ref()?.get(lookup)?;
        let value = self.value_of::<V>(&slot)?;
        self.events.answered(Source::L1);
        let age = slot.age(self.clock.now());
        Some(Fetched { age, degraded: None, source: Source::L1, stored: None, value })
    }

    fn value_of<V: Cacheable>(&self, slot: &Arc<Slot>) -> Option<Option<V>> {
        if let Some(value) = l1::downcast::<V>(slot) {
            return Some(Some(value.clone()));
        }
        if l1::downcast::<Absent>(slot).is_some() {
            return Some(None);
        }
        // The key holds another type. Whoever computes this one will overwrite it.
        self.events.degraded(Reason::Decode);
        None
    }

    /// Whether the L2 must not be asked for this key, counted if so.
    pub(super) fn must_not_read(&self, key: &Key) -> bool {
        let reason = if self.is_closed() {
            Reason::Closed
        } else if self.unsynced.contains(key, self.clock.now()) {
            Reason::Unsynced
        } else {
            return false;
        };
        self.events.degraded(reason);
        true
    }

    /// The stored bytes, and whether the backend ran out of time.
    async fn ask(&self, session: &mut Session<'_>, key: &Key) -> (Result<Option<Bytes>, Reason>, bool) {
        match session.get(key).await {
            Ok(bytes) => (Ok(bytes), false),
            Err(error) => {
                let timed_out = error.kind() == ErrorKind::Timeout;
                let reason = if timed_out { Reason::ReadTimeout } else { Reason::ReadError };
                self.events.degraded(reason);
                (Err(reason), timed_out)
            }
        }
    }

    /// A value, or `None` for "nothing", as L1 holds it. Made before any lock is taken, since `Clone` is the user's code.
    pub(super) fn slot<V: Cacheable>(
        &self,
        key: &Key,
        value: Option<&V>,
        encoded_len: usize,
        lives: Option<Duration>,
        age: Duration,
    ) -> Option<Arc<Slot>> {
        self.l1.as_ref()?;
        let lives = match (lives, self.l1_max_ttl) {
            (Some(lives), Some(most)) => Some(lives.min(most)),
            (lives, most) => lives.or(most),
        };
        let (weight, now) = (l1::weight(key, encoded_len), self.clock.now());
        Some(match value {
            Some(value) => Arc::new(Slot::new(value.clone(), weight, now, lives, age)),
            None => Arc::new(Slot::new(Absent, weight, now, lives, age)),
        })
    }

    /// Runs under the key's lock.
    pub(super) fn insert_into_l1(&self, key: &Key, slot: Option<&Arc<Slot>>) -> Displaced {
        match (&self.l1, slot) {
            (Some(l1), Some(slot)) => l1.insert(key.clone(), Arc::clone(slot)),
            _ => Displaced::new(),
        }
    }
}
