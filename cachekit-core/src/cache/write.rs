//! Setting a value.

use super::activity::Write;
use super::envelope::Entry;
use super::outcome::{Reason, Stored};
use super::store::{Unsettled, Written};
use super::unsynced::Moment;
use super::{Cache, Cacheable, Error, Shared};
use crate::ErrorKind;
use crate::key::Key;
use crate::l1::Displaced;
use crate::l2::L2;
use crate::ttl::{Lifetime, Ttl};

impl Cache {
    /// Stores a value for as long as the cache's default time to live.
    ///
    /// What became of it is in the answer: after anything but [`Stored::Skipped`], this process reads it back at once;
    /// and whatever it is, no tier of this process serves the older value any more.
    ///
    /// # Errors
    ///
    /// [`KeyInvalid`](ErrorKind::KeyInvalid); [`Closed`](ErrorKind::Closed);
    /// [`ConfigInvalid`](ErrorKind::ConfigInvalid) when there is a backend and no Tokio runtime. A backend in trouble is
    /// no error.
    pub async fn set<V: Cacheable>(&self, key: &str, value: V) -> Result<Stored, Error> {
        self.set_for(key, value, self.ttl).await
    }

    /// Stores a value for as long as the call says.
    ///
    /// # Errors
    ///
    /// As [`set`](Self::set), and [`TtlInvalid`](ErrorKind::TtlInvalid) for zero.
    pub async fn set_with_ttl<V: Cacheable>(&self, key: &str, value: V, ttl: impl Into<Ttl>) -> Result<Stored, Error> {
        let ttl = Lifetime::parse(ttl.into())?.unwrap_or(self.ttl);
        self.set_for(key, value, ttl).await
    }

    async fn set_for<V: Cacheable>(&self, key: &str, value: V, ttl: Lifetime) -> Result<Stored, Error> {
        let shared = &*self.shared;
        let place = self.place(key)?;
        let key = &place.key;
        if shared.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "set: the cache is closed"));
        }
        let l2 = shared.l2()?;
        let prepared = self.prepare(&place, Some(&value), ttl);
        let Some(l2) = l2 else {
            let stored = match prepared {
                Ok(_) => Stored::Stored,
                Err(reason) => shared.skip(reason),
            };
            shared.activity.write_at_once(key, || match &prepared {
                Ok(entry) => shared.insert_into_l1(key, entry.slot.as_ref()),
                Err(_) => shared.remove_from_l1(key),
            });
            return Ok(stored);
        };
        Ok(match prepared {
            Ok(entry) => self.set_through(l2, key, entry).await,
            Err(reason) => self.drop_older(l2, key, reason).await,
        })
    }

    async fn set_through(&self, l2: &L2, key: &Key, entry: Entry) -> Stored {
        let shared = &*self.shared;
        let in_l1 = entry.slot.is_some();
        let write = shared.activity.write(key, Displaced::new);
        let mut session = match l2.open().await {
            Ok(session) => session,
            Err(refusal) => {
                let l1_only = shared.l1_during_outage && in_l1;
                write.settle(|_| {
                    if l1_only { shared.insert_into_l1(key, entry.slot.as_ref()) } else { shared.remove_from_l1(key) }
                });
                shared.mark_unsynced(key);
                return if l1_only { Stored::L1Only(refusal.reason) } else { Stored::Skipped(refusal.reason) };
            }
        };
        write.settle(|_| shared.insert_into_l1(key, entry.slot.as_ref()));
        let unsettled = Unsettled { shared, key, unless_current: None, armed: true };
        let since = shared.unsynced.moment();
        let written = shared.write_to_l2(&mut session, key, entry).await;
        if written.in_sync() {
            unsettled.settled();
        } else {
            drop(unsettled);
        }
        shared.settle(&write, key, written.in_sync().then_some(since));
        session.succeeded();
        match written {
            Written::Stored => Stored::Stored,
            Written::Not { why, .. } => shared.l1_only(why, in_l1),
        }
    }

    /// The new value cannot be stored anywhere; the older one is not to be served for it.
    async fn drop_older(&self, l2: &L2, key: &Key, reason: Reason) -> Stored {
        let shared = &*self.shared;
        let write = shared.activity.write(key, || shared.remove_from_l1(key));
        if reason == Reason::Seal {
            // Nothing reaches a tier, not even a delete: the older entry stays, and is not read.
            shared.mark_unsynced(key);
            return shared.skip(reason);
        }
        match l2.open().await {
            Ok(mut session) => {
                let since = shared.unsynced.moment();
                let deleted = shared.delete_older(&mut session, key).await;
                shared.settle(&write, key, deleted.then_some(since));
                session.succeeded();
            }
            Err(_) => shared.mark_unsynced(key),
        }
        drop(write);
        shared.skip(reason)
    }
}

impl Shared {
    /// Ends an explicit write. `in_sync`: the moment at which it was sent, if the L2 certainly holds nothing older.
    pub(super) fn settle(&self, write: &Write<'_>, key: &Key, in_sync: Option<Moment>) {
        if let Some(since) = in_sync {
            self.unsynced.synced(key, since);
        }
        // Which of two overlapping writes the L2 kept is for the L2 to say, not for the copy here.
        write.settle(|overlapped| if overlapped { self.remove_from_l1(key) } else { Displaced::new() });
    }
}
