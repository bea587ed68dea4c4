//! Reading: L1, then L2, and never past an entry's time.

use super::activity::Fill;
use super::envelope::{Sealed, Unusable};
use super::outcome::{Fetched, Reason, Source};
use super::place::Place;
use super::unsynced::Barrier;
use super::{Cache, Cacheable, Error, Shared};
use crate::ErrorKind;
use crate::entry::{Header, Kind};
use crate::key::Key;
use crate::l1::{self, Absent, Displaced, Slot};
use crate::l2::Session;
use crate::seal::Tier;
use bytes::Bytes;
use std::sync::Arc;

/// What a read of the L2 brought.
pub(super) enum Read<V> {
    /// An entry; `None`: the function found nothing when it was written.
    Found(Fetched<Option<V>>),
    /// Nothing that may be served. `degraded` says why, unless there simply was nothing.
    Missing { degraded: Option<Reason>, timed_out: bool },
    /// An entry that did not authenticate, where that is an error.
    Refused(Error),
}

/// An entry of L1, and its place where that was needed to find it.
pub(super) type InL1<'a> = (Arc<Slot>, Option<Place<'a>>);

impl Cache {
    /// The value of a key, if a tier has it. An outage of the backend is a miss.
    ///
    /// # Errors
    ///
    /// [`KeyInvalid`](ErrorKind::KeyInvalid); [`ConfigInvalid`](ErrorKind::ConfigInvalid) when the backend is needed and
    /// there is no Tokio runtime; [`DecryptionAuthentication`](ErrorKind::DecryptionAuthentication) when a sealed entry
    /// does not authenticate and the sealer fails closed.
    pub async fn get<V: Cacheable>(&self, key: &str) -> Result<Option<V>, Error> {
        if let Some(found) = self.in_l1(key)? {
            return Ok(found);
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
        if let Some(found) = self.find(key)? {
            return self.holds_a_value(found);
        }
        let place = self.place(key)?;
        let Some(l2) = shared.l2()? else { return Ok(false) };
        let fill = shared.activity.fill(&place.key);
        let Some(barrier) = self.may_read(&fill, &place.key) else { return Ok(false) };
        let Ok(mut session) = l2.open().await else { return Ok(false) };
        let (bytes, _) = shared.ask(&mut session, &place.key).await;
        let Ok(Some(bytes)) = bytes else {
            session.succeeded();
            return Ok(false);
        };
        let is_value = self.is_value(self.open(&place, bytes, Tier::L2, &barrier));
        match is_value {
            Ok(_) => session.succeeded(),
            Err(_) => session.raised(),
        }
        is_value
    }

    /// Whether what was opened is a value; what was not is counted.
    fn is_value(&self, opened: Result<Option<(Header, Bytes)>, Unusable>) -> Result<bool, Error> {
        match opened {
            Ok(entry) => Ok(entry.is_some_and(|(header, _)| header.kind == Kind::Value)),
            Err(Unusable::Degraded(reason)) => {
                self.shared.events.degraded(reason);
                Ok(false)
            }
            Err(Unusable::NotAuthentic) => {
                self.shared.events.degraded(Reason::Unauthentic);
                Err(not_authentic())
            }
        }
    }

    async fn get_past_l1<V: Cacheable>(&self, key: &str) -> Result<Option<V>, Error> {
        let shared = &*self.shared;
        let place = self.place(key)?;
        let Some(l2) = shared.l2()? else {
            shared.events.missed();
            return Ok(None);
        };
        // The fill first: what happens after the look at the marks moves its generation.
        let fill = shared.activity.fill(&place.key);
        let Some(barrier) = self.may_read(&fill, &place.key) else {
            shared.events.missed();
            return Ok(None);
        };
        let Ok(mut session) = l2.open().await else {
            shared.events.missed();
            return Ok(None);
        };
        match self.read_l2(&mut session, &place, &fill, &barrier).await {
            Read::Found(fetched) => {
                session.succeeded();
                shared.events.answered(Source::L2);
                Ok(fetched.value)
            }
            Read::Missing { .. } => {
                session.succeeded();
                shared.events.missed();
                Ok(None)
            }
            Read::Refused(error) => {
                session.raised();
                shared.events.missed();
                Err(error)
            }
        }
    }

    /// Reads and decodes, and fills L1 with exactly what is left of the entry's life.
    pub(super) async fn read_l2<V: Cacheable>(
        &self,
        session: &mut Session<'_>,
        place: &Place<'_>,
        fill: &Fill<'_>,
        barrier: &Barrier,
    ) -> Read<V> {
        let shared = &*self.shared;
        let (bytes, timed_out) = shared.ask(session, &place.key).await;
        let bytes = match bytes {
            Err(reason) => return Read::Missing { degraded: Some(reason), timed_out },
            Ok(None) => return Read::Missing { degraded: None, timed_out: false },
            Ok(Some(bytes)) => bytes,
        };
        // L1 keeps the sealed bytes. Where there is none, nobody else holds them, and they are opened in place.
        let held = (shared.sealer.is_some() && shared.l1.is_some()).then(|| bytes.clone());
        let len = bytes.len();
        match self.open_as::<V>(place, bytes, Tier::L2, barrier) {
            Ok(Some(entry)) => {
                let slot = self.slot(place, entry.value.as_ref(), held.as_ref(), len, entry.lives, entry.age);
                fill.commit(|| shared.insert_into_l1(&place.key, slot.as_ref()));
                let (age, value) = (entry.age, entry.value);
                Read::Found(Fetched { age, degraded: None, source: Source::L2, stored: None, value })
            }
            Ok(None) => Read::Missing { degraded: None, timed_out: false },
            Err(Unusable::Degraded(reason)) => {
                shared.events.degraded(reason);
                Read::Missing { degraded: Some(reason), timed_out: false }
            }
            Err(Unusable::NotAuthentic) => {
                shared.events.degraded(Reason::Unauthentic);
                Read::Refused(not_authentic())
            }
        }
    }

    /// What L1 holds under a key that was not checked yet: what is found was.
    pub(super) fn find<'a>(&'a self, key: &'a str) -> Result<Option<InL1<'a>>, Error> {
        let Some(l1) = &self.shared.l1 else { return Ok(None) };
        if self.shared.sealer.is_none() {
            return Ok(l1.get(&self.scope.lookup(key)).map(|slot| (slot, None)));
        }
        let place = self.place(key)?;
        Ok(l1.get(&place.key).map(|slot| (slot, Some(place))))
    }

    /// What L1 says to a reader that only wants the value, counted if it is a hit. The outer `None` is a miss.
    pub(super) fn in_l1<V: Cacheable>(&self, key: &str) -> Result<Option<Option<V>>, Error> {
        let Some((slot, place)) = self.find(key)? else { return Ok(None) };
        let value = self.value_of::<V>(&slot, place.as_ref())?;
        match value {
            Some(_) => self.shared.events.answered(Source::L1),
            None => self.count_other_type(place.as_ref()),
        }
        Ok(value)
    }

    /// L1 holds another type under the key. Whoever computes this one will overwrite it.
    pub(super) fn count_other_type(&self, place: Option<&Place<'_>>) {
        // What is sealed was counted when it did not open.
        if place.is_none() {
            self.shared.events.degraded(Reason::Decode);
        }
    }

    /// The same with the entry's age.
    pub(super) fn fetch_from_l1<V: Cacheable>(
        &self,
        slot: &Arc<Slot>,
        place: Option<&Place<'_>>,
    ) -> Result<Option<Fetched<Option<V>>>, Error> {
        let Some(value) = self.value_of::<V>(slot, place)? else { return Ok(None) };
        self.shared.events.answered(Source::L1);
        let age = slot.age(self.shared.clock.now());
        Ok(Some(Fetched { age, degraded: None, source: Source::L1, stored: None, value }))
    }

    fn value_of<V: Cacheable>(&self, slot: &Arc<Slot>, place: Option<&Place<'_>>) -> Result<Option<Option<V>>, Error> {
        if let Some(place) = place {
            return self.value_of_sealed(slot, place);
        }
        if let Some(value) = l1::downcast::<V>(slot) {
            return Ok(Some(Some(value.clone())));
        }
        Ok(l1::downcast::<Absent>(slot).is_some().then_some(None))
    }

    fn value_of_sealed<V: Cacheable>(&self, slot: &Arc<Slot>, place: &Place<'_>) -> Result<Option<Option<V>>, Error> {
        let Some(Sealed(bytes)) = l1::downcast(slot) else { return Ok(None) };
        let unusable = match self.open_as::<V>(place, bytes.clone(), Tier::L1, &Barrier::none()) {
            Ok(opened) => return Ok(opened.map(|opened| opened.value)),
            Err(unusable) => unusable,
        };
        drop(self.shared.remove_from_l1(&place.key));
        match unusable {
            Unusable::Degraded(reason) => {
                self.shared.events.degraded(reason);
                Ok(None)
            }
            Unusable::NotAuthentic => {
                self.shared.events.degraded(Reason::Unauthentic);
                Err(not_authentic())
            }
        }
    }

    /// Whether an entry of L1 is one that `get` would find.
    pub(super) fn holds_a_value(&self, (slot, place): InL1<'_>) -> Result<bool, Error> {
        let (Some(place), Some(Sealed(bytes))) = (&place, l1::downcast(&slot)) else {
            return Ok(l1::downcast::<Absent>(&slot).is_none());
        };
        let opened = self.open(place, bytes.clone(), Tier::L1, &Barrier::none());
        if opened.is_err() {
            drop(self.shared.remove_from_l1(&place.key));
        }
        self.is_value(opened)
    }
}

/// One text, whatever was wrong with the entry.
fn not_authentic() -> Error {
    Error::new(ErrorKind::DecryptionAuthentication, "the entry did not authenticate")
}

impl Cache {
    /// Whether the L2 may be asked for this key, and which of its entries a failed clear was meant to remove; `None`,
    /// counted, when it must not be asked. The fill has begun before, so whatever happens after this look is noticed.
    pub(super) fn may_read(&self, fill: &Fill<'_>, key: &Key) -> Option<Barrier> {
        let shared = &*self.shared;
        let now = shared.clock.now();
        let reason = if shared.is_closed() {
            Reason::Closed
        } else if fill.l2_may_be_outdated() || shared.unsynced.contains(key, now) {
            Reason::Unsynced
        } else {
            return Some(shared.unsynced.barrier(&self.scope, key, now));
        };
        shared.events.degraded(reason);
        None
    }
}

impl Shared {
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

    /// Runs under the key's lock.
    pub(super) fn insert_into_l1(&self, key: &Key, slot: Option<&Arc<Slot>>) -> Displaced {
        match (&self.l1, slot) {
            (Some(l1), Some(slot)) => l1.insert(key.clone(), Arc::clone(slot)),
            // What does not fit replaces the older entry by nothing.
            (Some(l1), None) => l1.remove(key),
            (None, _) => Displaced::new(),
        }
    }
}
