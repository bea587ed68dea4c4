//! Read-through: the function runs when no tier has the value, and once for everyone who asks meanwhile.

use super::activity::Fill;
use super::flight::{Boarding, Flight, Lead};
use super::outcome::{Fetched, Reason, Source, Stored};
use super::place::Place;
use super::read::Read;
use super::store::L2Access;
use super::{Cache, Cacheable, CallError, Error, reentry};
use crate::ErrorKind;
use crate::l2::L2;
use std::sync::Arc;
use std::time::Duration;

impl Cache {
    /// The value of a key, or else what `function` computes, which is stored for the next one.
    ///
    /// Callers who ask for the same key and type at once share one run of the function, and if it fails each runs its
    /// own. A backend in trouble never keeps the caller from a value.
    ///
    /// # Errors
    ///
    /// [`CallError::Function`] is the function's own error; nothing is stored then. [`CallError::Cache`]:
    /// [`KeyInvalid`](ErrorKind::KeyInvalid), [`Locked`](ErrorKind::Locked) when the function asks for the key it
    /// computes, [`ConfigInvalid`](ErrorKind::ConfigInvalid) when there is a backend and no Tokio runtime,
    /// [`DecryptionAuthentication`](ErrorKind::DecryptionAuthentication) when a sealed entry does not authenticate and
    /// the sealer fails closed: then the function does not run.
    pub async fn get_or_compute<V, E, F, Fut>(&self, key: &str, function: F) -> Result<V, CallError<E>>
    where
        V: Cacheable,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<V, E>>,
    {
        if let Some(Some(value)) = self.in_l1(key).map_err(CallError::Cache)? {
            return Ok(value);
        }
        // Apart, so that the future of a hit stays small.
        Ok(Box::pin(self.compute_value(key, function)).await?.value)
    }

    /// The same for a function that may find nothing. That is remembered only with a
    /// [`negative_ttl`](super::CacheBuilder::negative_ttl).
    ///
    /// # Errors
    ///
    /// As [`get_or_compute`](Self::get_or_compute).
    pub async fn get_or_compute_opt<V, E, F, Fut>(&self, key: &str, function: F) -> Result<Option<V>, CallError<E>>
    where
        V: Cacheable,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<V>, E>>,
    {
        if let Some(found) = self.in_l1(key).map_err(CallError::Cache)? {
            return Ok(found);
        }
        Ok(Box::pin(self.compute(key, function, true)).await?.value)
    }

    /// [`get_or_compute`](Self::get_or_compute) that also tells where the value came from, how old it is, and what kept
    /// the cache from doing better.
    ///
    /// ```
    /// use cachekit_core::{Cache, Source};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let cache = Cache::builder("sums").build()?;
    /// let first = cache.fetch("1+1", || async { Ok::<_, std::io::Error>(2) }).await?;
    /// let second = cache.fetch("1+1", || async { Ok::<_, std::io::Error>(2) }).await?;
    /// assert_eq!((first.source, second.source), (Source::Computed, Source::L1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`get_or_compute`](Self::get_or_compute).
    pub async fn fetch<V, E, F, Fut>(&self, key: &str, function: F) -> Result<Fetched<V>, CallError<E>>
    where
        V: Cacheable,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<V, E>>,
    {
        if let Some((slot, place)) = self.find(key).map_err(CallError::Cache)? {
            let fetched = self.fetch_from_l1(&slot, place.as_ref()).map_err(CallError::Cache)?;
            match fetched {
                Some(fetched) => {
                    if let Some(fetched) = with_value(fetched) {
                        return Ok(fetched);
                    }
                }
                None => self.count_other_type(place.as_ref()),
            }
        }
        Box::pin(self.compute_value(key, function)).await
    }

    async fn compute_value<V, E, F, Fut>(&self, key: &str, function: F) -> Result<Fetched<V>, CallError<E>>
    where
        V: Cacheable,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<V, E>>,
    {
        let optional = || async { function().await.map(Some) };
        let fetched = self.compute(key, optional, false).await?;
        // "Nothing" is handed only to callers who asked for an option.
        with_value(fetched).ok_or_else(|| CallError::Cache(Error::new(ErrorKind::Internal, "no value was computed")))
    }

    /// `takes_nothing`: whether the caller is content with a remembered "nothing".
    async fn compute<V, E, F, Fut>(
        &self,
        key: &str,
        function: F,
        takes_nothing: bool,
    ) -> Result<Fetched<Option<V>>, CallError<E>>
    where
        V: Cacheable,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<V>, E>>,
    {
        let shared = &*self.shared;
        let place = self.place(key).map_err(CallError::Cache)?;
        if shared.is_closed() {
            let value = function().await.map_err(CallError::Function)?;
            let stored = Some(shared.skip(Reason::Closed));
            shared.events.missed();
            return Ok(computed(value, Some(Reason::Closed), stored));
        }
        let l2 = shared.l2().map_err(CallError::Cache)?;
        loop {
            let (fill, flight) = shared.activity.join::<V>(&place.key);
            if reentry::is_aboard(reentry::id(&*flight)) {
                let why = "the function asked for the key that it computes";
                return Err(CallError::Cache(Error::new(ErrorKind::Locked, why)));
            }
            let (lead, asks_l2) = match flight.board(shared.flight_wait).await {
                Boarding::Lead(lead) => (Some(lead), true),
                Boarding::TooLong => (None, true),
                // The leader has just asked.
                Boarding::Failed => (None, false),
                Boarding::Landed(fetched) if takes_nothing || fetched.value.is_some() => {
                    shared.events.shared();
                    shared.events.answered(fetched.source);
                    return Ok(fetched);
                }
                Boarding::Landed(_) => {
                    // The leader was content with nothing. One of those who are not leads the next flight.
                    fill.retire(&flight);
                    continue;
                }
                Boarding::Refused(error) => {
                    shared.events.missed();
                    return Err(CallError::Cache(error));
                }
            };
            let crew = Crew { place: &place, fill: &fill, flight: &flight, lead, asks_l2 };
            return self.run(&crew, l2, function, takes_nothing).await;
        }
    }

    /// The whole way of a miss, for everyone on the flight or for this caller alone.
    async fn run<V, E, F, Fut>(
        &self,
        crew: &Crew<'_, V>,
        l2: Option<&L2>,
        function: F,
        takes_nothing: bool,
    ) -> Result<Fetched<Option<V>>, CallError<E>>
    where
        V: Cacheable,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<V>, E>>,
    {
        let shared = &*self.shared;
        let key = &crew.place.key;
        let useful = |found: &Fetched<Option<V>>| takes_nothing || found.value.is_some();
        // Somebody may have stored it between this caller's look at L1 and its turn.
        match self.look_again(crew.place) {
            Ok(Some(found)) if useful(&found) => {
                crew.land(&found);
                return Ok(found);
            }
            Ok(_) => {}
            Err(error) => return Err(crew.refuse(error)),
        }
        let mut degraded = None;
        let mut access = match l2 {
            None => L2Access::None,
            Some(l2) => match l2.open().await {
                Ok(session) => L2Access::Open(session),
                Err(refusal) => {
                    degraded = Some(refusal.reason);
                    L2Access::Refused(refusal.reason)
                }
            },
        };
        if let L2Access::Open(mut session) = access {
            let read = if !crew.asks_l2 {
                Read::Missing { degraded: None, timed_out: false }
            } else if let Some(barrier) = self.may_read(crew.fill, key) {
                self.read_l2::<V>(&mut session, crew.place, crew.fill, &barrier).await
            } else {
                Read::Missing { degraded: Some(Reason::Unsynced), timed_out: false }
            };
            access = match read {
                Read::Found(found) if useful(&found) => {
                    crew.land(&found);
                    session.succeeded();
                    shared.events.answered(Source::L2);
                    return Ok(found);
                }
                Read::Found(_) => L2Access::Open(session),
                Read::Refused(error) => {
                    session.raised();
                    shared.events.missed();
                    return Err(crew.refuse(error));
                }
                Read::Missing { degraded: why, timed_out } => {
                    degraded = why;
                    if timed_out { L2Access::TimedOut(session) } else { L2Access::Open(session) }
                }
            };
        }
        let value = match reentry::aboard(reentry::id(&**crew.flight), function).await {
            Ok(value) => value,
            Err(error) => {
                crew.fail();
                access.raised();
                shared.events.missed();
                return Err(CallError::Function(error));
            }
        };
        shared.events.missed();
        let mut fetched = computed(value, degraded, None);
        fetched.stored = self
            .store_computed(crew.place, crew.fill, access, fetched.value.as_ref(), |last_chance| {
                crew.hand_out(&fetched);
                if last_chance {
                    crew.retire();
                }
            })
            .await;
        Ok(fetched)
    }
}

impl Cache {
    fn look_again<V: Cacheable>(&self, place: &Place<'_>) -> Result<Option<Fetched<Option<V>>>, Error> {
        let Some(slot) = self.shared.l1.as_ref().and_then(|l1| l1.get(&place.key)) else { return Ok(None) };
        self.fetch_from_l1(&slot, self.shared.sealer.is_some().then_some(place))
    }
}

/// Who computes: with a lead for everyone who waits, without one alone.
struct Crew<'a, V: Cacheable> {
    place: &'a Place<'a>,
    fill: &'a Fill<'a>,
    flight: &'a Arc<Flight<V>>,
    lead: Option<Lead<'a, V>>,
    asks_l2: bool,
}

impl<V: Cacheable> Crew<'_, V> {
    /// Hands on a value that a tier has.
    fn land(&self, fetched: &Fetched<Option<V>>) {
        self.hand_out(fetched);
        self.retire();
    }

    /// Wakes everyone who waits.
    fn hand_out(&self, fetched: &Fetched<Option<V>>) {
        if let Some(lead) = &self.lead {
            lead.land(fetched.clone());
        }
    }

    /// What did not authenticate is an error to everyone who waits, and nobody's function runs.
    fn refuse<E>(&self, error: Error) -> CallError<E> {
        if let Some(lead) = &self.lead {
            lead.refuse(error.clone());
        }
        self.retire();
        CallError::Cache(error)
    }

    fn fail(&self) {
        if let Some(lead) = &self.lead {
            lead.fail();
        }
        self.retire();
    }

    /// Lets nobody join any more.
    fn retire(&self) {
        if self.lead.is_some() {
            self.fill.retire(self.flight);
        }
    }
}

impl<V: Cacheable> Drop for Crew<'_, V> {
    fn drop(&mut self) {
        // A leader that leaves behind a flight which has landed: whoever comes now is to look for himself. One that has
        // not landed passes to the next in line.
        if self.flight.has_ended() {
            self.retire();
        }
    }
}

fn computed<V>(value: V, degraded: Option<Reason>, stored: Option<Stored>) -> Fetched<V> {
    Fetched { age: Duration::ZERO, degraded, source: Source::Computed, stored, value }
}

fn with_value<V>(fetched: Fetched<Option<V>>) -> Option<Fetched<V>> {
    let Fetched { age, degraded, source, stored, value } = fetched;
    Some(Fetched { age, degraded, source, stored, value: value? })
}
